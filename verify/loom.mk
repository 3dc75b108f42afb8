# Every pair of operations under the model checker without a bound, for at most
# so many seconds each on either wheel and with either thread first; then to two
# preemptions, and triples to three. Writes down how many executions each had.
.PHONY: loom-long
VERIFY_LONG += loom-long
LOOM_SECONDS ?= 600

loom-run = RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$(TARGET)/loom \
	LOOM_MAX_DURATION=$(LOOM_SECONDS) $(1) \
	$(CARGO) test -q --release --lib $(2) -- --nocapture > $(BUILD)/loom.out && \
	{ echo; echo '$(3)'; grep executions $(BUILD)/loom.out | sort; } >> $(BUILD)/loom.txt

loom-long: | $(BUILD)
	$(call say,LOOM,verify/loom.txt)
	$(Q)echo '# Written by `make loom-long LOOM_SECONDS=$(LOOM_SECONDS)`.' > $(BUILD)/loom.txt
	$(Q)$(call loom-run,,pairs_of,Pairs without a bound:)
	$(Q)$(call loom-run,LOOM_MAX_PREEMPTIONS=2,pairs_of,Pairs to two preemptions:)
	$(Q)$(call loom-run,LOOM_MAX_PREEMPTIONS=3,triple,Triples to three preemptions:)
	$(Q)mv $(BUILD)/loom.txt verify/loom.txt
