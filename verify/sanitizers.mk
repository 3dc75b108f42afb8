# Tools that see what tests do not: races, memory errors, leaks, calls that may
# block where none may. No suppressions. Each must also find what is planted for
# it (verify/control.c).
.PHONY: tsan tsan-long asan asan-long rtsan memcheck memcheck-long miri miri-long
VERIFY_SHORT += tsan asan rtsan memcheck miri
VERIFY_LONG += tsan-long asan-long rtsan memcheck-long miri-long

need-valgrind = $(call need,valgrind --version,apt-get install valgrind)
need-miri = $(call need,cargo +nightly miri --version,\
	rustup component add --toolchain nightly miri rust-src)

# Under thread and address: a library and Rust tests with the tool in them. The
# first needs the standard library built with it too.
BUILD_STD_thread := -Zbuild-std
sanitized-cargo = RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=$(1) \
	CARGO_PROFILE_RELEASE_PANIC=unwind CARGO_TARGET_DIR=$(TARGET)/sanitize-$(1) \
	$(CARGO) $(2) -q --release --lib --target $(RUST_HOST) $(BUILD_STD_$(1))
sanitized-lib = $(TARGET)/sanitize-$(1)/$(RUST_HOST)/release/libhwheel.a

# Left out: a program in C++, those with an allocator or an mmap() of their own, and those
# that limit or measure the memory of the process, which is the tool's as well.
SANITIZED_TESTS := $(filter-out large_pages noalloc refused_errno resources small \
	trap_memory unwind,$(C_TESTS))

define sanitized
$(call sanitized-lib,$(1)): $(RUST_SOURCES)
	$$(call say,CARGO,$$@)
	$$(Q)$$(call sanitized-cargo,$(1),rustc) --features capi --crate-type staticlib
	$$(Q)touch -c $$@

clang-$(1) = $$(Q)mkdir -p $$(@D) && $(CLANG) -std=c11 -O1 -g -fsanitize=$(1) \
	-D_GNU_SOURCE -Iinclude -o $$@ $$< $(call sanitized-lib,$(1)) $(PRIVATE)

$(BUILD)/sanitize/$(1)/%: c-tests/%.c $(C_TEST_HEADERS) include/hwheel.h \
		$(call sanitized-lib,$(1))
	$$(call say,CLANG,$$@)
	$$(clang-$(1))

$(BUILD)/sanitize/verify-$(1)/%: verify/%.c verify/verify.h include/hwheel.h \
		$(call sanitized-lib,$(1))
	$$(call say,CLANG,$$@)
	$$(clang-$(1))

# A fault ends the process, as a test expects, and is not explained.
.PHONY: sanitized-tests-$(1)
sanitized-tests-$(1): $(SANITIZED_TESTS:%=$(BUILD)/sanitize/$(1)/%)
	$$(Q)ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0 KTAP_TIMEOUT=600 \
		c-tests/run.sh $(BUILD)/sanitize/$(1)
endef
$(foreach s,thread address,$(eval $(call sanitized,$(s))))

.PHONY: tsan-run tsan-long-run asan-run asan-long-run
tsan tsan-long asan asan-long:
	$(Q)$(need-sanitizers) $(record) $(again) $@-run

tsan-run: $(BUILD)/sanitize/verify-thread/stress $(BUILD)/sanitize/verify-thread/control \
		$(BUILD)/sanitize/several_loops $(BUILD)/several_loops_load
	$(call say,TSAN,10^6 operations)
	$(Q)$< -n 1000000
	$(call must-find,data race,$(word 2,$^) race)
	$(call say,TSAN,examples/several_loops.c)
	$(Q)TSAN_OPTIONS=halt_on_error=1 $(BUILD)/several_loops_load $(word 3,$^)

$(BUILD)/sanitize/several_loops: examples/several_loops.c include/hwheel.h \
		$(call sanitized-lib,thread)
	$(call say,CLANG,$@)
	$(clang-thread)

tsan-long-run: tsan-run sanitized-tests-thread
	$(call say,TSAN,10^8 operations and the Rust tests)
	$(Q)$(BUILD)/sanitize/verify-thread/stress -n 100000000
	$(Q)$(call sanitized-cargo,thread,test)

asan-run: $(BUILD)/sanitize/verify-address/stress $(BUILD)/sanitize/verify-address/control
	$(call say,ASAN,10^6 operations)
	$(Q)$< -n 1000000
	$(call must-find,heap-buffer-overflow,$(word 2,$^) overrun)
	$(call must-find,detected memory leaks,$(word 2,$^) leak)

asan-long-run: asan-run sanitized-tests-address
	$(call say,ASAN,the Rust tests)
	$(Q)$(call sanitized-cargo,address,test)

# The static library as it is installed; the tool's half of the C library comes first.
RTSAN = $(firstword $(wildcard $(RUST_LIB)/$(RUST_HOST)/lib/librustc-*_rt.rtsan.a))

rtsan:
	$(Q)$(call need,test -e "$(RTSAN)",a toolchain of rustup with RealtimeSanitizer) \
		$(record) $(again) $@-run

.PHONY: rtsan-run
rtsan-run: $(BUILD)/verify/realtime
	$(call say,RTSAN,what is not to block)
	$(Q)$(BUILD)/verify/realtime
	$(call must-find,unsafe function .malloc.,$(BUILD)/verify/realtime -a)
	$(call must-find,unsafe function .mmap.,$(BUILD)/verify/realtime -m)

$(BUILD)/verify/realtime: verify/realtime.c verify/verify.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -rdynamic -o $@ $< \
		-Wl,--whole-archive $(RTSAN) -Wl,--no-whole-archive $(STAGE_STATIC)

# The static library again, under valgrind's memcheck.
memcheck := valgrind -q --error-exitcode=9 --leak-check=full --fair-sched=yes
MEMCHECK_SHORT := advance arm cancel drain periodic poll
# Left out as well: forked children, which cannot free what threads of their
# parent held, and those that end in a signal handler and free nothing.
MEMCHECK_LONG := $(filter-out fork keys signals,$(SANITIZED_TESTS))

memcheck:
	$(Q)$(need-valgrind) $(record) $(again) $@-run TESTS='$(MEMCHECK_SHORT)'
memcheck-long:
	$(Q)$(need-valgrind) $(record) $(again) memcheck-run TESTS='$(MEMCHECK_LONG)'

.PHONY: memcheck-run
memcheck-run: $(TESTS:%=$(BUILD)/c-tests/static/%) $(BUILD)/verify/control
	$(call say,MEMORY,$(words $(TESTS)) C tests)
	$(Q)rm -rf $(BUILD)/memcheck && mkdir -p $(BUILD)/memcheck
	$(Q)ln $(TESTS:%=$(BUILD)/c-tests/static/%) $(BUILD)/memcheck
	$(Q)KTAP_TIMEOUT=900 KTAP_RUN='$(memcheck)' c-tests/run.sh $(BUILD)/memcheck
	$(call must-find,Invalid write,$(memcheck) $(BUILD)/verify/control overrun)
	$(call must-find,definitely lost,$(memcheck) $(BUILD)/verify/control leak)

# The core's Rust tests that fit an interpreter, on SEEDS schedules each. Its
# flags set the environment; cargo's own would be that of the first build. Left
# out: a test of arithmetic alone that takes four million steps.
MIRI_TESTS := slab:: keys:: two_threads a_few_operations a_stale_handle \
	--skip the_shared_tick
MIRI_FLAGS := -Zmiri-strict-provenance -Zmiri-disable-isolation
miri-test = CARGO_TARGET_DIR=$(TARGET)/$(1) MIRIFLAGS='$(MIRI_FLAGS) $(2)' \
	$(CARGO) +nightly miri test -q --lib --

miri:
	$(Q)$(need-miri) $(record) $(again) miri-run SEEDS=2 CASES=2
miri-long:
	$(Q)$(need-miri) $(record) $(again) miri-run SEEDS=64 CASES=4

.PHONY: miri-run
miri-run:
	$(call say,MIRI,$(SEEDS) seeds)
	$(Q)mkdir -p $(BUILD)/miri
	$(Q)$(call miri-test,miri,-Zmiri-many-seeds=0..$(SEEDS) \
		-Zmiri-env-set=PROPTEST_CASES=$(CASES)) $(MIRI_TESTS) \
		>$(BUILD)/miri/log 2>&1 || { cat $(BUILD)/miri/log; exit 1; }
	$(Q)awk '/^test result: ok/ { seeds++; tests = $$4 } \
		END { print "    figures: " tests " tests on " seeds + 0 " schedules each"; \
			exit seeds != $(SEEDS) || tests == 0 }' $(BUILD)/miri/log
