# The C tests on another processor, emulated: what the library does there, not
# what weak ordering does to it, which the emulator does not show.
.PHONY: test-aarch64 test-aarch64-run
VERIFY_LONG += test-aarch64

AARCH64 := aarch64-unknown-linux-gnu
AARCH64_CC ?= aarch64-linux-gnu-gcc
AARCH64_LIB := $(TARGET)/$(AARCH64)/release/libhwheel.a

# Left out: programs that measure or limit the memory of their process, which is
# the emulator's as well, or have an allocator of their own; that fork, for the
# emulator ignores MADV_WIPEONFORK; and one that looks at the blocked signals of a
# thread, of which the emulator keeps some for itself.
AARCH64_TESTS := $(filter-out errno fork keys noalloc resources small thread trap_memory,$(C_TESTS))

test-aarch64:
	$(Q)$(call need,$(AARCH64_CC) --version,apt-get install gcc-aarch64-linux-gnu) \
		$(call need,qemu-aarch64 --version,apt-get install qemu-user) \
		$(call need,test -d $(RUST_LIB)/$(AARCH64),rustup target add $(AARCH64)) \
		$(record) $(again) $@-run

$(AARCH64_LIB): $(RUST_SOURCES)
	$(call say,CARGO,$@)
	$(Q)$(CARGO) rustc -q --release --lib --features capi --crate-type staticlib --target $(AARCH64)
	$(Q)touch -c $@

$(BUILD)/aarch64/%: c-tests/%.c $(C_TEST_HEADERS) include/hwheel.h $(AARCH64_LIB)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(AARCH64_CC) -std=c11 $(CFLAGS) $(WARN) -D_GNU_SOURCE -Iinclude -static \
		-o $@ $< $(AARCH64_LIB) $(filter-out -lgcc_s,$(PRIVATE)) -lgcc_eh

test-aarch64-run: $(AARCH64_TESTS:%=$(BUILD)/aarch64/%)
	$(call say,AARCH64,$(words $^) C tests)
	$(Q)KTAP_TIMEOUT=600 KTAP_RUN=qemu-aarch64 c-tests/run.sh $(BUILD)/aarch64
