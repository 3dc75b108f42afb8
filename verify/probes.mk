# The probes of docs/PROBES.md are in a library that is built with them, and
# in no other.
.PHONY: check-probes check-probes-run
VERIFY_SHORT += check-probes
VERIFY_LONG += check-probes

PROBED := $(BUILD)/probes
check-probes: $(SHARED) $(BUILD)/verify/probes
	$(call say,CHECK,probes)
	$(Q)$(MAKE) -s --no-print-directory PROBES=1 BUILD=$(PROBED) \
		CARGO_TARGET_DIR=$(TARGET)/probes $(PROBED)/$(notdir $(SHARED))
	$(Q)$(record) $(again) $@-run

check-probes-run:
	$(Q)verify/probes.py docs/PROBES.md $(PROBED)/$(notdir $(SHARED)) $(SHARED)
	$(Q)$(call need,command -v gdb,apt-get install gdb) \
		verify/probes.sh $(PROBED) $(BUILD)/verify/probes
