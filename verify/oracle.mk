# The core against an ordered map, and a simulated machine of one thread. Their
# short forms are part of `cargo test`; these are longer.
.PHONY: oracle oracle-long simulation simulation-long
VERIFY_SHORT += oracle simulation
VERIFY_LONG += oracle-long simulation-long

# How long the long forms are.
ORACLE_OPERATIONS ?= 1000000000
SIMULATION_SEEDS ?= 1000000

# $(call oracle-run,operations,profile)
define oracle-run
$(call say,ORACLE,$(1) operations)
$(Q)HWHEEL_OPERATIONS=$(1) $(record) $(CARGO) test -q $(2) --lib at_length -- --ignored --nocapture
endef
define simulation-run
$(call say,SIMULATE,$(1) seeds)
$(Q)HWHEEL_SEEDS=$(1) $(record) $(CARGO) test -q $(2) --lib simulat -- --nocapture
endef

oracle:
	$(call oracle-run,4050000)
simulation:
	$(call simulation-run,5000)

# As released, so without debug assertions.
oracle-long:
	$(call oracle-run,$(ORACLE_OPERATIONS),--release)
simulation-long:
	$(call simulation-run,$(SIMULATION_SEEDS),--release)
