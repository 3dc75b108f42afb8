# The library beside the fastest wheels there are, which are for one thread:
#
#   make bench-core RATAS=dir WAHERN=dir   every row of benches/limits.txt
#   make bench-core ... ROWS='re-arm'      the rows whose names match, quickly
#   make bench-core ... ROUNDS=1           faster and less certain than five
#
# RATAS and WAHERN are checkouts of jsnell/ratas and wahern/timeout. The library
# is that of this tree, or of LIBRARY=dir, the prefix of an installed one, or any
# other: LIBRARY_H='a header like benches/library.h' LIBRARY_LD='flags'.

CORE       := $(BUILD)/bench/core
CORE_OUT   ?= $(CORE)/figures.jsonl
LIBRARY    ?= $(STAGE)
LIBRARY_H  ?= benches/library.h
LIBRARY_LD ?= -L$(LIBRARY)/lib -Wl,-rpath,$(abspath $(LIBRARY))/lib -lhwheel
LIBRARY_CC := -I$(LIBRARY)/include -DBENCH_LIBRARY='"$(abspath $(LIBRARY_H))"'
ROWS       ?=

CORE_C   := $(CC) -std=c11 -O2 $(WARN) -D_GNU_SOURCE
CORE_CXX := $(CXX) -std=c++17 -O2 $(WARN) -D_GNU_SOURCE
CORE_HWHEEL := $(CORE)/hwheel $(CORE)/hwheel-hand $(CORE)/cost-program
CORE_RATAS  := $(CORE)/ratas $(CORE)/ratas-spin $(CORE)/ratas-mutex
CORE_WAHERN := $(CORE)/wahern $(CORE)/wahern-spin $(CORE)/wahern-mutex

.PHONY: bench-core
bench-core: $(CORE_HWHEEL) $(CORE)/cost $(if $(RATAS),$(CORE_RATAS)) $(if $(WAHERN),$(CORE_WAHERN))
	$(Q)benches/limits.py run --programs $(CORE) --rounds $(ROUNDS) --rows '$(ROWS)' $(CORE_OUT)

CORE_HEADERS := benches/bench.h benches/workloads.h
$(CORE)/%-spin: LOCK := -DLOCK_SPIN
$(CORE)/%-mutex: LOCK := -DLOCK_MUTEX

$(CORE)/ratas $(CORE)/ratas-spin $(CORE)/ratas-mutex: benches/wheels/ratas.cc \
		benches/wheels/lock.h $(CORE_HEADERS)
	$(call say,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CORE_CXX) $(LOCK) -isystem $(RATAS)/src -o $@ $< -lpthread

$(CORE)/wahern $(CORE)/wahern-spin $(CORE)/wahern-mutex: benches/wheels/wahern.c \
		benches/wheels/lock.h $(CORE_HEADERS)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CORE_C) $(LOCK) -isystem $(WAHERN) -o $@ $< -lpthread

# verify/cost.mk has the rules of the program that counts instructions.
# Another library makes other programs.
$(CORE)/library: force
	$(Q)mkdir -p $(@D)
	$(Q)echo '$(LIBRARY_CC) $(LIBRARY_LD)' | cmp -s - $@ || echo '$(LIBRARY_CC) $(LIBRARY_LD)' > $@

$(CORE_HWHEEL): $(CORE)/library $(LIBRARY_H) $(if $(filter $(STAGE),$(LIBRARY)),$(STAGE)/.done)
$(CORE)/hwheel-hand: HAND := -DAT_HAND
$(CORE)/hwheel $(CORE)/hwheel-hand: benches/wheels/hwheel.c $(CORE_HEADERS)
	$(call say,CC,$@)
	$(Q)$(CORE_C) $(LIBRARY_CC) $(HAND) -o $@ $< $(LIBRARY_LD) -lpthread
