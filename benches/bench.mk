# Benchmarks: build/bench/<program>, run by benches/run.py.
#
#   make bench          ours and the machine's yardsticks, under two minutes
#   make bench-peers    everything; a peer that is not installed is skipped
#   make bench-core     the core's parts, by criterion

BENCH := $(BUILD)/bench

$(BENCH)/%: benches/c/%.c benches/c/bench.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE -o $@ $< $(STAGE_SHARED) -lpthread

$(BENCH)/textbook: benches/textbook.c benches/c/bench.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE -o $@ $<
