# Bindings. BINDINGS=cpp or PACKAGES=python names some.
#
# Each language is a directory with a binding.sh, which bindings/run.sh describes.
BINDINGS ?= $(patsubst bindings/%/binding.sh,%,$(wildcard bindings/*/binding.sh))

.PHONY: test-bindings
test-bindings: $(STAGE)/.done
	$(call say,TEST,bindings)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CXX='$(CXX)' \
		VERSIONS='$(VERSIONS)' bindings/run.sh test '$(abspath $(BUILD)/bindings)' $(BINDINGS)

# The packages, each built, installed into an empty environment and used there.
PACKAGES ?= $(BINDINGS)
.PHONY: test-packages
test-packages: $(STAGE)/.done
	$(call say,TEST,packages)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CXX='$(CXX)' \
		CARGO='$(CARGO)' HWHEEL_VERSION=$(VERSION) \
		bindings/run.sh package '$(abspath $(BUILD)/packages)' $(PACKAGES)

# The tests of the languages' own timers, run on ours. They come from checkouts that the
# caller names; bindings/suites.sh has the rest.
SUITES ?= $(filter-out cpp luajit,$(BINDINGS))
CHECKOUTS := NODE P_TIMEOUT WPT CPYTHON NETTY JDK GO TOKIO ASYNC_IO XTIME
# Not a default of another part, such as the name of a command.
checkout = $(1)='$(if $(filter command environment,$(origin $(1))),$(abspath $($(1))))'
.PHONY: test-suites
test-suites: $(STAGE)/.done
	$(call say,TEST,suites)
	$(Q)HWHEEL_PREFIX=$(STAGE) HWHEEL_PRIVATE='$(PRIVATE)' CC='$(CC)' CXX='$(CXX)' \
		CARGO='$(CARGO)' $(foreach one,$(CHECKOUTS),$(call checkout,$(one))) \
		bindings/suites.sh '$(abspath $(BUILD)/suites)' $(SUITES)

# Each language against its own timers. Writes the tables of docs/BINDINGS.md.
define bench-bindings
	$(Q)$(again) $(STAGE)/.done
	$(call say,BENCH,bindings)
	$(Q)HWHEEL_PREFIX=$(STAGE) CC='$(CC)' CXX='$(CXX)' \
		bindings/bench.sh '$(abspath $(BUILD)/bindings)' docs/BINDINGS.md $(BINDINGS)
endef

# What LuaJIT reads: the header without its conditions and comments, constants
# as an enum. ABI modes of other languages, as cffi's, read it too. And the
# module for Lua, which looks for it from where it is installed itself.
DATADIR ?= $(PREFIX)/share
CDEF    := $(BUILD)/hwheel.cdef
LUA_MODULE := bindings/luajit/src/hwheel.lua

all: $(CDEF)
$(CDEF): include/hwheel.h bindings/bindings.mk | $(BUILD)
	$(call say,CDEF,$@)
	$(Q){ sed '/^#include/d' $< | $(CC) -E -P -DHWHEEL_MUST_CHECK= -x c - && echo 'enum {' && \
		sed -nE 's/^#define (HWHEEL_[A-Z_]*) ([0-9]+|\([0-9]+ << [0-9]+\))$$/  \1 = \2,/p' $< && \
		echo '};'; } > $@.new && mv $@.new $@

$(STAGE)/.done: $(CDEF) $(LUA_MODULE)

install:: $(CDEF)
	$(Q)$(INSTALL) -d '$(DESTDIR)$(DATADIR)/hwheel' '$(DESTDIR)$(DATADIR)/lua/5.1'
	$(Q)$(INSTALL) -m 644 $(CDEF) '$(DESTDIR)$(DATADIR)/hwheel/'
	$(Q)$(INSTALL) -m 644 $(LUA_MODULE) '$(DESTDIR)$(DATADIR)/lua/5.1/'

uninstall::
	$(Q)rm -f '$(DESTDIR)$(DATADIR)/hwheel/hwheel.cdef' \
		'$(DESTDIR)$(DATADIR)/lua/5.1/hwheel.lua'
