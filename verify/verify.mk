# The programs of the verification.

# Programs against the installed library.
define verify-cc
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -o $@ $< $(1)
endef
VERIFY_HEADERS := verify/verify.h benches/bench.h
$(BUILD)/verify/%: verify/%.c $(VERIFY_HEADERS) $(STAGE)/.done
	$(call verify-cc,$(STAGE_SHARED) -lpthread -ldl)

# Linked with the static library, whose calls are wrapped.
$(BUILD)/verify/refused: WRAPPED := malloc calloc realloc posix_memalign mmap \
	munmap timerfd_create pthread_create pthread_key_create pthread_setspecific
$(BUILD)/verify/disturbed: WRAPPED := read clock_gettime timerfd_create \
	timerfd_settime
$(BUILD)/verify/refused $(BUILD)/verify/disturbed: $(BUILD)/verify/%: verify/%.c \
		$(addprefix c-tests/,counted.h child.h ktap.h) $(STAGE)/.done
	$(call verify-cc,-Ic-tests $(WRAPPED:%=-Wl,--wrap=%) $(STAGE_STATIC))

# The static library as it is installed; the tool's half of the C library comes first.
RTSAN = $(firstword $(wildcard $(RUST_LIB)/$(RUST_HOST)/lib/librustc-*_rt.rtsan.a))
$(BUILD)/verify/realtime: verify/realtime.c $(VERIFY_HEADERS) $(STAGE)/.done
	$(call verify-cc,-rdynamic -Wl$(comma)--whole-archive $(RTSAN) -Wl$(comma)--no-whole-archive $(STAGE_STATIC))

# Counts instructions.
$(BENCH)/cost-program: verify/cost.c $(VERIFY_HEADERS)
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD)

# The C tests on a platform. With musl: not C++, of which Debian has no library for it, nor
# the test that takes the place of glibc's allocator by its own names. Under the emulator: not
# what measures or limits the memory of its process, which includes the emulator's, or what
# replaces the allocator or the pages; nor fork, as the emulator ignores MADV_WIPEONFORK; nor
# what looks at the blocked signals of a thread, of which the emulator keeps some.
left-out = $(if $(findstring musl,$(1)),unwind noalloc) \
	$(if $(call emulator,$(1)),errno fork keys large_pages noalloc \
	resources small thread)

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

# The library built with a tool in it: sanitizers, and the fuzzers.

# Under thread and address: a library and Rust tests with the tool in them. The
# first needs the standard library built with it too.
BUILD_STD_thread := -Zbuild-std
sanitized-cargo = RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=$(1) --cfg sanitized' \
	CARGO_PROFILE_RELEASE_PANIC=unwind CARGO_TARGET_DIR=$(TARGET)/sanitize-$(1) \
	$(CARGO) $(2) -q --release --lib --target $(RUST_HOST) $(BUILD_STD_$(1))
sanitized-lib = $(TARGET)/sanitize-$(1)/$(RUST_HOST)/release/libhwheel.a

# Left out: a program in C++, those with an allocator or an mmap() of their own, and those
# that limit or measure the memory of the process, which is the tool's as well.
NOT_SANITIZED := large_pages memory noalloc resources small unwind

define sanitized
$(call sanitized-lib,$(1)): $(RUST_SOURCES)
	$$(call say,CARGO,$$@)
	$$(Q)$$(call sanitized-cargo,$(1),rustc) --features capi --crate-type staticlib
	$$(Q)touch -c $$@

clang-$(1) = $$(Q)mkdir -p $$(@D) && $(CLANG) -std=c11 -O1 -g -fsanitize=$(1) \
	-D_GNU_SOURCE -Iinclude -o $$@ $$< $(call sanitized-lib,$(1)) $(STD_PRIVATE)

$(BUILD)/sanitize/$(1)/%: c-tests/%.c $(C_TEST_HEADERS) include/hwheel.h \
		$(call sanitized-lib,$(1))
	$$(call say,CLANG,$$@)
	$$(clang-$(1))

$(BUILD)/sanitize/verify-$(1)/%: verify/%.c $(VERIFY_HEADERS) include/hwheel.h \
		$(call sanitized-lib,$(1))
	$$(call say,CLANG,$$@)
	$$(clang-$(1))

rust-tests-$(1): force
	$$(Q)$$(call sanitized-cargo,$(1),test)

endef
$(foreach s,thread address,$(eval $(call sanitized,$(s))))

$(BUILD)/sanitize/several_loops: examples/several_loops.c include/hwheel.h \
		$(call sanitized-lib,thread)
	$(call say,CLANG,$@)
	$(clang-thread)

# The library counts the edges that it takes, for the fuzzer to go by.
FUZZ_LIB := $(TARGET)/fuzz/$(RUST_HOST)/release/libhwheel.a
FUZZ_COUNTS := -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table
FUZZ_FLAGS := -Zsanitizer=address $(FUZZ_COUNTS) \
	-Cllvm-args=-asan-use-after-return=never \
	-Cllvm-args=-asan-destructor-kind=none

$(FUZZ_LIB): $(RUST_SOURCES) verify/verify.mk
	$(call say,CARGO,$@)
	$(Q)RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR=$(TARGET)/fuzz \
		CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true $(CARGO) rustc -q --release \
		--lib --features capi --crate-type staticlib --target $(RUST_HOST)
	$(Q)touch -c $@

$(BUILD)/fuzz/api: c-tests/differential.c verify/fuzz/mappings.c $(C_TEST_HEADERS) \
		include/hwheel.h $(FUZZ_LIB)
	$(call say,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=c11 -O2 -g $(WARN) -D_GNU_SOURCE -fsanitize=fuzzer,address \
		-fno-sanitize-coverage=trace-cmp -fsanitize-address-use-after-return=never \
		-Wl,--wrap=mmap,--wrap=munmap \
		-DFUZZER -Iinclude -o $@ $(filter %.c,$^) $(FUZZ_LIB) $(STD_PRIVATE)

# Under the randomized model checker, which runs the threads in the order that the input
# says. Its stacks change in a way that AddressSanitizer does not follow.
FUZZ_THREADS_LIB := $(TARGET)/fuzz-threads/release/libhwheel.a
FUZZ_THREADS_SOURCES := $(RUST_SOURCES) $(wildcard src/tests/*/*/*.rs src/tests/*/*/*/*.rs)

# With the tests, but for the functions that cargo would call.
FUZZ_THREADS_CFG := --cfg fuzzed --cfg test -Aexplicit-builtin-cfgs-in-flags \
	-Adead-code -Aunused-imports

$(FUZZ_THREADS_LIB): $(FUZZ_THREADS_SOURCES) verify/verify.mk
	$(call say,CARGO,$@)
	$(Q)RUSTC_BOOTSTRAP=1 RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=$(TARGET)/fuzz-threads \
		CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off \
		CARGO_PROFILE_RELEASE_PANIC=unwind $(CARGO) rustc -q --release \
		--lib --crate-type staticlib -- $(FUZZ_THREADS_CFG) $(FUZZ_COUNTS)
	$(Q)touch -c $@

$(BUILD)/fuzz/threads/program: $(FUZZ_THREADS_LIB)
	$(call say,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -fsanitize=fuzzer -o $@ $< $(STD_PRIVATE)

