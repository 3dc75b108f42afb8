# The files of src form layers: folders one above the other, and no circles.
.PHONY: check-layers
CHECK_PARTS += check-layers

check-layers:
	$(call say,CHECK,layers)
	$(Q)command -v python3 >/dev/null || \
		{ echo '  SKIPPED python3 is not installed'; exit 0; }; \
	python3 verify/layers.py
