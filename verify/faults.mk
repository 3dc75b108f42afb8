# Faults that are planted into a copy of the sources, and the tests that must catch them:
# verify/faults.py. FAULT= names some, and then there is no row for the run. `make check` sees
# that each of them has its place.
.PHONY: faults check-faults
VERIFY_SHORT += faults
VERIFY_LONG += faults
FAULT ?=
test check: check-faults

check-faults:
	$(call say,CHECK,verify/faults.txt)
	$(Q)command -v python3 >/dev/null || \
		{ echo '    skipped: python3 is not installed'; exit 0; }; \
	python3 verify/faults.py --check

faults:
	$(call say,FAULTS,verify/faults.txt)
	$(Q)CARGO='$(CARGO)' $(if $(FAULT),,$(record)) verify/faults.py $(FAULT)
