# Benchmarks: build/bench/<program>, which benches/run.py runs.
#
#   make bench          ours and the machine's yardsticks, under two minutes
#   make bench-peers    everything; a peer that is not installed is skipped
#   make bench-check    the limits, met or not, of the last run of the two
#   make bench-plot     its figures as docs/plots/*.svg
#   make bench-batch    many timers in one call, and one by one

BENCH  := $(BUILD)/bench
OUT    ?= $(BENCH)/figures.jsonl
ROUNDS ?= 5
PYTHON ?= python3
GO     ?= go
JAVAC  ?= javac
JAVA   ?= java
NETTY  ?= /usr/share/java/netty-common.jar

BENCH_CC = $(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE -o $@ $<
# BENCH_FLAGS=--prefer: before what else the machine does (root).
BENCH_RUN = $(PYTHON) benches/run.py --programs $(BENCH) --rounds $(ROUNDS) $(BENCH_FLAGS)

.PHONY: bench bench-peers bench-check bench-plot bench-batch
bench: $(BENCH)/hwheel $(BENCH)/machine
	$(Q)$(BENCH_RUN) $(OUT)

bench-peers: $(BENCH)/hwheel $(BENCH)/machine $(BENCH)/textbook \
		peer-libuv peer-libevent peer-rust peer-go peer-jdk peer-netty
	$(Q)$(BENCH_RUN) --peers $(OUT)

bench-check:
	$(Q)$(PYTHON) benches/run.py --check $(OUT)

bench-plot:
	$(Q)$(PYTHON) benches/plot.py $(OUT) docs/plots

bench-batch: $(BENCH)/batch
	$(Q)$<

$(BENCH)/%: benches/c/%.c benches/c/bench.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_CC) $(STAGE_SHARED) -lpthread

$(BENCH)/textbook: benches/textbook.c benches/c/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_CC)

# peer-NAME: build it if TEST says that it can be, else say what is missing.
# $(call peer,NAME,PROGRAMS,TEST,HINT)
define peer
.PHONY: peer-$(1)
peer-$(1):
	$(Q)if { $(3); } >/dev/null 2>&1; then \
		$(MAKE) -s $(2:%=$(BENCH)/%); \
	else \
		rm -f $(2:%=$(BENCH)/%); \
		printf '  %-7s %s\n' SKIP '$(2): $(4)'; \
	fi
endef
includes = echo '\#include <$(1)>' | $(CC) -E -x c -

$(eval $(call peer,libuv,libuv,$(call includes,uv.h),no <uv.h>; Debian: libuv1-dev))
$(eval $(call peer,libevent,libevent,$(call includes,event2/thread.h),no \
	<event2/thread.h>; Debian: libevent-dev))
$(eval $(call peer,rust,tokio delay_queue hhwt,$(CARGO) fetch --locked \
	--manifest-path benches/peers/rust/Cargo.toml,the crates cannot be fetched))
$(eval $(call peer,go,go,$(GO) version,no $(GO); Debian: golang-go))
$(eval $(call peer,jdk,jdk,$(JAVAC) -version && $(JAVA) -version,no $(JAVAC) or \
	$(JAVA); Debian: default-jdk-headless))
$(eval $(call peer,netty,netty,$(JAVAC) -version && $(JAVA) -version && test -e \
	$(NETTY),no $(NETTY) or no $(JAVAC); Debian: libnetty-java default-jdk-headless))

PEER_HEADERS := benches/peers/workloads.h benches/c/bench.h
$(BENCH)/libuv: benches/peers/libuv.c $(PEER_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_CC) -luv -lpthread

$(BENCH)/libevent: benches/peers/libevent.c $(PEER_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BENCH_CC) -levent_core -levent_pthreads -lpthread

PEERS_RUST := benches/peers/rust
$(BENCH)/tokio $(BENCH)/delay_queue $(BENCH)/hhwt &: $(PEERS_RUST)/Cargo.toml \
		$(PEERS_RUST)/Cargo.lock $(wildcard $(PEERS_RUST)/src/*.rs $(PEERS_RUST)/src/bin/*.rs)
	$(call say,CARGO,$(PEERS_RUST))
	$(Q)mkdir -p $(BENCH)
	$(Q)$(CARGO) build -q --release --locked --manifest-path $< --target-dir $(TARGET)/peers
	$(Q)cd $(TARGET)/peers/release && cp tokio delay_queue hhwt $(abspath $(BENCH))

$(BENCH)/go: benches/peers/go/main.go benches/peers/go/go.mod
	$(call say,GO,$@)
	$(Q)mkdir -p $(@D)
	$(Q)cd $(<D) && $(GO) build -buildvcs=false -o $(abspath $@) .

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
