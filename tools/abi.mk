# The binary interface, of which abi/hwheel.abi is the committed record.
abi-check = $(Q)abi/check.sh $(1) '$(CC)' '$(CARGO)' $(SONAME) '$(PRIVATE)' \
	'$(abspath $(TARGET))' '$(abspath $(BUILD)/abi)'

.PHONY: check-abi check-abi-long abi-baseline
CHECK_PARTS += check-abi
LONG_PARTS += check-abi-long
check-abi:
	$(call say,CHECK,abi)
	$(call abi-check,check)

# And breaks copies, to see that it would notice.
check-abi-long:
	$(call say,CHECK,abi)
	$(call abi-check,prove)

abi-baseline:
	$(call say,ABI,abi/hwheel.abi)
	$(call abi-check,baseline)
