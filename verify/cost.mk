# What a call costs, in instructions: counted, so the same on a busy machine.
.PHONY: check-cost cost-table
VERIFY_SHORT += check-cost
VERIFY_LONG += check-cost

need-callgrind = $(call need,test -e /usr/include/valgrind/callgrind.h,\
	apt-get install valgrind)

check-cost: $(STAGE)/.done
	$(call say,COST,instructions a call)
	$(Q)$(need-callgrind) $(MAKE) -s --no-print-directory $(BENCH)/cost-program && \
		$(record) verify/cost.py $(BENCH)/cost-program check

cost-table: $(BENCH)/cost-program
	$(call say,COST,verify/cost.txt)
	$(Q)verify/cost.py $< table > $(BUILD)/cost.txt
	$(Q)mv $(BUILD)/cost.txt verify/cost.txt

$(BENCH)/cost-program: verify/cost.c
	$(call say,CC,$@)
	$(Q)$(BENCH_C) $(LIBRARY_CC) -o $@ $< $(LIBRARY_LD)
