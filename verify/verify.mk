# The programs of the verification.

# Programs against the installed library.
define verify-cc
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -o $@ $< $(1)
endef
$(BUILD)/verify/%: verify/%.c verify/verify.h $(STAGE)/.done
	$(call verify-cc,$(STAGE_SHARED) -lpthread -ldl)

# Linked with the static library, whose calls are wrapped.
$(BUILD)/verify/refused: WRAPPED := malloc calloc realloc posix_memalign mmap \
	munmap timerfd_create pthread_create pthread_key_create pthread_setspecific
$(BUILD)/verify/disturbed: WRAPPED := read clock_gettime timerfd_create \
	timerfd_settime
$(BUILD)/verify/refused $(BUILD)/verify/disturbed: $(BUILD)/verify/%: verify/%.c \
		verify/faults.h c-tests/child.h c-tests/ktap.h $(STAGE)/.done
	$(call verify-cc,-Ic-tests $(WRAPPED:%=-Wl,--wrap=%) $(STAGE_STATIC))

# Not linked with the library: it loads it.
$(BUILD)/verify/unload: verify/unload.c c-tests/ktap.h $(STAGE)/.done
	$(call verify-cc,-Ic-tests -I$(STAGE)/include -DLIBRARY='"$(STAGE)/lib/$(SONAME)"' -lpthread -ldl)

# The static library as it is installed; the tool's half of the C library comes first.
RTSAN = $(firstword $(wildcard $(RUST_LIB)/$(RUST_HOST)/lib/librustc-*_rt.rtsan.a))
$(BUILD)/verify/realtime: verify/realtime.c verify/verify.h $(STAGE)/.done
	$(call verify-cc,-rdynamic -Wl$(comma)--whole-archive $(RTSAN) -Wl$(comma)--no-whole-archive $(STAGE_STATIC))

# Counts instructions.
$(BENCH)/cost-program: verify/cost.c
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD)

# The C tests on a platform. With musl: not C++, of which Debian has no library for it, nor
# the test that takes the place of glibc's allocator by its own names. Under the emulator: not
# what measures or limits the memory of its process, which includes the emulator's, or what
# replaces the allocator or the pages; nor fork, as the emulator ignores MADV_WIPEONFORK; nor
# what looks at the blocked signals of a thread, of which the emulator keeps some.
left-out = $(if $(findstring musl,$(1)),unwind noalloc) \
	$(if $(call emulator,$(1)),errno fork keys large_pages noalloc refused_errno \
		resources small thread trap_memory)

# Debian's musl comes without the headers of the kernel.
kernel-headers = $(if $(findstring musl,$(1)),$(addprefix $(space)-idirafter ,/usr/include \
	/usr/include/$(call processor,$(1))-linux-gnu /usr/$(call processor,$(1))-linux-gnu/include))

test-c-%: force
	$(Q)$(call need-platform,$*) \
		$(call need,$(call processor,$*)-linux-gnu-g++ --version,apt-get install g++-$(subst \
			_,-,$(call processor,$*))-linux-gnu) \
		$(if $(call emulator,$*),$(call need,$(firstword $(call emulator,$*)) \
			--version,apt-get install qemu-user)) \
		echo '  TEST    $*$(if $(strip $(call left-out,$*)),$(comma) without $(sort \
			$(call left-out,$*)))'; \
		$(if $(call emulator,$*),KTAP_TIMEOUT=600 KTAP_RUN='$(call emulator,$*)') \
		$(again) $(call platform,$*) CPPFLAGS='$(CPPFLAGS)$(call kernel-headers,$*)' \
		C_TESTS='$(filter-out $(call left-out,$*),$(C_TESTS))' check CHECK='needs loading c'

# Measures the library of a platform into a file of its name, for checks/sizes. What an
# emulator runs has no figures of a process: they would be those of the emulator, too.
size-of-%: force
	$(Q)$(call need-platform,$*) \
		$(again) -s $(call platform,$*) lib && \
		c-tests/sizes.sh '$(call platform-cc,$*)' $(BUILD)/$*/libhwheel.so.$(VERSION) \
			$(BUILD)/$*/libhwheel.a '$(PRIVATE)' > $(BUILD)/sizes/$* && \
		{ [ -n '$(call emulator,$*)' ] || { \
		$(call platform-cc,$*) -std=c11 $(WARN) -O2 -D_GNU_SOURCE -Iinclude$(call \
			kernel-headers,$*) -o $(BUILD)/sizes/.cost c-tests/loading/cost.c -ldl && \
		$(BUILD)/sizes/.cost '$(abspath $(BUILD))/$*/libhwheel.so.$(VERSION)' >> $(BUILD)/sizes/$*; }; }
