# Figures of one program each, to compare before and after: what a query disturbs, a leap
# over nothing, catching up, a tick by the number of threads, a small wheel.
.PHONY: figures
FIGURE_PROGRAMS := $(patsubst benches/figures/%.c,$(BUILD)/figures/%,$(wildcard benches/figures/*.c))

figures: $(FIGURE_PROGRAMS)
	$(Q)for figure in $(FIGURE_PROGRAMS); do $$figure || exit 1; done

$(BUILD)/figures/%: benches/figures/%.c benches/figures/figure.h $(STAGE)/.done
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE -o $@ $< $(STAGE_SHARED) -lpthread
