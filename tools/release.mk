# Releases.
#
# AUDITABLE=1 writes the list of crates into the shared library too, where scanners find it. cargo
# auditable writes it into a library of cargo's own, and from there it is copied.
SBOM := hwheel.cdx.json
ifdef AUDITABLE
$(SHARED): $(BUILD)/crates
$(BUILD)/crates: Cargo.lock Cargo.toml | $(BUILD)
	$(Q)env -u CARGO_BUILD_TARGET $(CARGO) auditable rustc -q --lib --crate-type cdylib $(FEATURES) \
		--target-dir $(TARGET)/auditable --message-format=json-render-diagnostics $(ALONE) \
		> $(BUILD)/auditable.json
	$(Q)objcopy --dump-section .dep-v0=$@ "$$(sed -n \
		's/.*"filenames":\["\([^"]*libhwheel\.so\)".*/\1/p' $(BUILD)/auditable.json)" /dev/null
endif

# A release, from a clean clone: so that what is in it is what was committed. With
# RELEASE_STRICT=1 a part that cannot be made here is a failure.
.PHONY: release
RELEASE := $(BUILD)/release
release:
	$(Q)[ -z "$$(git status --porcelain)" ] || { echo 'The tree has changes that are not' \
		'committed: make a release in a clean clone'; exit 1; }
	$(Q)tools/release.sh version '$(VERSION)'
	$(Q)rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	$(Q)$(MAKE) --no-print-directory dist-bin deb AUDITABLE=$(if $(shell cargo auditable \
		--version 2>/dev/null),1)
	$(Q)BINDING_TIMEOUT=3600 $(MAKE) --no-print-directory test-packages
	$(Q)tools/release.sh collect '$(VERSION)' '$(BUILD)' '$(RELEASE)' '$(RELEASE_STRICT)'
