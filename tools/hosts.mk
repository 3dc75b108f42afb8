# Event loops that drive the wheel. Each needs its loop's library; without it the host is
# skipped. $(call host,name,Debian's package,flags): without the library the flags are empty.
.PHONY: hosts
TEST_PARTS += hosts

host-compiler.c = $(CC) -std=c11 -D_GNU_SOURCE
host-compiler.cc = $(CXX) -std=c++20 -fPIC
define host
	$(call say,HOST,$(1))
	$(Q)mkdir -p $(BUILD)/hosts; flags="$(3)"; \
	if [ -z "$$flags" ]; then \
		echo '    skipped: $(1) is not installed (apt-get install pkg-config $(2))'; \
	else \
		$(host-compiler$(suffix $(wildcard examples/hosts/host_$(1).*))) $(FLAGS) \
			-o $(BUILD)/hosts/$(1) examples/hosts/host_$(1).* \
			$(STAGE_SHARED) $$flags -lpthread && \
		$(BUILD)/hosts/$(1); \
	fi
endef
pc = $$(pkg-config --cflags --libs $(1) 2>/dev/null)
# Headers only, which not every Debian describes to pkg-config.
have-asio = $$(echo '\#include <asio.hpp>' | $(CXX) -E -x c++ - >/dev/null 2>&1 && \
	echo -DASIO_STANDALONE)

hosts: $(STAGE)/.done
	$(call host,libuv,libuv1-dev,$(call pc,libuv))
	$(call host,libevent,libevent-dev,$(call pc,libevent))
	$(call host,glib,libglib2.0-dev,$(call pc,glib-2.0))
	$(call host,liburing,liburing-dev,$(call pc,liburing))
	$(call host,qt,qtbase5-dev,$(call pc,Qt5Core))
	$(call host,asio,libasio-dev,$(have-asio))
