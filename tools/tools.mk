# Command-line tools. They carry the library in them, so that they run from
# wherever they were installed.
BINDIR ?= $(PREFIX)/bin
TOOLS  := $(BUILD)/hwheel-latency
LATENCY_SOURCES := $(addprefix tools/,hwheel-latency.c histogram.c options.c json.c svg.c)

all: $(TOOLS)

$(BUILD)/hwheel-latency: $(LATENCY_SOURCES)
$(BUILD)/early-latency: $(LATENCY_SOURCES) tools/behind.c
$(BUILD)/early-latency: private CFLAGS += -Dclock_gettime=clock_behind
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
