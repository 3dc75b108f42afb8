# What the tests execute of the core, line by line and branch by branch.
.PHONY: coverage coverage-run
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

coverage:
	$(Q)$(call need,$(LLVM_BIN)/llvm-cov --version,rustup component add llvm-tools) \
		$(record) env $(COVERAGE) coverage-run

# Left out: a test that measures the memory of its process, which the counters use as
# well. A test that fails, as one may that sleeps on a busy machine, or that counters make
# too slow, is shown and counts all the same: `make test` is where all must pass.
# What complains where all memory is refused are the counters.
COVERED_TESTS := $(filter-out small,$(C_TESTS))
coverage-run: $(COVERED_TESTS:%=$(BUILD)/c-tests/shared/%) $(BUILD)/verify/refused \
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
