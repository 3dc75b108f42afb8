# How a program of this directory is built: against the installed library.

$(BUILD)/verify/%: verify/%.c verify/verify.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -o $@ $< $(STAGE_SHARED) \
		-lpthread -ldl

# Runs a program that may say that it cannot run here.
verify-run = $(Q)$(1) || [ $$? -eq 4 ]
