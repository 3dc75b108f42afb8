# The freeze probe: a thread stopped anywhere blocks no other; and the
# same load under a mutex, where the probe must find stalls.
.PHONY: freeze freeze-long
VERIFY_SHORT += freeze
VERIFY_LONG += freeze-long

# How long the long form is.
FREEZES ?= 10000
FREEZES_MUTEX := 20

freeze: FREEZES := 200
freeze: FREEZES_MUTEX := 5
freeze freeze-long: $(BUILD)/verify/freeze
	$(call say,FREEZE,$(FREEZES) times a role)
	$(call verify-run,$(record) sh -c '$< $(FREEZES) && $< -m $(FREEZES_MUTEX)')
