# The C functions fuzzed: verify/fuzz/api.c. The corpus is what reaches new code;
# `make fuzz-corpus` renews it from what a long run has found.
.PHONY: fuzz fuzz-long fuzz-corpus fuzz-run
VERIFY_SHORT += fuzz
VERIFY_LONG += fuzz-long

# The long form ends after this number of seconds; 0 is never.
FUZZ_SECONDS ?= 0
FUZZ_JOBS ?= $(shell nproc)

# The library counts the edges that it takes, for the fuzzer to go by.
FUZZ_LIB := $(TARGET)/fuzz/$(RUST_HOST)/release/libhwheel.a
FUZZ_FLAGS := -Zsanitizer=address -Cpasses=sancov-module \
	-Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table \
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

fuzz:
	$(Q)rm -rf $(BUILD)/fuzz/short
	$(Q)$(need-sanitizers) $(record) $(again) fuzz-run RUNS=100000 FUZZ_SECONDS=0 \
		FUZZ_CORPUS=$(BUILD)/fuzz/short
fuzz-long:
	$(Q)$(need-sanitizers) $(record) $(again) fuzz-run RUNS=10000000

fuzz-run: $(BUILD)/fuzz/api
	$(call say,FUZZ,$(RUNS) executions)
	$(Q)verify/fuzz/run.sh $< $(FUZZ_JOBS) $(RUNS) $(FUZZ_SECONDS) \
		$(FUZZ_CORPUS) verify/fuzz/corpus

# The fewest that still take every edge that any of them takes.
fuzz-corpus: $(BUILD)/fuzz/api
	$(call say,FUZZ,verify/fuzz/corpus)
	$(Q)rm -rf $(BUILD)/fuzz/cover && mkdir -p $(BUILD)/fuzz/cover $(FUZZ_CORPUS)
	$(Q)$< -set_cover_merge=1 -use_counters=0 -max_len=600 -verbosity=0 \
		$(BUILD)/fuzz/cover verify/fuzz/corpus $(FUZZ_CORPUS)
	$(Q)rm -r verify/fuzz/corpus && mv $(BUILD)/fuzz/cover verify/fuzz/corpus
