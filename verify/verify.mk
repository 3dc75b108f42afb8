#: Verify. docs/VERIFICATION.md says what each part shows, and names it.
#:   make verify-short  all parts in their short forms, in minutes
#:   make verify        all parts in their long forms, in hours
#:   make shuttle       one of them: random orders of the steps of four threads
#:   make faults        plants each fault of verify/faults; its tests must catch it
#
# Each part of it says its targets in its own file:
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

CHECK_PARTS += check-figures
check-figures:
	$(call say,CHECK,figures)
	$(Q)verify/figures.py check

# $(call need,test for a tool,how to install it): for the start of a recipe of
# one shell command; ends it aloud where the tool is missing.
need = $(1) >/dev/null 2>&1 || { \
	echo '  SKIPPED $@: needs $(2)'; exit $(or $(VERIFY_STRICT),0); };
