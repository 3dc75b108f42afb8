#: Verify. docs/VERIFICATION.md says what each part shows, and names it.
#:   make verify-short  all parts in their short forms, in minutes
#:   make verify        all parts in their long forms, in hours
#:   make shuttle       one of them: random orders of the steps of four threads
#:   make faults        plants each fault of verify/faults.txt; its tests must catch it
#
# Each part says its targets:
#
#   VERIFY_SHORT += name	seconds to a minute
#   VERIFY_LONG += name-long	the same at length
#
# A part whose tool is missing says in one line how to install it. That is a
# skip here and a failure where VERIFY_STRICT=1, as in continuous integration.
.PHONY: verify verify-short check-figures
verify:
	$(call verify-each,$(VERIFY_LONG))
verify-short:
	$(call verify-each,$(VERIFY_SHORT))

# Runs targets one after the other, with progress; all of them, then fails.
verify-each = $(Q)n=0; bad=; for target in $(1); do \
	n=$$((n + 1)); begin=$$(date +%s); \
	echo "[$$n/$(words $(1))] $$target"; \
	$(MAKE) --no-print-directory $$target || bad="$$bad $$target"; \
	echo "[$$n/$(words $(1))] $$target: $$(($$(date +%s) - begin)) s"; \
	done; [ -z "$$bad" ] || { echo "failed:$$bad"; exit 1; }

# $(record) COMMAND: for the part of a recipe that measures. It runs the command, and
# keeps its figures in docs/VERIFICATION_FIGURES.md.
record = verify/figures.py record $@

# For a target that has to build what it measures, or that has several recipes: it is made
# once more, with MEASURED, which selects the rules that do the work.
measure = $(record) $(again) $@ MEASURED=1

CHECK_PARTS += check-figures
check-figures:
	$(call say,CHECK,figures)
	$(Q)verify/figures.py check

# $(call need,test for a tool,how to install it): for the start of a recipe of
# one shell command; ends it aloud where the tool is missing.
need = $(1) >/dev/null 2>&1 || { \
	echo '  SKIPPED $@: needs $(2)'; exit $(or $(VERIFY_STRICT),0); };

# The files of src form layers: folders one above the other, and no circles.
.PHONY: check-layers
CHECK_PARTS += check-layers

check-layers:
	$(call say,CHECK,layers)
	$(Q)command -v python3 >/dev/null || \
		{ echo '  SKIPPED python3 is not installed'; exit 0; }; \
	python3 verify/layers.py

# Faults that are planted into a copy of the sources, and the tests that must catch them:
# verify/faults.py. FAULT= names some, and then there is no row for the run. `make check` sees
# that each of them has its place.
.PHONY: faults check-faults
VERIFY_SHORT += faults
VERIFY_LONG += faults
FAULT ?=
CHECK_PARTS += check-faults

check-faults:
	$(call say,CHECK,verify/faults.txt)
	$(Q)command -v python3 >/dev/null || \
		{ echo '    skipped: python3 is not installed'; exit 0; }; \
	python3 verify/faults.py --check

faults:
	$(call say,FAULTS,verify/faults.txt)
	$(Q)CARGO='$(CARGO)' $(if $(FAULT),,$(record)) verify/faults.py $(FAULT)

# Defects of other timers, which test stands for which, and how it went.
.PHONY: traps
VERIFY_LONG += traps

TRAP_TESTS := $(filter trap_%,$(C_TESTS))

traps: $(TRAP_TESTS:%=$(BUILD)/c-tests/shared/%) $(TRAP_TESTS:%=$(BUILD)/c-tests/static/%)
	$(Q)$(record) verify/traps.py $(BUILD)/c-tests/shared $(BUILD)/c-tests/static

# What a call costs, in instructions: counted, so the same on a busy machine.
.PHONY: check-cost cost-table
VERIFY_SHORT += check-cost
VERIFY_LONG += check-cost

need-callgrind = $(call need,test -e /usr/include/valgrind/callgrind.h,\
	apt-get install valgrind)

check-cost: $(STAGE)/.done
	$(call say,COST,instructions a call)
	$(Q)$(need-callgrind) $(MAKE) -s --no-print-directory $(BENCH)/cost-program && \
		$(record) verify/cost.py $(BENCH)/cost-program check

cost-table: $(BENCH)/cost-program
	$(call say,COST,verify/cost.txt)
	$(Q)verify/cost.py $< table > $(BUILD)/cost.txt
	$(Q)mv $(BUILD)/cost.txt verify/cost.txt

$(BENCH)/cost-program: verify/cost.c
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD)

# The probes of docs/PROBES.md are in a library that is built with them, and
# in no other.
.PHONY: check-probes
VERIFY_SHORT += check-probes
VERIFY_LONG += check-probes

PROBED := $(BUILD)/probes
ifndef MEASURED
check-probes:
	$(Q)$(measure)
else
check-probes: $(SHARED) $(BUILD)/verify/probes
	$(call say,CHECK,probes)
	$(Q)$(MAKE) -s --no-print-directory PROBES=1 BUILD=$(PROBED) \
		CARGO_TARGET_DIR=$(TARGET)/probes $(PROBED)/$(notdir $(SHARED))
	$(Q)verify/probes.py docs/PROBES.md $(PROBED)/$(notdir $(SHARED)) $(SHARED)
	$(Q)$(call need,command -v gdb,apt-get install gdb) \
		verify/probes.sh $(PROBED) $(BUILD)/verify/probes
endif
