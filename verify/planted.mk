# Detectors that can fail: bugs that are planted in the library, each of which
# its test must catch.
.PHONY: bugs
VERIFY_SHORT += bugs
VERIFY_LONG += bugs

bugs:
	$(call say,BUGS,verify/bugs.txt)
	$(Q)CARGO='$(CARGO)' verify/bugs.py

# Each atomic ordering of the core a step weaker: writes which test catches it.
# Ten minutes; `verify/orderings.py open` tries those again that none has caught.
.PHONY: orderings check-orderings
VERIFY_SHORT += check-orderings
VERIFY_LONG += check-orderings

orderings:
	$(call say,WEAKEN,verify/orderings.txt)
	$(Q)CARGO='$(CARGO)' verify/orderings.py all

check-orderings:
	$(call say,CHECK,verify/orderings.txt)
	$(Q)CARGO='$(CARGO)' verify/orderings.py check
