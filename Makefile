# hwheel: build, demonstrate, test, install. `make help` prints the lines that begin with "#:".
#
#: make all             the default: the libraries and the tool; PROBES=1 for tracers
#: make demo            a million timers, and a server's timeouts
#: make examples        the programs of examples, in build
#: make install         PREFIX=/usr/local LIBDIR= INCLUDEDIR= DESTDIR=; also uninstall
#: make clean           removes what make has built
#:
#: make test            the short tests, and the checks: 6 minutes on two cores
#: make test-rust       parts of it; test-c; loom, the races under the model checker
#: make check           the checks alone; CHECK=name: of all that can be checked, this
#:                      LONG=1: the long form, 20 to 30 minutes
#: make verify-short    all of docs/VERIFICATION.md: an hour; verify, its long forms: hours
#: make regenerate      WHAT=header: files of the source that are made from others
#:
#: make test-bindings   of each language that is installed; BINDINGS=cpp, VERSIONS=ends or all
#: make test-packages   builds their packages, and uses them in empty environments
#: make test-suites     NODE=dir GO=dir ...: the languages' own tests of timers, on ours
#:
#: make bench           WHAT=request, server, core, threads, nginx, criterion, bindings, limits
#: make bench-all       what docs/PERFORMANCE.md has, and writes it
#:
#: make dist            the source with its crates, which builds offline; also dist-bin,
#:                      prebuilt archives, and dist-vendor, a directory to check in
#: make deb             packages for Debian
#: make release         VERSION=0.1.0, in a clean clone: all of a release, in build/release
#:
#: make jobs            durable timers in PostgreSQL; also install-jobs, uninstall-jobs
#: make test-jobs       its tests; also demo-jobs, storm-jobs, bench-jobs: jobs/README.md
#:
#: V=1 shows the commands, CC= and CARGO= name the compilers.

VERSION := 0.1.0
SONAME  := libhwheel.so.0

PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DESTDIR    ?=
# The quotes below would keep a ~ that the caller's shell has left.
$(foreach dir,PREFIX LIBDIR INCLUDEDIR BINDIR DATADIR MANDIR DESTDIR,\
	$(if $(filter ~/%,$($(dir))),\
		$(eval override $(dir) := $(patsubst ~/%,$(HOME)/%,$($(dir))))))

CARGO   ?= cargo
CC      ?= cc
CXX     ?= c++
INSTALL ?= install
CFLAGS  ?= -O2 -g
# WERROR=1 is for the maintainers: a new compiler knows new warnings.
WARN     = -Wall -Wextra -Wpedantic $(if $(WERROR),-Werror)
FLAGS    = $(CPPFLAGS) $(CFLAGS) $(WARN) $(LDFLAGS)

Q := $(if $(V),,@)
say = $(if $(V),@:,@printf '  %-7s %s\n' '$(1)' '$(2)')

BUILD  := build
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
STATIC := $(BUILD)/libhwheel.a
SHARED := $(BUILD)/libhwheel.so.$(VERSION)

# What the library needs of the system: the C library, which `make check CHECK=needs` checks. With
# Rust's standard library it needs more. STD=1 builds it so, as for processors for which
# src/runtime/at_hand.rs has no assembly.
PRIVATE := -lpthread -lc
STD_PRIVATE := -lutil -lrt -lpthread -lm -ldl -lc
STD ?= $(if $(filter x86_64 aarch64,$(firstword $(subst -, ,$(or \
	$(CARGO_BUILD_TARGET),$(shell uname -m))))),,1)
LIBS = $(if $(STD),$(STD_PRIVATE),$(PRIVATE))

.PHONY: all lib static
all: lib
lib: $(SHARED) $(STATIC)
static: $(STATIC)

RUST_SOURCES := $(wildcard src/*.rs src/*/*.rs src/*/*/*.rs) Cargo.toml \
	Cargo.lock build.rs

comma := ,
# PROBES=1 is for tracers: docs/PROBES.md.
FEATURES := $(if $(STD),,--no-default-features )--features capi$(if $(PROBES),$(comma)probes)
# For the crate itself, and no other: src/alone.rs.
ALONE := $(if $(STD),,-- --cfg alone)

# One line says what is missing, before cargo or the linker says it in many. Cargo
# needs a C compiler too, to link.
need-rust = $(Q)$(CC) --version >/dev/null 2>&1 || { echo 'hwheel needs a C compiler, and\
	there is no $(firstword $(CC)). Debian: apt-get install gcc. Another one: make CC=name'; \
	exit 1; } >&2; \
	want=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	have=$$($(CARGO) --version 2>/dev/null | cut -d ' ' -f 2); \
	printf '%s\n' "$$want" "$${have:-0}" | sort -VC || { \
	this="$${have:+this is $$(rustc --version 2>/dev/null | cut -d ' ' -f 1,2) with cargo $$have}"; \
	echo "hwheel needs Rust $$want or later, and $${this:-there is no $(firstword $(CARGO))}." \
		'Debian 13: apt-get install cargo. Debian 12: apt-get install cargo-web.' \
		'Elsewhere: https://rustup.rs'; exit 1; } >&2

# Cargo says where the library is: its configuration decides that.
$(STATIC): $(RUST_SOURCES) $(BUILD)/features
	$(need-rust)
	$(call say,CARGO,$@)
	$(Q)$(CARGO) rustc --release --lib --crate-type staticlib $(FEATURES) \
		--message-format=json-render-diagnostics $(ALONE) > $(BUILD)/cargo.json
	$(Q)cp "$$(sed -n 's/.*"filenames":\["\([^"]*libhwheel\.a\)".*/\1/p' \
		$(BUILD)/cargo.json)" $@

$(BUILD):
	$(Q)mkdir -p $@

# Other features or another processor make another library.
.PHONY: force
$(BUILD)/features: force | $(BUILD)
	$(Q)echo '$(FEATURES) $(CARGO_BUILD_TARGET)' | cmp -s - $@ || \
		echo '$(FEATURES) $(CARGO_BUILD_TARGET)' > $@

# The static library, linked again: only so does the map decide the exports.
$(SHARED): $(STATIC) hwheel.map | $(BUILD)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -o $@ \
		-Wl,--whole-archive $(STATIC) -Wl,--no-whole-archive \
		-Wl,--gc-sections -Wl,--version-script=hwheel.map \
		-Wl,-soname,$(SONAME) -Wl,-z,relro,-z,now,-z,defs,-z,nodelete \
		$(LIBS)
	$(if $(AUDITABLE),$(Q)"$$($(CC) -print-prog-name=objcopy)" \
		--add-section .dep-v0=$(BUILD)/crates $@)
	$(Q)ln -sf $(notdir $@) $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(BUILD)/libhwheel.so

# Fills in a template.
fill = sed -e 's|@VERSION@|$(VERSION)|' \
	-e 's|@SONAME@|$(SONAME)|' -e 's|@PRIVATE@|$(LIBS)|'

# The directories may have spaces in their names, where make's functions see the end of
# a name. $(call absolute,directory) has * for each.
space := $() $()
absolute = $(subst $(space),*,$(abspath $(subst $(space),*,$(1))))
spaced = $(subst *,$(space),$(1))

# In hwheel.pc what lies below the prefix counts from the file, so that the tree
# can be moved; what lies elsewhere stays where it is. A space has a backslash.
below = $(patsubst $(call absolute,$(PREFIX))/%,$${prefix}/%,$(call absolute,$(1)))
in_pc = $(subst *,\\ ,$(1))
fill_pc = -e 's|@PC_LIBDIR@|$(call in_pc,$(call below,$(LIBDIR)))|' \
	-e 's|@PC_INCLUDEDIR@|$(call in_pc,$(call below,$(INCLUDEDIR)))|' \
	-e 's|@PC_PREFIX@|$(if $(filter $${prefix}/%,$(call below,$(LIBDIR))),$(up),$(call \
		in_pc,$(call absolute,$(PREFIX))))|'
up = $${pcfiledir}/'"$$(realpath -m -s --relative-to='$(LIBDIR)/pkgconfig' '$(PREFIX)')"'

.PHONY: install uninstall
# Each part adds what it installs, with a rule of its own.
install:: all
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)$(INSTALL) -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(INCLUDEDIR)'
	$(Q)$(INSTALL) -m 644 include/hwheel.h include/hwheel.hpp '$(DESTDIR)$(INCLUDEDIR)/'
	$(Q)$(INSTALL) -m 644 $(STATIC) '$(DESTDIR)$(LIBDIR)/'
	$(Q)$(INSTALL) -m 755 $(SHARED) '$(DESTDIR)$(LIBDIR)/'
	$(Q)ln -sf $(notdir $(SHARED)) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	$(Q)ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libhwheel.so'
	$(Q)$(fill) $(fill_pc) hwheel.pc.in > '$(DESTDIR)$(LIBDIR)/pkgconfig/hwheel.pc'

uninstall::
	$(call say,REMOVE,$(DESTDIR)$(PREFIX))
	$(Q)rm -f '$(DESTDIR)$(INCLUDEDIR)/hwheel.h' '$(DESTDIR)$(INCLUDEDIR)/hwheel.hpp' \
		'$(DESTDIR)$(LIBDIR)/libhwheel.a' '$(DESTDIR)$(LIBDIR)/$(notdir $(SHARED))' \
		'$(DESTDIR)$(LIBDIR)/$(SONAME)' '$(DESTDIR)$(LIBDIR)/libhwheel.so' \
		'$(DESTDIR)$(LIBDIR)/pkgconfig/hwheel.pc'

# What tests and examples link against is an installed library, as users have.
# Its path is relative if that of the source has spaces.
source := $(if $(findstring $(space),$(CURDIR)),$(CURDIR)/)
STAGE := $(if $(source),$(BUILD)/stage,$(abspath $(BUILD)/stage))
$(STAGE)/.done: $(SHARED) $(STATIC) $(wildcard include/*) \
		hwheel.pc.in $(wildcard cmake/*)
	$(Q)$(MAKE) --no-print-directory install PREFIX=$(STAGE) DESTDIR= >/dev/null
	$(Q)touch $@

STAGE_SHARED := -I$(STAGE)/include -L$(STAGE)/lib -Wl,-rpath,'$(source)$(STAGE)/lib' -lhwheel
STAGE_STATIC = -I$(STAGE)/include $(STAGE)/lib/libhwheel.a $(LIBS)

# Examples.
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c))
.PHONY: examples demo
examples: $(EXAMPLES)
$(BUILD)/%: examples/%.c $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 $(FLAGS) -D_GNU_SOURCE -o $@ $< $(STAGE_SHARED) -lpthread

demo: $(BUILD)/million $(BUILD)/idle_server
	$(Q)$(BUILD)/million
	$(Q)$(BUILD)/idle_server

# C tests: each file a program, linked shared and static.
C_TESTS := $(patsubst c-tests/%.c,%,$(wildcard c-tests/*.c)) \
	$(patsubst c-tests/%.cc,%,$(wildcard c-tests/*.cc))
C_TEST_HEADERS := $(wildcard c-tests/*.h)

# Compiled once, linked twice.
.SECONDARY: $(C_TESTS:%=$(BUILD)/c-tests/%.o)
$(BUILD)/c-tests/%.o: c-tests/%.c $(C_TEST_HEADERS) $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 $(CPPFLAGS) $(CFLAGS) $(WARN) -D_GNU_SOURCE -I$(STAGE)/include -c -o $@ $<

$(BUILD)/c-tests/%.o: c-tests/%.cc $(STAGE)/.done
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CXX) -std=c++11 $(CPPFLAGS) $(CFLAGS) $(WARN) -I$(STAGE)/include -c -o $@ $<

# With the compiler of its language.
link-test = $(if $(filter %.cc,$(wildcard c-tests/$*.cc)),$(CXX),$(CC)) $(CFLAGS) $(LDFLAGS) -o $@ $<
$(BUILD)/c-tests/shared/%: $(BUILD)/c-tests/%.o $(SHARED)
	$(Q)mkdir -p $(@D)
	$(Q)$(link-test) $(STAGE_SHARED) -lpthread

$(BUILD)/c-tests/static/%: $(BUILD)/c-tests/%.o $(STATIC)
	$(Q)mkdir -p $(@D)
	$(Q)$(link-test) $(STAGE_STATIC)

# Checks: the programs in checks, of which checks/run says more. This is what they know.
CHECK_KNOWS := MAKE CC CXX CARGO CLANG CFLAGS WARN SONAME STD LIBS PRIVATE BUILD TARGET \
	STAGE SHARED STATIC C_TESTS NOT_SANITIZED RUST_HOST RUST_LIB RTSAN PLATFORMS BINDINGS
run-checks = +$(Q)HWHEEL_VERSION=$(VERSION) $(foreach name,$(CHECK_KNOWS),$(name)='$($(name))') checks/run
# More than there are processors, as the C tests mostly sleep.
PARTS ?= $(shell echo $$(($$(nproc) + 1)))

.PHONY: test check test-rust test-c loom verify verify-short regenerate
test check: export WERROR = 1
test: $(STAGE)/.done
	$(run-checks) at-once $(BUILD)/test $(PARTS) test check
check: $(if $(CHECK),| $(BUILD),$(STAGE)/.done)
	$(run-checks) $(if $(CHECK),named '$(CHECK)',at-once $(BUILD)/check $(PARTS) check \
		$(if $(LONG),check-long))
test-rust:
	$(run-checks) named rust
test-c:
	$(run-checks) named c
loom:
	$(run-checks) named loom
verify-short:
	$(run-checks) in-turn $(BUILD)/verified verify
verify: export LONG = 1
verify: export LOOM_BOUND ?= none
verify: export LOOM_PAIRS_BOUND ?= 2
verify: export DIFFERENTIAL ?= 900
verify: export FUZZ_SECONDS ?= 420
verify:
	$(run-checks) in-turn $(BUILD)/verified verify verify-long
regenerate: | $(BUILD)
	$(run-checks) written '$(WHAT)'

.PHONY: clean help
# A target directory elsewhere may hold other crates: `cargo clean` is for that.
clean:
	rm -rf $(BUILD) target

help:
	@sed -n 's/^#: \{0,1\}//p' Makefile

# $(call need,test for a tool,how to install it): for the start of a recipe of one shell
# command; ends it aloud where the tool is missing.
need = $(1) >/dev/null 2>&1 || { echo '  SKIPPED: $@ needs $(2)'; exit $(or $(STRICT),0); };
again = $(MAKE) --no-print-directory

RUST_HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
RUST_LIB := $(shell rustc --print sysroot 2>/dev/null)/lib/rustlib
CLANG ?= clang-19

# The other parts, each next to what it makes.
include $(wildcard benches/*.mk bindings/*.mk jobs/*.mk man/*.mk tools/*.mk verify/*.mk)
