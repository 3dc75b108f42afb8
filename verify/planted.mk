# Detectors that can fail: bugs that are planted in the library, each of which
# its test must catch.
.PHONY: bugs
VERIFY_SHORT += bugs
VERIFY_LONG += bugs

bugs:
	$(call say,BUGS,verify/bugs.txt)
	$(Q)CARGO='$(CARGO)' verify/bugs.py
