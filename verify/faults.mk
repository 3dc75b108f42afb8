# Faults that are put into a copy of the sources, a patch each, and the tests that must
# catch them: verify/faults.py. FAULT= names some, and then there is no row for the run.
.PHONY: faults
VERIFY_SHORT += faults
VERIFY_LONG += faults
FAULT ?=

faults:
	$(call say,FAULTS,verify/faults)
	$(Q)CARGO='$(CARGO)' $(if $(FAULT),,$(record)) verify/faults.py $(FAULT)
