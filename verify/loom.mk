# How many executions each test of the model checker has. `make loom-table` runs them
# to the bounds of `make loom-three`, each exploration for at most LOOM_TABLE_SECONDS; a test has
# some explorations, one for each way to arm and each thread that goes first. `make
# loom-long` then explores every pair of operations without a bound, and every race but
# those with a bound of their own, for at most LOOM_LONG_SECONDS each; and pairs to two
# preemptions, and triples to three.
.PHONY: loom-table loom-long loom-table-run loom-long-run
VERIFY_LONG += loom-long
LOOM_TABLE_SECONDS ?= 5
LOOM_LONG_SECONDS ?= 20

# $(call loom-run,bounds,tests,title)
loom-run = $(LOOM_BUILD) $(1) \
	$(LOOM_TEST) --nocapture $(2) > $(BUILD)/loom.out && \
	{ echo; echo '$(3)'; grep -o '[][a-zA-Z_0-9 ,():]* executions.*' $(BUILD)/loom.out | \
	sort; } >> $(BUILD)/loom.txt && \
	awk '/ executions/ { tests++; sum += $$(NF - (/, cut off/ ? 3 : 1)); cut += /, cut off/ } \
		END { printf "figures: %s %d tests, %d executions, %d cut off\n", \
			"$(3)", tests, sum, cut; exit !tests }' $(BUILD)/loom.out

loom-table loom-long:
	$(Q)$(record) $(again) $@-run

loom-table-run: for-a-while := LOOM_MAX_DURATION=$(LOOM_TABLE_SECONDS)
loom-table-run: | $(BUILD)
	$(call say,LOOM,verify/loom.txt)
	$(Q)echo '# Written by `make loom-table`, with $(LOOM_TABLE_SECONDS) s for each exploration.' > $(BUILD)/loom.txt
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=3,$(LOOM_RACES),Races to three preemptions:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=1,pairs:: stopped::,Pairs and triples and stopped threads to one:)
	$(Q)cp $(BUILD)/loom.txt verify/loom.txt

loom-long-run: for-a-while := LOOM_MAX_DURATION=$(LOOM_LONG_SECONDS)
loom-long-run: loom-table-run
	$(Q)$(call loom-run,$(for-a-while),$(LOOM_RACES),Races without a bound for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while),pairs_of,Pairs without a bound for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=2,pairs_of,Pairs to two preemptions for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=3,triple,Triples to three preemptions for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)cp $(BUILD)/loom.txt verify/loom.txt
