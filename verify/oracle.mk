# The core against an ordered map, and a simulated machine of one thread. Their
# short forms are part of `cargo test`; these are longer.
.PHONY: oracle oracle-long simulation simulation-long
VERIFY_SHORT += oracle simulation
VERIFY_LONG += oracle-long simulation-long

oracle-run = $(Q)HWHEEL_OPERATIONS=$(1) $(CARGO) test -q --lib at_length -- \
	--ignored --nocapture
simulation-run = $(Q)HWHEEL_SEEDS=$(1) $(CARGO) test -q --lib simulat -- --nocapture

oracle:
	$(call say,ORACLE,4050000 operations)
	$(call oracle-run,4050000)

oracle-long:
	$(call say,ORACLE,10^9 operations)
	$(call oracle-run,1000000000)

simulation:
	$(call say,SIMULATE,5000 seeds)
	$(call simulation-run,5000)

simulation-long:
	$(call say,SIMULATE,10^6 seeds)
	$(call simulation-run,1000000)
