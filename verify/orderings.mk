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
