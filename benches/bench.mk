#: Measure. docs/PERFORMANCE.md says what it means; benches/bench.mk has the variables.
#:   make bench-core      the limits of the core, against ratas and wahern; 4 minutes
#:   make bench           the library, two wheels, two heaps and the machine
#:   make bench-peers     these and every other timer that is installed
#:   make bench-server    a server with each kind of timers
#:   make bench-all       all of that, and docs/FIGURES.md and docs/plots from it
#:   make bench-check     the limits, kept or not, of what was measured last
#:   make bench-bindings  each language against its own timers; writes docs/BINDINGS.md
#:   make figures         single figures, to compare before and after a change
#
# RATAS=dir and WAHERN=dir are checkouts of github.com/jsnell/ratas and
# github.com/wahern/timeout; without them they are left out. ROUNDS=5 is how often
# each program runs, ROWS='re-arm' which limits are measured. The library is that
# of this tree, or of LIBRARY=dir, the prefix of an installed one, or any other:
# LIBRARY_H='a header like benches/library.h' LIBRARY_LD='flags of the linker'.

BENCH      := $(BUILD)/bench
FIGURES    ?= $(BENCH)/figures.jsonl
ROUNDS     ?= 5
ROWS       ?=
LIBRARY    ?= $(STAGE)
LIBRARY_H  ?= benches/library.h
LIBRARY_LD ?= -L$(LIBRARY)/lib -Wl,-rpath,$(abspath $(LIBRARY))/lib -lhwheel
LIBRARY_CC := -I$(LIBRARY)/include -DBENCH_LIBRARY='"$(abspath $(LIBRARY_H))"'
PYTHON ?= python3
GO     ?= go
JAVAC  ?= javac
JAVA   ?= java
NETTY  ?= /usr/share/java/netty-common.jar

BENCH_C   := $(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE
BENCH_CXX := $(CXX) -std=c++17 -O2 $(WARN) -D_GNU_SOURCE
BENCH_RUN  = $(PYTHON) benches/run.py --programs $(BENCH) --rounds $(ROUNDS)
BENCH_OURS := $(addprefix $(BENCH)/,hwheel hwheel-hand ours cost-program)
BENCH_CORE := $(BENCH_OURS) $(BENCH)/cost $(BENCH)/lines $(BENCH)/machine $(BENCH)/nothing \
	peer-ratas peer-wahern
BENCH_PEERS := $(BENCH_CORE) $(BENCH)/unsorted $(BENCH)/sorted $(BENCH)/heap \
	peer-libuv peer-libevent peer-rust peer-go peer-jdk peer-netty

.PHONY: bench bench-core bench-peers bench-check bench-all bench-report
bench-core: $(BENCH_CORE)
	$(Q)$(BENCH_RUN) --limits --rows '$(ROWS)' $(FIGURES)

bench: $(BENCH_CORE) peer-libuv peer-libevent
	$(Q)$(BENCH_RUN) --tables $(FIGURES)

bench-peers: $(BENCH_PEERS)
	$(Q)$(BENCH_RUN) --limits --tables $(FIGURES)

bench-check:
	$(Q)$(PYTHON) benches/limits.py $(FIGURES)

bench-report:
	$(Q)$(PYTHON) benches/report.py $(FIGURES) docs/FIGURES.md docs/PERFORMANCE.md
	$(Q)cp $(FIGURES) docs/plots/figures.jsonl
	$(Q)if $(PYTHON) -c 'import matplotlib' 2>/dev/null; then \
		$(PYTHON) benches/plot.py $(FIGURES) docs/plots; \
	else \
		printf '  %-7s %s\n' SKIP 'plots: no matplotlib; Debian: python3-matplotlib'; \
	fi

bench-all: $(BENCH_PEERS) server-programs
	$(Q)$(BENCH_RUN) --limits --tables --server $(FIGURES)
	$(Q)$(MAKE) -s --no-print-directory bench-report

BENCH_HEADERS := benches/bench.h benches/workloads.h benches/lines.h \
	benches/wheels/in_array.h benches/wheels/arm_moves.h
$(BENCH)/machine: benches/machine.c benches/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -lpthread

# Another library makes other programs.
$(BENCH)/library: force
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(LIBRARY_CC) $(LIBRARY_LD)' | cmp -s - $@ || \
		echo '$(LIBRARY_CC) $(LIBRARY_LD)' > $@

# verify/cost.mk has the rules of the program that counts instructions.
$(BENCH_OURS): $(BENCH)/library $(LIBRARY_H) $(if $(filter $(STAGE),$(LIBRARY)),$(STAGE)/.done)
$(BENCH)/hwheel-hand: HAND := -DAT_HAND
$(BENCH)/hwheel $(BENCH)/hwheel-hand: benches/wheels/hwheel.c $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) $(HAND) -o $@ $< $(LIBRARY_LD) -lpthread

$(BENCH)/ours: benches/ours.c benches/bench.h
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD) -lpthread

# Counts lines of memory, as a program like the others: "lines hwheel".
$(BENCH)/lines: benches/lines.py
	$(Q)mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec $(PYTHON) %s "./$$1"\n' $(abspath $<) > $@ && chmod +x $@

# Wheels and heaps for one thread: alone, and with a lock round each call.
$(BENCH)/%-spin: LOCK := -DLOCK_SPIN
$(BENCH)/%-mutex: LOCK := -DLOCK_MUTEX
RATAS_PROGRAMS  := ratas ratas-spin ratas-mutex
WAHERN_PROGRAMS := wahern wahern-spin wahern-mutex
LIBUV_PROGRAMS  := libuv libuv-spin libuv-mutex
$(RATAS_PROGRAMS:%=$(BENCH)/%): benches/wheels/ratas.cc benches/wheels/lock.h $(BENCH_HEADERS)
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_CXX) $(LOCK) -isystem $(RATAS)/src -o $@ $< -lpthread

$(WAHERN_PROGRAMS:%=$(BENCH)/%): benches/wheels/wahern.c benches/wheels/lock.h $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) $(LOCK) -isystem $(WAHERN) -o $@ $< -lpthread

$(LIBUV_PROGRAMS:%=$(BENCH)/%): benches/wheels/libuv.c benches/wheels/lock.h \
		benches/wheels/clock.h $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) $(LOCK) -o $@ $< -luv -lpthread

$(BENCH)/libevent: benches/wheels/libevent.c benches/wheels/clock.h $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -levent_core -levent_pthreads -lpthread

$(BENCH)/nothing: benches/wheels/nothing.c $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -lpthread

$(BENCH)/unsorted: QUEUE := -DUNSORTED
$(BENCH)/sorted: QUEUE := -DSORTED
$(BENCH)/heap: QUEUE := -DHEAP
$(BENCH)/unsorted $(BENCH)/sorted $(BENCH)/heap: benches/wheels/textbook.c $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) $(QUEUE) -o $@ $< -lpthread

# peer-NAME: build it if TEST says that it can be, else say what is missing.
# $(call peer,NAME,PROGRAMS,TEST,HINT)
define peer
.PHONY: peer-$(1)
peer-$(1):
	$(Q)if { $(3); } >/dev/null 2>&1; then \
		$(MAKE) -s --no-print-directory $(2:%=$(BENCH)/%); \
	else \
		rm -f $(2:%=$(BENCH)/%); \
		printf '  %-7s %s\n' SKIP '$(1): $(4)'; \
	fi
endef
includes = echo '\#include <$(1)>' | $(CC) -E -x c -

$(eval $(call peer,ratas,$(RATAS_PROGRAMS),test -e '$(RATAS)'/src/timer-wheel.h,RATAS=dir \
	is to be a checkout of github.com/jsnell/ratas))
$(eval $(call peer,wahern,$(WAHERN_PROGRAMS),test -e '$(WAHERN)'/timeout.c,WAHERN=dir \
	is to be a checkout of github.com/wahern/timeout))
$(eval $(call peer,libuv,$(LIBUV_PROGRAMS),$(call includes,uv.h),no <uv.h>; Debian: libuv1-dev))
$(eval $(call peer,libevent,libevent,$(call includes,event2/thread.h),no \
	<event2/thread.h>; Debian: libevent-dev))
$(eval $(call peer,rust,tokio delay_queue hhwt,$(CARGO) fetch --locked \
	--manifest-path benches/peers/rust/Cargo.toml,the crates cannot be fetched))
$(eval $(call peer,go,go,$(GO) version,no $(GO); Debian: golang-go))
$(eval $(call peer,jdk,jdk,$(JAVAC) -version && $(JAVA) -version,no $(JAVAC) or \
	$(JAVA); Debian: default-jdk-headless))
$(eval $(call peer,netty,netty,$(JAVAC) -version && $(JAVA) -version && test -e \
	$(NETTY),no $(NETTY) or no $(JAVAC); Debian: libnetty-java default-jdk-headless))

PEERS_RUST := benches/peers/rust
$(BENCH)/tokio $(BENCH)/delay_queue $(BENCH)/hhwt &: $(PEERS_RUST)/Cargo.toml \
		$(PEERS_RUST)/Cargo.lock $(wildcard $(PEERS_RUST)/src/*.rs $(PEERS_RUST)/src/bin/*.rs)
	$(call say,CARGO,$(PEERS_RUST))
	$(Q)mkdir -p $(BENCH)
	$(Q)$(CARGO) build -q --release --locked --manifest-path $< --target-dir $(TARGET)/peers
	$(Q)cd $(TARGET)/peers/release && cp tokio delay_queue hhwt '$(abspath $(BENCH))'

$(BENCH)/go: benches/peers/go/main.go benches/peers/go/go.mod
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D)
	$(Q)cd $(<D) && $(GO) build -buildvcs=false -o '$(abspath $@)' .

# A script stands for a program of the JVM.
PEERS_JAVA := benches/peers/java
$(BENCH)/jdk: MAIN := Jdk
$(BENCH)/netty: MAIN := Netty
$(BENCH)/jdk $(BENCH)/netty: $(wildcard $(PEERS_JAVA)/*.java)
	$(call say,JAVAC,$@)
	$(Q)mkdir -p $@.classes
	$(Q)$(JAVAC) -cp $(NETTY) -d $@.classes $(PEERS_JAVA)/Workloads.java $(PEERS_JAVA)/$(MAIN).java
	$(Q)printf '#!/bin/sh\nexec %s -cp %s:%s %s "$$@"\n' $(JAVA) $(abspath $@.classes) \
		$(NETTY) $(MAIN) > $@ && chmod +x $@

# The server: one program for each kind of timers, and one that makes the load.
SERVER := $(BENCH)/server
SERVERS := $(SERVER)/none $(SERVER)/hwheel $(SERVER)/timerfd
.PHONY: bench-server server-programs
bench-server: server-programs
	$(Q)$(BENCH_RUN) --server $(FIGURES)

server-programs: $(SERVERS) $(SERVER)/load peer-server-libuv peer-server-libevent

$(SERVER)/load: benches/server/load.c benches/server/shared.h benches/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -lpthread

$(SERVER)/hwheel: $(BENCH)/library $(LIBRARY_H) $(if $(filter $(STAGE),$(LIBRARY)),$(STAGE)/.done)
$(SERVER)/hwheel: SERVER_LD := $(LIBRARY_CC) $(LIBRARY_LD)
$(SERVER)/libuv: SERVER_LD := -luv
$(SERVER)/libevent: SERVER_LD := -levent_core
$(SERVER)/libevent-common: SERVER_LD := -DCOMMON -levent_core
$(SERVER)/%: benches/server/server.c benches/server/shared.h $(wildcard benches/server/*.h)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -DTIMERS='"$(firstword $(subst -, ,$*)).h"' -o $@ $< $(SERVER_LD) -lpthread

$(eval $(call peer,server-libuv,server/libuv,$(call includes,uv.h),no <uv.h>; Debian: libuv1-dev))
$(eval $(call peer,server-libevent,server/libevent server/libevent-common,$(call \
	includes,event2/event.h),no <event2/event.h>; Debian: libevent-dev))
