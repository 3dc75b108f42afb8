# Defects of other timers, which test stands for which, and how it went.
.PHONY: traps
VERIFY_LONG += traps

TRAP_TESTS := $(filter trap_%,$(C_TESTS))

traps: $(TRAP_TESTS:%=$(BUILD)/c-tests/shared/%) $(TRAP_TESTS:%=$(BUILD)/c-tests/static/%)
	$(Q)$(record) verify/traps.py $(BUILD)/c-tests/shared $(BUILD)/c-tests/static
