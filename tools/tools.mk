# Command-line tools. They carry the library in them, so that they run from
# wherever they were installed.
BINDIR ?= $(PREFIX)/bin
TOOLS  := $(BUILD)/hwheel-latency
LATENCY_SOURCES := $(addprefix tools/,hwheel-latency.c histogram.c options.c report.c)

all: $(TOOLS)

$(BUILD)/hwheel-latency: $(LATENCY_SOURCES)
$(BUILD)/early-latency: $(LATENCY_SOURCES)
$(BUILD)/early-latency: private CFLAGS += -DBEHIND_S=5
$(BUILD)/%-latency: $(wildcard tools/*.h) include/hwheel.h $(STATIC)
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -Iinclude -o $@ \
		$(filter %.c,$^) -Wl,--gc-sections $(STATIC) $(LIBS) -lm

# Before the stage, which installs them, and not concurrently with it.
$(STAGE)/.done: | $(TOOLS)

install:: $(TOOLS)
	$(Q)$(INSTALL) -d '$(DESTDIR)$(BINDIR)'
	$(Q)$(INSTALL) -m 755 $(TOOLS) '$(DESTDIR)$(BINDIR)/'

uninstall::
	$(Q)rm -f $(TOOLS:$(BUILD)/%='$(DESTDIR)$(BINDIR)'/%)

# What gdb prints of timers and wheels: tools/gdb/hwheel.py, which gdb finds by itself
# if the prefix is its own, usually /usr.
GDB_AUTOLOAD ?= $(PREFIX)/share/gdb/auto-load$(call spaced,$(call absolute,$(LIBDIR)))
GDB_SCRIPT = $(GDB_AUTOLOAD)/$(notdir $(SHARED))-gdb.py

install::
	$(Q)$(INSTALL) -d '$(DESTDIR)$(GDB_AUTOLOAD)'
	$(Q)$(INSTALL) -m 644 tools/gdb/hwheel.py '$(DESTDIR)$(GDB_SCRIPT)'
$(STAGE)/.done: tools/gdb/hwheel.py

uninstall::
	$(Q)rm -f '$(DESTDIR)$(GDB_SCRIPT)'

# The script has the places of words in it, which gdb finds in a library with all
# debug information.
LAYOUT := $(BUILD)/gdb/layout
$(LAYOUT): tools/gdb/layout.py $(RUST_SOURCES)
	$(Q)mkdir -p $(@D)
	$(Q)CARGO_TARGET_DIR=$(TARGET)/layout CARGO_PROFILE_DEV_DEBUG=2 $(CARGO) rustc -q --lib \
		--crate-type staticlib $(FEATURES) --message-format=json-render-diagnostics \
		$(ALONE) > $(BUILD)/gdb/cargo.json
	$(Q)$(CC) -shared -o $(BUILD)/gdb/all.so -Wl,--whole-archive "$$(sed -n \
		's/.*"filenames":\["\([^"]*libhwheel\.a\)".*/\1/p' $(BUILD)/gdb/cargo.json)" \
		-Wl,--no-whole-archive -Wl,--gc-sections -Wl,--version-script=hwheel.map $(LIBS)
	$(Q)gdb -batch -nx -x tools/gdb/layout.py $(BUILD)/gdb/all.so > $@.new
	$(Q)mv $@.new $@
