# What LuaJIT reads: the header without its conditions and comments, constants
# as an enum. ABI modes of other languages, as cffi's, read it too. And the
# module for Lua, which looks for it from where it is installed itself.
DATADIR ?= $(PREFIX)/share
CDEF    := $(BUILD)/hwheel.cdef
LUA_MODULE := bindings/luajit/src/hwheel.lua

all: $(CDEF)
$(CDEF): include/hwheel.h bindings/luajit.mk | $(BUILD)
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
