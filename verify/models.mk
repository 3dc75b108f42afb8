# The core by itself: under the model checkers, in a simulated machine, and with weaker
# orderings. And the library against a sorted list.

# How many executions each test of the model checker has. `make loom-table` runs them
# to the bounds of `make loom-three`, each exploration for at most LOOM_TABLE_SECONDS; a test has
# some explorations, one for each way to arm and each thread that goes first. `make
# loom-long` then explores every pair of operations without a bound, and every race but
# those with a bound of their own, for at most LOOM_LONG_SECONDS each; and pairs to two
# preemptions, and triples to three.
.PHONY: loom-table loom-long
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

ifndef MEASURED
loom-table loom-long:
	$(Q)$(measure)
else
loom-table: for-a-while := LOOM_MAX_DURATION=$(LOOM_TABLE_SECONDS)
loom-table: | $(BUILD)
	$(call say,LOOM,verify/loom.txt)
	$(Q)echo '# Written by `make loom-table`, with $(LOOM_TABLE_SECONDS) s for each exploration.' > $(BUILD)/loom.txt
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=3,$(LOOM_RACES),Races to three preemptions:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=1,pairs:: stopped::,Pairs and triples and stopped threads to one:)
	$(Q)cp $(BUILD)/loom.txt verify/loom.txt

loom-long: for-a-while := LOOM_MAX_DURATION=$(LOOM_LONG_SECONDS)
loom-long: loom-table
	$(Q)$(call loom-run,$(for-a-while),$(LOOM_RACES),Races without a bound for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while),pairs_of,Pairs without a bound for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=2,pairs_of,Pairs to two preemptions for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)$(call loom-run,$(for-a-while) LOOM_MAX_PREEMPTIONS=3,triple,Triples to three preemptions for at most $(LOOM_LONG_SECONDS) s:)
	$(Q)cp $(BUILD)/loom.txt verify/loom.txt
endif

# The core in many orders of the steps of four threads, drawn at random: each test
# SHUTTLE_ITERATIONS times in either of two ways. A failure prints its order. With
# that order in a file, this runs it again until it fails, or until the library no
# longer takes that order:
#
#	HWHEEL_SCHEDULE=file make shuttle SHUTTLE_TEST=name
.PHONY: shuttle shuttle-long
VERIFY_SHORT += shuttle
VERIFY_LONG += shuttle-long
SHUTTLE_TEST ?= shuttle::

SHUTTLE_BUILD := RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=$(TARGET)/shuttle

# How long the long form is.
SHUTTLE_ITERATIONS ?= 10000

shuttle: SHUTTLE_ITERATIONS := 500
shuttle shuttle-long:
	$(call say,SHUTTLE,each test in $(SHUTTLE_ITERATIONS) orders of either kind)
	$(Q)$(SHUTTLE_BUILD) $(CARGO) test --profile checked --lib --no-run
	$(Q)$(SHUTTLE_BUILD) SHUTTLE_ITERATIONS=$(SHUTTLE_ITERATIONS) \
		$(record) $(CARGO) test -q --profile checked --lib $(SHUTTLE_TEST) -- --nocapture

# The library against a sorted list, by random calls: c-tests/differential.c. `make test-c` runs it
# for ten seconds. HWHEEL_SEED= runs one seed.
.PHONY: differential differential-long
VERIFY_SHORT += differential
VERIFY_LONG += differential-long

# How long the long form is, in seconds.
DIFFERENTIAL ?= 3600

differential: DIFFERENTIAL := 60
differential differential-long: $(BUILD)/c-tests/static/differential
	$(call say,COMPARE,$(DIFFERENTIAL) seconds)
	$(Q)HWHEEL_SECONDS=$(DIFFERENTIAL) $(record) $<

# A simulated machine of one thread. Its short form is part of `cargo test`; these are longer.
.PHONY: simulation simulation-long
VERIFY_SHORT += simulation
VERIFY_LONG += simulation-long

# How long the long form is.
SIMULATION_SEEDS ?= 1000000

define simulation-run
$(call say,SIMULATE,$(1) seeds)
$(Q)HWHEEL_SEEDS=$(1) $(record) $(CARGO) test -q $(2) --lib simulat -- --nocapture
endef

simulation:
	$(call simulation-run,5000)

# As released, so without debug assertions.
simulation-long:
	$(call simulation-run,$(SIMULATION_SEEDS),--release)

# Each atomic ordering of the core a step weaker: writes which test catches it.
# `verify/orderings.py open` tries those again that none has caught.
.PHONY: orderings check-orderings
VERIFY_SHORT += check-orderings
VERIFY_LONG += check-orderings

orderings:
	$(call say,WEAKEN,verify/orderings.txt)
	$(Q)CARGO='$(CARGO)' $(record) verify/orderings.py all

check-orderings:
	$(call say,CHECK,verify/orderings.txt)
	$(Q)CARGO='$(CARGO)' $(record) verify/orderings.py check
