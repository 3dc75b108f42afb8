# The library built with a tool in it, or run under one: sanitizers, the fuzzers, coverage.

RUST_HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
RUST_LIB := $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib
CLANG ?= clang-19
need-sanitizers = $(call need,$(CLANG) --version,apt-get install clang-19 libclang-rt-19-dev) \
	$(call need,test -d $(RUST_LIB)/src,rustup component add rust-src)
again = $(MAKE) --no-print-directory

# $(call must-find,what the tool says,command): the command fails, and so.
must-find = @mkdir -p $(BUILD)/found; \
	if $(strip $(2)) >$(BUILD)/found/$@.log 2>&1; then \
		echo 'not found: $(1)'; exit 1; fi; \
	grep -q '$(1)' $(BUILD)/found/$@.log || { cat $(BUILD)/found/$@.log; exit 1; }; \
	echo '    figures: found what was planted: $(1)'

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
sanitized-cargo = RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=$(1) --cfg sanitized' \
	CARGO_PROFILE_RELEASE_PANIC=unwind CARGO_TARGET_DIR=$(TARGET)/sanitize-$(1) \
	$(CARGO) $(2) -q --release --lib --target $(RUST_HOST) $(BUILD_STD_$(1))
sanitized-lib = $(TARGET)/sanitize-$(1)/$(RUST_HOST)/release/libhwheel.a

# Left out: a program in C++, those with an allocator or an mmap() of their own, and those
# that limit or measure the memory of the process, which is the tool's as well.
SANITIZED_TESTS := $(filter-out large_pages memory noalloc refused_errno resources small \
	trap_memory unwind,$(C_TESTS))

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

$(BUILD)/sanitize/verify-$(1)/%: verify/%.c verify/verify.h include/hwheel.h \
		$(call sanitized-lib,$(1))
	$$(call say,CLANG,$$@)
	$$(clang-$(1))

endef
$(foreach s,thread address,$(eval $(call sanitized,$(s))))

# A fault ends the process, as a test expects, and is not explained.
sanitized-tests = $(Q)ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0 KTAP_TIMEOUT=600 \
	c-tests/run.sh $(BUILD)/sanitize/$(1)

$(BUILD)/sanitize/several_loops: examples/several_loops.c include/hwheel.h \
		$(call sanitized-lib,thread)
	$(call say,CLANG,$@)
	$(clang-thread)

ifndef MEASURED
tsan tsan-long asan asan-long:
	$(Q)$(need-sanitizers) $(measure)
else
tsan: $(BUILD)/sanitize/verify-thread/stress $(BUILD)/sanitize/verify-thread/control \
		$(BUILD)/sanitize/several_loops $(BUILD)/several_loops_load
	$(call say,TSAN,10^6 operations)
	$(Q)$< -n 1000000
	$(call must-find,data race,$(word 2,$^) race)
	$(call say,TSAN,examples/several_loops.c)
	$(Q)TSAN_OPTIONS=halt_on_error=1 $(BUILD)/several_loops_load $(word 3,$^)

# How long the long form is.
TSAN_OPERATIONS ?= 100000000

tsan-long: tsan $(SANITIZED_TESTS:%=$(BUILD)/sanitize/thread/%)
	$(call sanitized-tests,thread)
	$(call say,TSAN,$(TSAN_OPERATIONS) operations and the Rust tests)
	$(Q)$(BUILD)/sanitize/verify-thread/stress -n $(TSAN_OPERATIONS)
	$(Q)$(call sanitized-cargo,thread,test)

asan: $(BUILD)/sanitize/verify-address/stress $(BUILD)/sanitize/verify-address/control
	$(call say,ASAN,10^6 operations)
	$(Q)$< -n 1000000
	$(call must-find,heap-buffer-overflow,$(word 2,$^) overrun)
	$(call must-find,detected memory leaks,$(word 2,$^) leak)

asan-long: asan $(SANITIZED_TESTS:%=$(BUILD)/sanitize/address/%)
	$(call sanitized-tests,address)
	$(call say,ASAN,the Rust tests)
	$(Q)$(call sanitized-cargo,address,test)
endif

# The static library as it is installed; the tool's half of the C library comes first.
RTSAN = $(firstword $(wildcard $(RUST_LIB)/$(RUST_HOST)/lib/librustc-*_rt.rtsan.a))

ifndef MEASURED
rtsan:
	$(Q)$(call need,test -e "$(RTSAN)",a toolchain of rustup with RealtimeSanitizer) \
		$(measure)
else
rtsan: $(BUILD)/verify/realtime
	$(call say,RTSAN,what is not to block)
	$(Q)$(BUILD)/verify/realtime
	$(call must-find,unsafe function .malloc.,$(BUILD)/verify/realtime -a)
	$(call must-find,unsafe function .mmap.,$(BUILD)/verify/realtime -m)
endif

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

ifndef MEASURED
memcheck: TESTS = $(MEMCHECK_SHORT)
memcheck-long: TESTS = $(MEMCHECK_LONG)
memcheck memcheck-long:
	$(Q)$(need-valgrind) $(measure) TESTS='$(TESTS)'
else
memcheck memcheck-long: $(TESTS:%=$(BUILD)/c-tests/static/%) $(BUILD)/verify/control
	$(call say,MEMORY,$(words $(TESTS)) C tests)
	$(Q)rm -rf $(BUILD)/memcheck && mkdir -p $(BUILD)/memcheck
	$(Q)ln $(TESTS:%=$(BUILD)/c-tests/static/%) $(BUILD)/memcheck
	$(Q)KTAP_TIMEOUT=900 KTAP_RUN='$(memcheck)' c-tests/run.sh $(BUILD)/memcheck
	$(call must-find,Invalid write,$(memcheck) $(BUILD)/verify/control overrun)
	$(call must-find,definitely lost,$(memcheck) $(BUILD)/verify/control leak)
endif

# The core's Rust tests that fit an interpreter, on SEEDS schedules each. Its
# flags set the environment; cargo's own would be that of the first build. Left
# out: a test of arithmetic alone that takes four million steps.
MIRI_TESTS := slab:: keys:: two_threads a_few_operations a_stale_handle \
	--skip the_shared_tick
MIRI_FLAGS := -Zmiri-strict-provenance -Zmiri-disable-isolation
miri-test = CARGO_TARGET_DIR=$(TARGET)/$(1) MIRIFLAGS='$(MIRI_FLAGS) $(2)' \
	$(CARGO) +nightly miri test -q --lib --

ifndef MEASURED
miri:
	$(Q)$(need-miri) $(measure) SEEDS=2 CASES=2
miri-long:
	$(Q)$(need-miri) $(measure) SEEDS=64 CASES=4
else
miri miri-long:
	$(call say,MIRI,$(SEEDS) seeds)
	$(Q)mkdir -p $(BUILD)/miri
	$(Q)$(call miri-test,miri,-Zmiri-many-seeds=0..$(SEEDS) \
		-Zmiri-env-set=PROPTEST_CASES=$(CASES)) $(MIRI_TESTS) \
		>$(BUILD)/miri/log 2>&1 || { cat $(BUILD)/miri/log; exit 1; }
	$(Q)awk '/^test result: ok/ { seeds++; tests = $$4 } \
		END { print "    figures: " tests " tests on " seeds + 0 " schedules each"; \
			exit seeds != $(SEEDS) || tests == 0 }' $(BUILD)/miri/log
endif

# The C functions fuzzed by one thread, verify/fuzz/api.c, and the wheels that ship
# fuzzed by several, src/tests/shuttle/host/bytes.rs. A corpus is what reaches new code,
# an input in hexadecimal digits on each line; `make fuzz-corpus` renews both from what a
# long run has found.
.PHONY: fuzz fuzz-long fuzz-corpus
VERIFY_SHORT += fuzz
VERIFY_LONG += fuzz-long

# The long form ends after this number of seconds; 0 is never.
FUZZ_SECONDS ?= 0
FUZZ_JOBS ?= $(shell nproc)

# The library counts the edges that it takes, for the fuzzer to go by.
FUZZ_LIB := $(TARGET)/fuzz/$(RUST_HOST)/release/libhwheel.a
FUZZ_COUNTS := -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table
FUZZ_FLAGS := -Zsanitizer=address $(FUZZ_COUNTS) \
	-Cllvm-args=-asan-use-after-return=never \
	-Cllvm-args=-asan-destructor-kind=none
FUZZ_CORPUS := $(BUILD)/fuzz/corpus

$(FUZZ_LIB): $(RUST_SOURCES) verify/instrumented.mk
	$(call say,CARGO,$@)
	$(Q)RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR=$(TARGET)/fuzz \
		CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true $(CARGO) rustc -q --release \
		--lib --features capi --crate-type staticlib --target $(RUST_HOST)
	$(Q)touch -c $@

$(BUILD)/fuzz/api: verify/fuzz/api.c verify/fuzz/table.c verify/fuzz/mappings.c \
		verify/fuzz/table.h verify/verify.h include/hwheel.h $(FUZZ_LIB)
	$(call say,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -std=c11 -O2 -g $(WARN) -D_GNU_SOURCE -fsanitize=fuzzer,address \
		-fno-sanitize-coverage=trace-cmp -fsanitize-address-use-after-return=never \
		-Wl,--wrap=mmap,--wrap=munmap \
		-Iinclude -o $@ $(filter %.c,$^) $(FUZZ_LIB) $(STD_PRIVATE)

# Under the randomized model checker, which runs the threads in the order that the input
# says. Its stacks change in a way that AddressSanitizer does not follow.
FUZZ_THREADS_LIB := $(TARGET)/fuzz-threads/release/libhwheel.a
FUZZ_THREADS_CORPUS := $(BUILD)/fuzz/threads-corpus
FUZZ_THREADS_SOURCES := $(RUST_SOURCES) $(wildcard src/tests/*/*/*.rs src/tests/*/*/*/*.rs)

# With the tests, but for the functions that cargo would call.
FUZZ_THREADS_CFG := --cfg fuzzed --cfg test -Aexplicit-builtin-cfgs-in-flags \
	-Adead-code -Aunused-imports

$(FUZZ_THREADS_LIB): $(FUZZ_THREADS_SOURCES) verify/instrumented.mk
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

ifndef MEASURED
fuzz:
	$(Q)rm -rf $(BUILD)/fuzz/short $(BUILD)/fuzz/threads-short
	$(Q)$(need-sanitizers) $(measure) RUNS=100000 THREADS_RUNS=10000 FUZZ_SECONDS=0 \
		FUZZ_CORPUS=$(BUILD)/fuzz/short FUZZ_THREADS_CORPUS=$(BUILD)/fuzz/threads-short
fuzz-long:
	$(Q)$(need-sanitizers) $(measure) RUNS=10000000 THREADS_RUNS=1000000
else
fuzz fuzz-long: $(BUILD)/fuzz/api $(BUILD)/fuzz/threads/program
	$(call say,FUZZ,$(RUNS) executions)
	$(Q)verify/fuzz/run.sh $< $(FUZZ_JOBS) $(RUNS) $(FUZZ_SECONDS) \
		$(FUZZ_CORPUS) verify/fuzz/api.corpus
	$(call say,FUZZ,$(THREADS_RUNS) executions of several threads)
	$(Q)verify/fuzz/run.sh $(word 2,$^) $(FUZZ_JOBS) $(THREADS_RUNS) $(FUZZ_SECONDS) \
		$(FUZZ_THREADS_CORPUS) verify/fuzz/threads.corpus
endif

# The fewest that still take every edge that any of them takes.
fuzz-corpus: $(BUILD)/fuzz/api $(BUILD)/fuzz/threads/program
	$(call keep,$(BUILD)/fuzz/api,verify/fuzz/api.corpus,$(FUZZ_CORPUS))
	$(call keep,$(BUILD)/fuzz/threads/program,verify/fuzz/threads.corpus,$(FUZZ_THREADS_CORPUS))

# $(call keep,program,what is kept,what a long run has found)
define keep
	$(call say,FUZZ,$(2))
	$(Q)rm -rf $(BUILD)/fuzz/cover && mkdir -p $(BUILD)/fuzz/cover $(3)
	$(Q)verify/fuzz/corpus.sh unpack $(2) $(BUILD)/fuzz/kept
	$(Q)$(1) -set_cover_merge=1 -use_counters=0 -max_len=600 -verbosity=0 \
		$(BUILD)/fuzz/cover $(BUILD)/fuzz/kept $(3)
	$(Q)verify/fuzz/corpus.sh pack $(BUILD)/fuzz/cover $(2)
endef

# The lines and branches of the core that the tests execute.
.PHONY: coverage
VERIFY_LONG += coverage

LLVM_BIN = $(RUST_LIB)/$(RUST_HOST)/bin

# The library and all that is linked with it once more, elsewhere, with counters,
# atomic ones. exit() writes them, so _exit() of a forked child is made that.
# Without debug assertions, which are branches that nothing takes.
COVERAGE = RUSTC_BOOTSTRAP=1 LLVM_PROFILE_FILE=/dev/null \
	RUSTFLAGS='-Cinstrument-coverage -Zcoverage-options=branch \
		-Cllvm-args=-instrprof-atomic-counter-update-all' \
	CARGO_PROFILE_TEST_DEBUG_ASSERTIONS=false CARGO_PROFILE_RELEASE_LTO=off \
	$(again) BUILD=$(BUILD)/coverage CARGO_TARGET_DIR=$(TARGET)/coverage \
	CFLAGS='$(CFLAGS) -D_exit=exit -Wl,-u,__llvm_profile_runtime' \
	LDFLAGS=-Wl,-u,__llvm_profile_runtime

ifndef MEASURED
coverage:
	$(Q)$(call need,$(LLVM_BIN)/llvm-cov --version,rustup component add llvm-tools) \
		$(record) env $(COVERAGE) coverage MEASURED=1
endif

# Left out: a test that measures the memory of its process, which the counters use as
# well. A test that fails, as one may that sleeps on a busy machine, or that counters make
# too slow, is shown and counts all the same: `make test` is where all must pass.
# Left out: where all memory is refused, the counters of the coverage complain.
COVERED_TESTS := $(filter-out small,$(C_TESTS))
ifdef MEASURED
coverage: $(COVERED_TESTS:%=$(BUILD)/c-tests/shared/%) $(BUILD)/verify/refused \
		$(BUILD)/verify/stress
	$(call say,COVER,the Rust and C tests and a short stress)
	$(Q)rm -f $(BUILD)/*.profraw
	$(Q)$(CARGO) test -q --lib --tests --no-run --message-format=json | \
		sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' > $(BUILD)/programs
	$(Q)export LLVM_PROFILE_FILE='$(abspath $(BUILD))/%m.profraw' HWHEEL_SEEDS=200; \
		for program in $$(cat $(BUILD)/programs); do $$program -q || exit 1; done; \
		KTAP_TIMEOUT=600 c-tests/run.sh $(BUILD)/c-tests/shared; \
		$(BUILD)/verify/refused 2> $(BUILD)/refused.log; \
		$(BUILD)/verify/stress -n 1000000
	$(Q)$(LLVM_BIN)/llvm-profdata merge -sparse -o $(BUILD)/all.profdata \
		$(BUILD)/*.profraw
# It warns of the C functions, which are in both the library and the Rust tests.
	$(Q)$(LLVM_BIN)/llvm-cov export -instr-profile=$(BUILD)/all.profdata $(SHARED) \
		-object $(BUILD)/verify/refused $$(sed 's/^/-object /' $(BUILD)/programs) \
		> $(BUILD)/all.json 2> $(BUILD)/llvm-cov.log
	$(Q)verify/coverage.py $(BUILD)/all.json
endif
