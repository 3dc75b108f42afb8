# 64 threads, three wheels, lives, forks and clock steps: an hour, or a minute.
.PHONY: soak soak-short
VERIFY_SHORT += soak-short
VERIFY_LONG += soak

SOAK ?= 3600

soak-short: SOAK := 60
soak soak-short: $(BUILD)/verify/soak
	$(call say,SOAK,$(SOAK) seconds)
	$(Q)$(record) $< $(SOAK)

# Linked with the static library, which finds the program's clock.
$(BUILD)/verify/soak: verify/soak.c verify/verify.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -o $@ $< $(STAGE_STATIC)
