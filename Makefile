# hwheel: build, demonstrate, test, install. `make help` prints the lines that begin with
# "#:", here and in the parts of this file, which lie next to the things that they make.
#
#: Use. V=1 shows the commands, CC= and CARGO= name the compilers.
#:   make all         the default: the libraries and the tool; PROBES=1 for tracers
#:   make demo        two demos: a million timers, and a server's timeouts
#:   make examples    the programs of examples, in build
#:   make install     PREFIX=/usr/local LIBDIR= INCLUDEDIR= DESTDIR=
#:   make uninstall   removes what install has copied, with the same variables
#:   make clean       removes what make has built
#: Test. The figures are minutes on two cores.
#:   make test        the short tests, and the checks; 6
#:   make check       the checks alone, and the long forms of some
#:   make test-rust   parts of these: the Rust tests
#:   make test-c      the C tests
#:   make loom        the races under the model checker
#:   make hosts       the library in event loops of others

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

# What the library needs of the system: the C library, which `make check-needs` checks. With
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

# The servers keep their promises to clients.
.PHONY: check-examples
CHECK_PARTS += check-examples
check-examples: $(EXAMPLES)
	$(call say,CHECK,examples)
	$(Q)c-tests/echo.sh $(BUILD)/echo_server
	$(Q)$(BUILD)/several_loops_load $(BUILD)/several_loops

# C tests: each file a program, linked shared and static.
C_TESTS := $(patsubst c-tests/%.c,%,$(wildcard c-tests/*.c)) \
	$(patsubst c-tests/%.cc,%,$(wildcard c-tests/*.cc))
C_TEST_HEADERS := $(wildcard c-tests/*.h)
.PHONY: test-rust test-c loom loom-three
LONG_PARTS += loom-three
TEST_PARTS += test-c test-rust loom

test-rust:
	$(call say,TEST,rust)
	$(Q)$(CARGO) test --no-run --features capi
	$(Q)$(CARGO) test -q --features capi
	$(Q)$(CARGO) test -q --manifest-path bindings/rust/async/Cargo.toml --target-dir $(TARGET)/async

# As the C library is built.
.PHONY: test-rust-alone
LONG_PARTS += test-rust-alone
test-rust-alone:
	$(call say,TEST,rust without its standard library)
	$(Q)$(CARGO) test -q --no-default-features --features capi

# The core under the model checker: races to LOOM_BOUND preemptions, or as far as each
# comes in LOOM_SECONDS, and it says which were cut off. `make check` goes to three, and
# takes pairs, triples and stopped threads to one; `make loom-long` goes further.
LOOM_BOUND ?= 2
LOOM_SECONDS ?= 1
LOOM_BUILD := RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=$(TARGET)/loom
LOOM_TEST := $(CARGO) test -q --profile checked --lib --
# Arguments of `cargo test`: the races.
LOOM_RACES := model --skip pairs:: --skip stopped::
loom:
	$(call say,LOOM,races to $(LOOM_BOUND) preemptions or $(LOOM_SECONDS) s each)
	$(Q)$(LOOM_BUILD) $(CARGO) test --profile checked --lib --no-run
	$(Q)$(LOOM_BUILD) LOOM_MAX_PREEMPTIONS=$(LOOM_BOUND) LOOM_MAX_DURATION=$(LOOM_SECONDS) \
		$(LOOM_TEST) $(LOOM_RACES)

loom-three: LOOM_BOUND := 3
loom-three: LOOM_SECONDS := 4
loom-three: loom
	$(call say,LOOM,pairs and stopped threads to 1 preemption or $(LOOM_SECONDS) s each)
	$(Q)$(LOOM_BUILD) LOOM_MAX_PREEMPTIONS=1 LOOM_MAX_DURATION=$(LOOM_SECONDS) \
		$(LOOM_TEST) pairs:: stopped::

test-c: $(C_TESTS:%=$(BUILD)/c-tests/shared/%) $(C_TESTS:%=$(BUILD)/c-tests/static/%)
	$(Q)c-tests/run.sh $(BUILD)/c-tests/shared $(BUILD)/c-tests/static

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

# Checks.
CHECK_PARTS += check-header check-exports check-needs check-install check-readme
LONG_PARTS += check-header-long
.PHONY: check-header check-header-long check-exports check-needs check-install check-readme header

header:
	$(call say,HEADER,include/hwheel.h)
	$(Q)$(CARGO) build -q --features header

# The header looks like the kernel's code, and compiles alone under every standard. The
# example at its top is a program that works.
check-header: $(STAGE)/.done
	$(call say,CHECK,header)
	$(Q)tools/header.awk include/hwheel.h
	$(Q)for std in c99 c11 c17 c2x; do \
		$(CC) -std=$$std $(WARN) -Werror -fsyntax-only -x c include/hwheel.h || exit 1; done
	$(Q)for std in c++11 c++14 c++17 c++20; do \
		for header in hwheel.h hwheel.hpp; do \
			$(CXX) -std=$$std $(WARN) -Werror -fsyntax-only -x c++ include/$$header || \
				exit 1; done; done
	$(Q)sed -n '/^ \*\t#include/,/^ \* [^ ]/ { s/^ \*\t//p; s/^ \*$$//p }' include/hwheel.h \
		> $(BUILD)/front.c
	$(Q)$(CC) -std=c99 $(WARN) -Werror -o $(BUILD)/front $(BUILD)/front.c $(STAGE_SHARED)
	$(Q)$(BUILD)/front | grep -qx 'request 1 timed out'

# The header is also what the source says. This compiles cbindgen, which takes a minute.
check-header-long: check-header
	$(Q)HWHEEL_HEADER='$(abspath $(BUILD))/hwheel.h' $(CARGO) build -q --features header
	$(Q)diff -u include/hwheel.h $(BUILD)/hwheel.h || \
		{ echo 'include/hwheel.h has drifted: run make header'; exit 1; }

# All of the header is exported and nothing else, and c-tests/differential.c calls all of it.
# A function keeps the version node of the release that brought it, so that a program built
# against a later release is refused by this one when it is loaded; no node is of a later
# release.
check-exports: $(SHARED)
	$(call say,CHECK,exports)
	$(Q)nm -D --defined-only $(SHARED) | awk '$$2 != "A" {print $$3}' | \
		sort > $(BUILD)/exports
	$(Q)awk '/^HWHEEL_/ {node = $$1} /^\thwheel_/ {sub(";", "", $$1); \
		print $$1 "@@" node}' hwheel.map | sort > $(BUILD)/mapped
	$(Q)diff $(BUILD)/mapped $(BUILD)/exports
	$(Q)grep -o '\bhwheel_[a-z_]*(' include/hwheel.h | grep -v '()' | tr -d '(' | \
		sort -u > $(BUILD)/declared
	$(Q)sed 's/@@.*//' $(BUILD)/mapped | diff $(BUILD)/declared -
	$(Q)grep -o '\bX(hwheel_[a-z_]*)' c-tests/differential.c | tr -d 'X()' | sort | \
		diff $(BUILD)/declared -
	$(Q)last=$$(sed -n 's/^HWHEEL_\([0-9.]*\) {/\1/p' hwheel.map | sort -V | tail -1); \
	printf '%s\n%s\n' "$$last" $(VERSION) | sort -VC || \
		{ echo "the node HWHEEL_$$last is of a later release than $(VERSION)"; exit 1; }
	$(Q)c-tests/later.sh "$(CC)" $(SHARED) hwheel.map $(SONAME) '$(abspath $(BUILD)/later)'
	$(Q)readelf -d $(SHARED) | grep -q 'SONAME.*\[$(SONAME)\]'

# The libraries need the C library and nothing else, and are small.
check-needs: $(SHARED) $(STATIC)
	$(call say,CHECK,needs)
	$(Q)$(if $(STD),echo '    skipped: this processor has a library with all of Rust',c-tests/needs.sh \
		"$(CC)" $(SHARED) $(STATIC) '$(LIBS)')

# Loading the library late, again, and into a namespace.
.PHONY: check-loading
CHECK_PARTS += check-loading
check-loading: $(SHARED)
	$(call say,CHECK,loading)
	$(Q)c-tests/loading.sh '$(CC)' $(SHARED) include '$(KTAP_RUN)'

# A program outside the tree, built against the installed header.
check-install: all
	$(call say,CHECK,install)
	$(Q)c-tests/install.sh "$(MAKE)" "$(CC)" "$(CXX)"

# What packagers change: cargo's configuration, flags.
.PHONY: check-build
CHECK_PARTS += check-build
check-build:
	$(call say,CHECK,build)
	$(Q)c-tests/build.sh "$(MAKE)" '$(abspath $(BUILD)/check-build)'

# The source in another project's tree.
.PHONY: check-subproject
CHECK_PARTS += check-subproject
check-subproject:
	$(call say,CHECK,subproject)
	$(Q)c-tests/subproject.sh "$(CC)" '$(abspath $(BUILD)/subproject)'

# The crate as its users get it.
.PHONY: check-crate
CHECK_PARTS += check-crate
check-crate: | $(BUILD)
	$(call say,CHECK,crate)
	$(Q)cd bindings/rust && CARGO='$(CARGO)' SCRATCH='$(abspath $(BUILD)/crate)' ./binding.sh package

# The words of comments and documents.
.PHONY: check-words
CHECK_PARTS += check-words
check-words:
	$(call say,CHECK,words)
	$(Q)tools/words.sh
	$(Q)tools/guarantees.sh

# The commands of the documents.
check-readme: all
	$(call say,CHECK,documents)
	$(Q)c-tests/readme.sh "$(MAKE)" "$(CC)" $(wildcard *.md docs/*.md)

.PHONY: clean help
# A target directory elsewhere may hold other crates: `cargo clean` is for that.
clean:
	rm -rf $(BUILD) target

help:
	@awk 'sub(/^#: */, "") { if (/^make /) { name = $$2; sub(/^make [^ ]+ +/, ""); \
		printf "  make %-15s  %s\n", name, $$0 } else print (n++ ? "\n" : "") $$0 }' \
		$(MAKEFILE_LIST)

# The other parts, each next to what it makes.
include $(wildcard benches/*.mk bindings/*.mk jobs/*.mk man/*.mk tools/*.mk verify/*.mk)

# The parts say by TEST_PARTS, CHECK_PARTS and LONG_PARTS that they belong to these. A check
# of LONG_PARTS contains the one of that name without "-long".
# More than there are processors, as the C tests mostly sleep.
PARTS ?= $(shell echo $$(($$(nproc) + 1)))
.PHONY: test check
test check: export WERROR = 1
test: $(STAGE)/.done
	$(Q)tools/parts.sh '$(MAKE)' $(BUILD)/test $(PARTS) $(TEST_PARTS) $(CHECK_PARTS)
check: $(STAGE)/.done
	$(Q)tools/parts.sh '$(MAKE)' $(BUILD)/check $(PARTS) $(LONG_PARTS) \
		$(filter-out $(LONG_PARTS:%-long=%),$(CHECK_PARTS))
