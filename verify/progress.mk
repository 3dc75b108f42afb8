# The freeze probe: a thread stopped anywhere holds up nobody else; and the
# same load under a mutex, where the probe must find stalls.
.PHONY: freeze freeze-long
VERIFY_SHORT += freeze
VERIFY_LONG += freeze-long

# How long the long form is.
FREEZES ?= 10000

freeze: $(BUILD)/verify/freeze
	$(call say,FREEZE,200 times a role)
	$(call verify-run,$< 200)
	$(call verify-run,$< -m 5)

freeze-long: $(BUILD)/verify/freeze
	$(call say,FREEZE,$(FREEZES) times a role)
	$(call verify-run,$< $(FREEZES))
	$(call verify-run,$< -m 20)
