# Faults that are put into a copy of the sources, a patch each, and the tests that must
# catch them: verify/faults.py. FAULT= names one.
.PHONY: faults
VERIFY_SHORT += faults
VERIFY_LONG += faults
FAULT ?=

faults:
	$(call say,FAULTS,verify/faults)
	$(Q)CARGO='$(CARGO)' $(record) verify/faults.py $(FAULT)
