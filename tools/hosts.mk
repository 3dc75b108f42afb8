# Event loops that drive the wheel. Each needs its loop's library, found by
# pkg-config; without it the host is skipped.
HOSTS := libuv libevent

.PHONY: hosts $(HOSTS:%=host-%)
TEST_PARTS += hosts
hosts: $(HOSTS:%=host-%)

$(HOSTS:%=host-%): host-%: $(STAGE)/.done
	$(call say,HOST,$*)
	$(Q)if ! pkg-config --exists $* 2>/dev/null; then \
		echo '    skipped: pkg-config does not find $*' \
			'(apt-get install pkg-config libuv1-dev libevent-dev)'; exit 0; fi; \
	mkdir -p $(BUILD)/hosts && \
	$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE $$(pkg-config --cflags $*) \
		-o $(BUILD)/hosts/$* examples/hosts/host_$*.c \
		$(STAGE_SHARED) $$(pkg-config --libs $*) && \
	$(BUILD)/hosts/$*
