# Faults: the system refuses what the library asks of it, or misbehaves; and the
# library is loaded, unloaded and loaded again.
.PHONY: system-faults system-faults-long
VERIFY_SHORT += system-faults
VERIFY_LONG += system-faults-long

FAULTS := $(BUILD)/verify/refused $(BUILD)/verify/disturbed $(BUILD)/verify/unload
system-faults-run = $(Q)$(1) $(record) sh -ec '$(foreach p,$(FAULTS),$(p);)'

system-faults: $(FAULTS)
	$(call say,FAULTS,one by one)
	$(call system-faults-run,)

system-faults-long: $(FAULTS)
	$(call say,FAULTS,at length)
	$(call system-faults-run,HWHEEL_LONG=1)

# Linked with the static library, whose calls are wrapped.
$(BUILD)/verify/refused: WRAPPED := malloc calloc realloc posix_memalign mmap \
	munmap timerfd_create pthread_create pthread_key_create pthread_setspecific
$(BUILD)/verify/disturbed: WRAPPED := read clock_gettime timerfd_create \
	timerfd_settime
$(BUILD)/verify/refused $(BUILD)/verify/disturbed: $(BUILD)/verify/%: verify/%.c \
		verify/faults.h c-tests/child.h c-tests/ktap.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -Ic-tests -o $@ $< \
		$(WRAPPED:%=-Wl,--wrap=%) $(STAGE_STATIC)

# Not linked with the library: it loads it.
$(BUILD)/verify/unload: verify/unload.c c-tests/ktap.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -Ic-tests \
		-I$(STAGE)/include -DLIBRARY='"$(STAGE)/lib/$(SONAME)"' -o $@ $< \
		-lpthread -ldl
