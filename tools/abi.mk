# The binary interface, of which abi/hwheel.abi is the committed record.
abi-check = $(Q)abi/check.sh $(1) '$(CC)' '$(CARGO)' $(SONAME) '$(PRIVATE)' \
	'$(abspath $(TARGET))' '$(abspath $(BUILD)/abi)'

.PHONY: check-abi abi-baseline
test check: check-abi
check-abi:
	$(call say,CHECK,abi)
	$(call abi-check,check)

abi-baseline:
	$(call say,ABI,abi/hwheel.abi)
	$(call abi-check,baseline)
