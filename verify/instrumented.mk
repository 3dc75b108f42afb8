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
NOT_SANITIZED := large_pages memory noalloc refused_errno resources small trap_memory unwind

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

$(FUZZ_LIB): $(RUST_SOURCES) verify/instrumented.mk
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

