# The core in many orders of the steps of four threads, drawn at random: each test
# SHUTTLE_ITERATIONS times in either of two ways. A failure prints its order. With
# that order in a file, this runs it again until it fails, or until the library no
# longer takes that order:
#
#	HWHEEL_SCHEDULE=file make shuttle SHUTTLE_TEST=name
.PHONY: shuttle shuttle-long
VERIFY_SHORT += shuttle
VERIFY_LONG += shuttle-long
SHUTTLE_TEST ?= shuttle::

# How long the long form is.
SHUTTLE_ITERATIONS ?= 10000

shuttle: SHUTTLE_ITERATIONS := 500
shuttle shuttle-long:
	$(call say,SHUTTLE,each test in $(SHUTTLE_ITERATIONS) orders of either kind)
	$(Q)RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=$(TARGET)/shuttle \
		SHUTTLE_ITERATIONS=$(SHUTTLE_ITERATIONS) \
		$(record) $(CARGO) test -q --profile checked --lib $(SHUTTLE_TEST) -- --nocapture
