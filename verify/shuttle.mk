# The core in many orders of the steps of four threads, drawn at random: so many
# of each test in either of two ways. An order that fails is printed;
# HWHEEL_SCHEDULE=order runs it again, in the test of that name:
#
#   HWHEEL_SCHEDULE=... make shuttle SHUTTLE_TEST=name
.PHONY: shuttle shuttle-long
VERIFY_SHORT += shuttle
VERIFY_LONG += shuttle-long
SHUTTLE_ITERATIONS ?= 100000
SHUTTLE_TEST ?= shuttle::

shuttle-run = RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=$(TARGET)/shuttle \
	SHUTTLE_ITERATIONS=$(1) $(CARGO) test -q --release --lib $(SHUTTLE_TEST) -- --nocapture

shuttle:
	$(call say,SHUTTLE,500 orders and 500 by priorities of each test)
	$(Q)$(call shuttle-run,500)

shuttle-long:
	$(call say,SHUTTLE,$(SHUTTLE_ITERATIONS) orders and as many by priorities of each test)
	$(Q)$(call shuttle-run,$(SHUTTLE_ITERATIONS))
