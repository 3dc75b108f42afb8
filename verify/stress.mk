# Stress, and stress of a library whose threads dawdle at every atomic access.
.PHONY: stress stress-long chaos chaos-long
VERIFY_SHORT += stress chaos
VERIFY_LONG += stress-long chaos-long

# How long the long forms are.
STRESS_OPERATIONS ?= 1000000000
CHAOS_OPERATIONS ?= 10000000

stress: $(BUILD)/verify/stress
	$(call say,STRESS,10 seconds)
	$(Q)$(record) $< -s 10

stress-long: $(BUILD)/verify/stress
	$(call say,STRESS,$(STRESS_OPERATIONS) operations)
	$(Q)$(record) $< -n $(STRESS_OPERATIONS)

CHAOS := $(TARGET)/chaos/release/libhwheel.a
IN_CHAOS = RUSTFLAGS="$$RUSTFLAGS --cfg chaos" CARGO_TARGET_DIR=$(TARGET)/chaos

$(CHAOS): $(RUST_SOURCES)
	$(call say,CARGO,$@)
	$(Q)$(IN_CHAOS) $(CARGO) rustc $(if $(V),,-q) \
		--release --lib --crate-type staticlib --features capi
	$(Q)touch -c $@

$(BUILD)/verify/stress-chaos: verify/stress.c verify/verify.h $(CHAOS) $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -I$(STAGE)/include \
		-o $@ $< $(CHAOS) $(PRIVATE)

chaos: $(BUILD)/verify/stress-chaos
	$(call say,CHAOS,10 seconds)
	$(Q)$(record) $< -r -s 10

# The oracle and the simulation are of one thread, which nobody can overtake.
chaos-long: $(BUILD)/verify/stress-chaos
	$(call say,CHAOS,$(CHAOS_OPERATIONS) operations and the Rust tests)
	$(Q)$(record) $(again) chaos-long-run

.PHONY: chaos-long-run
chaos-long-run: $(BUILD)/verify/stress-chaos
	$(Q)$< -r -n $(CHAOS_OPERATIONS)
	$(Q)$(IN_CHAOS) $(CARGO) test -q -- --skip oracle:: --skip simulation::
