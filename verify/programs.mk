# Programs against the library as it is installed, and the C tests on each platform.

# How a program of this directory is built: against the installed library.

$(BUILD)/verify/%: verify/%.c verify/verify.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -o $@ $< $(STAGE_SHARED) \
		-lpthread -ldl

# Runs a program that may say that it cannot run here.
verify-run = $(Q)$(1) || [ $$? -eq 4 ]

# Stress, and stress of a library whose threads dawdle at every atomic access.
.PHONY: stress stress-long chaos chaos-long
VERIFY_SHORT += stress chaos
VERIFY_LONG += stress-long chaos-long

# How long the long forms are.
STRESS_OPERATIONS ?= 1000000000
CHAOS_OPERATIONS ?= 10000000

stress: $(BUILD)/verify/stress
	$(call say,STRESS,10 seconds)
	$(Q)$(record) $< -s 10

stress-long: $(BUILD)/verify/stress
	$(call say,STRESS,$(STRESS_OPERATIONS) operations)
	$(Q)$(record) $< -n $(STRESS_OPERATIONS)

CHAOS := $(TARGET)/chaos/release/libhwheel.a
IN_CHAOS = RUSTFLAGS="$$RUSTFLAGS --cfg chaos" CARGO_TARGET_DIR=$(TARGET)/chaos

$(CHAOS): $(RUST_SOURCES)
	$(call say,CARGO,$@)
	$(Q)$(IN_CHAOS) $(CARGO) rustc $(if $(V),,-q) \
		--release --lib --crate-type staticlib --features capi
	$(Q)touch -c $@

$(BUILD)/verify/stress-chaos: verify/stress.c verify/verify.h $(CHAOS) $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -I$(STAGE)/include \
		-o $@ $< $(CHAOS) $(STD_PRIVATE)

chaos: $(BUILD)/verify/stress-chaos
	$(call say,CHAOS,10 seconds)
	$(Q)$(record) $< -r -s 10

# The simulation is of one thread, which nobody can overtake.
ifndef MEASURED
chaos-long:
	$(Q)$(measure)
else
chaos-long: $(BUILD)/verify/stress-chaos
	$(call say,CHAOS,$(CHAOS_OPERATIONS) operations and the Rust tests)
	$(Q)$< -r -n $(CHAOS_OPERATIONS)
	$(Q)$(IN_CHAOS) $(CARGO) test -q -- --skip simulation::
endif

# The freeze probe: a thread stopped anywhere blocks no other; and the
# same load under a mutex, where the probe must find stalls.
.PHONY: freeze freeze-long
VERIFY_SHORT += freeze
VERIFY_LONG += freeze-long

# How long the long form is.
FREEZES ?= 10000
FREEZES_MUTEX := 20

freeze: FREEZES := 200
freeze: FREEZES_MUTEX := 5
freeze freeze-long: $(BUILD)/verify/freeze
	$(call say,FREEZE,$(FREEZES) times a role)
	$(call verify-run,$(record) sh -c '$< $(FREEZES) && $< -m $(FREEZES_MUTEX)')

# 64 threads, three wheels, lives, forks and clock steps: an hour, or a minute.
.PHONY: soak soak-short
VERIFY_SHORT += soak-short
VERIFY_LONG += soak

SOAK ?= 3600

soak-short: SOAK := 60
soak soak-short: $(BUILD)/verify/soak
	$(call say,SOAK,$(SOAK) seconds)
	$(Q)$(record) $< $(SOAK)

# Linked with the static library, which finds the program's clock.
$(BUILD)/verify/soak: verify/soak.c verify/verify.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -o $@ $< $(STAGE_STATIC)

# Faults: the system refuses what the library asks of it, or misbehaves; and the
# library is loaded, unloaded and loaded again.
.PHONY: system-faults system-faults-long
VERIFY_SHORT += system-faults
VERIFY_LONG += system-faults-long

FAULTS := $(BUILD)/verify/refused $(BUILD)/verify/disturbed $(BUILD)/verify/unload
system-faults-run = $(Q)$(1) $(record) sh -ec '$(foreach p,$(FAULTS),$(p);)'

system-faults: $(FAULTS)
	$(call say,FAULTS,one by one)
	$(call system-faults-run,)

system-faults-long: $(FAULTS)
	$(call say,FAULTS,at length)
	$(call system-faults-run,HWHEEL_LONG=1)

# Linked with the static library, whose calls are wrapped.
$(BUILD)/verify/refused: WRAPPED := malloc calloc realloc posix_memalign mmap \
	munmap timerfd_create pthread_create pthread_key_create pthread_setspecific
$(BUILD)/verify/disturbed: WRAPPED := read clock_gettime timerfd_create \
	timerfd_settime
$(BUILD)/verify/refused $(BUILD)/verify/disturbed: $(BUILD)/verify/%: verify/%.c \
		verify/faults.h c-tests/child.h c-tests/ktap.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -Ic-tests -o $@ $< \
		$(WRAPPED:%=-Wl,--wrap=%) $(STAGE_STATIC)

# Not linked with the library: it loads it.
$(BUILD)/verify/unload: verify/unload.c c-tests/ktap.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -Ic-tests \
		-I$(STAGE)/include -DLIBRARY='"$(STAGE)/lib/$(SONAME)"' -o $@ $< \
		-lpthread -ldl

# The C tests on each platform. What is not of this machine's processor runs under an
# emulator: it shows what the library does there, not what weak ordering does to it.
.PHONY: test-platforms
VERIFY_LONG += test-platforms
ifndef MEASURED
test-platforms:
	$(Q)$(measure)
else
test-platforms: $(PLATFORMS:%=test-c-%)
endif

# With musl: not C++, of which Debian has no library for it, nor the test that takes
# the place of glibc's allocator by its own names. Under the emulator: not what measures
# or limits the memory of its process, which includes the emulator's, or what replaces the
# allocator or the pages; nor fork, as the emulator ignores MADV_WIPEONFORK; nor what
# looks at the blocked signals of a thread, of which the emulator keeps some.
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
		$(MAKE) --no-print-directory $(call platform,$*) \
		CPPFLAGS='$(CPPFLAGS)$(call kernel-headers,$*)' C_TESTS='$(filter-out $(call \
			left-out,$*),$(C_TESTS))' check-needs check-loading test-c
