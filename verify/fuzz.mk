# The C functions fuzzed by one thread, verify/fuzz/api.c, and the wheels that ship
# fuzzed by several, src/tests/shuttle/host/bytes.rs. A corpus is what reaches new code;
# `make fuzz-corpus` renews both from what a long run has found.
.PHONY: fuzz fuzz-long fuzz-corpus fuzz-run fuzz-threads-run
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

$(FUZZ_LIB): $(RUST_SOURCES) verify/fuzz.mk
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
		-Iinclude -o $@ $(filter %.c,$^) $(FUZZ_LIB) $(PRIVATE)

# Under the randomized model checker, which runs the threads in the order that the input
# says. Its stacks change in a way that AddressSanitizer does not follow.
FUZZ_THREADS_LIB := $(TARGET)/fuzz-threads/release/libhwheel.a
FUZZ_THREADS_CORPUS := $(BUILD)/fuzz/threads-corpus
FUZZ_THREADS_SOURCES := $(RUST_SOURCES) $(wildcard src/tests/*/*/*.rs src/tests/*/*/*/*.rs)

# With the tests, but for the functions that cargo would call.
FUZZ_THREADS_CFG := --cfg fuzzed --cfg test -Aexplicit-builtin-cfgs-in-flags \
	-Adead-code -Aunused-imports

$(FUZZ_THREADS_LIB): $(FUZZ_THREADS_SOURCES) verify/fuzz.mk
	$(call say,CARGO,$@)
	$(Q)RUSTC_BOOTSTRAP=1 RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=$(TARGET)/fuzz-threads \
		CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_PROFILE_RELEASE_LTO=off \
		CARGO_PROFILE_RELEASE_PANIC=unwind $(CARGO) rustc -q --release \
		--lib --crate-type staticlib -- $(FUZZ_THREADS_CFG) $(FUZZ_COUNTS)
	$(Q)touch -c $@

$(BUILD)/fuzz/threads/program: $(FUZZ_THREADS_LIB)
	$(call say,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) -fsanitize=fuzzer -o $@ $< $(PRIVATE)

fuzz:
	$(Q)rm -rf $(BUILD)/fuzz/short $(BUILD)/fuzz/threads-short
	$(Q)$(need-sanitizers) $(record) $(again) fuzz-run fuzz-threads-run RUNS=100000 \
		THREADS_RUNS=10000 FUZZ_SECONDS=0 FUZZ_CORPUS=$(BUILD)/fuzz/short \
		FUZZ_THREADS_CORPUS=$(BUILD)/fuzz/threads-short
fuzz-long:
	$(Q)$(need-sanitizers) $(record) $(again) fuzz-run fuzz-threads-run RUNS=10000000 \
		THREADS_RUNS=1000000

fuzz-run: $(BUILD)/fuzz/api
	$(call say,FUZZ,$(RUNS) executions)
	$(Q)verify/fuzz/run.sh $< $(FUZZ_JOBS) $(RUNS) $(FUZZ_SECONDS) \
		$(FUZZ_CORPUS) verify/fuzz/corpus

fuzz-threads-run: $(BUILD)/fuzz/threads/program
	$(call say,FUZZ,$(THREADS_RUNS) executions of several threads)
	$(Q)verify/fuzz/run.sh $< $(FUZZ_JOBS) $(THREADS_RUNS) $(FUZZ_SECONDS) \
		$(FUZZ_THREADS_CORPUS) verify/fuzz/threads

# The fewest that still take every edge that any of them takes.
fuzz-corpus: $(BUILD)/fuzz/api $(BUILD)/fuzz/threads/program
	$(call keep,$(BUILD)/fuzz/api,verify/fuzz/corpus,$(FUZZ_CORPUS))
	$(call keep,$(BUILD)/fuzz/threads/program,verify/fuzz/threads,$(FUZZ_THREADS_CORPUS))

# $(call keep,program,what is kept,what a long run has found)
define keep
	$(call say,FUZZ,$(2))
	$(Q)rm -rf $(BUILD)/fuzz/cover && mkdir -p $(BUILD)/fuzz/cover $(3)
	$(Q)$(1) -set_cover_merge=1 -use_counters=0 -max_len=600 -verbosity=0 \
		$(BUILD)/fuzz/cover $(2) $(3)
	$(Q)rm -r $(2) && mv $(BUILD)/fuzz/cover $(2)
endef
