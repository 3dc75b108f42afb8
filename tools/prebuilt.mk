# Prebuilt archives, one for each platform, that install without Rust. They are built
# from the tarball, in which the same target builds the same bytes.
.PHONY: dist-bin
dist-bin: $(if $(wildcard .git),dist) | $(BUILD)
	$(Q)rm -f $(PLATFORMS:%=$(BUILD)/$(NAME)-%.tar.gz)
ifneq ($(wildcard .git),)
	$(Q)rm -rf $(BUILD)/prebuilt && mkdir -p $(BUILD)/prebuilt
	$(Q)tar -xzf $(DIST) -C $(BUILD)/prebuilt
	$(Q)env -u CARGO_TARGET_DIR $(again) -C $(BUILD)/prebuilt/$(NAME) \
		dist-bin BUILD=build
	$(Q)find $(BUILD)/prebuilt/$(NAME)/build -name '$(NAME)-*.tar.gz' -exec mv {} $(BUILD)/ \;
	$(Q)rm -rf $(BUILD)/prebuilt
else
	$(Q)for platform in $(PLATFORMS); do \
		$(again) archive-$$platform || exit 1; done
endif

# What make installs, the licences of what is in it, and a script that copies it. No
# byte depends on the directory, the user or the time.
ARCHIVE = $(NAME)-$*
# The sources of the standard library, as they are called where they are not installed.
standard = --remap-path-prefix=$(RUST_LIB)/src/rust=/rustc/$(shell rustc -vV 2>/dev/null | \
	sed -n 's/^commit-hash: //p')
# $(call licences,directory): of the library, of its crates, and of the standard library.
licences = $(INSTALL) -d $(1)/rust && \
	$(INSTALL) -m 644 README.md CHANGELOG.md LICENSE-* $(wildcard $(SBOM)) $(1)/ && \
	for crate in $$($(CARGO) tree -q -e normal $(FEATURES) --prefix none | \
			sed -n '2,$$s/ .*//p' | sort -u); do \
		$(INSTALL) -d $(1)/$$crate && \
		$(INSTALL) -m 644 vendor/$$crate/LICENSE* $(1)/$$crate/ || exit 1; done && \
	standard=$$(ls "$$(rustc --print sysroot)"/share/doc/rust/COPYRIGHT-library.html \
		/usr/share/doc/libstd-rust-dev/copyright 2>/dev/null | head -n 1) && \
	{ [ -n "$$standard" ] || { echo \
		'This Rust comes without the licences of its standard library'; exit 1; }; } && \
	$(INSTALL) -m 644 "$$standard" $(1)/rust/
archive-%: force
	$(Q)$(call need-platform,$*) $(again) $(call platform,$*) CFLAGS=-O2 \
		RUSTFLAGS='--remap-path-prefix=$(CURDIR)=/$(NAME) $(standard)' \
		PREFIX='$(abspath $(BUILD))/$(ARCHIVE)' DESTDIR= \
		GDB_AUTOLOAD='$(abspath $(BUILD))/$(ARCHIVE)/share/gdb/auto-load' install && \
	$(call licences,$(BUILD)/$(ARCHIVE)/share/doc/hwheel) && \
	sed -e 's/@NAME@/$(ARCHIVE)/' -e 's/@PROCESSOR@/$(call processor,$*)/' \
		tools/install.sh.in > $(BUILD)/$(ARCHIVE)/install.sh && \
	chmod 755 $(BUILD)/$(ARCHIVE)/install.sh && \
	$(call pack,$(BUILD),$(ARCHIVE)) > $(BUILD)/$(ARCHIVE).tar.gz && \
	rm -rf $(BUILD)/$(ARCHIVE) && \
	(cd $(BUILD) && sha256sum $(ARCHIVE).tar.gz)

# Used where there is no Rust.
used-%: force
	$(Q)c-tests/prebuilt.sh $(BUILD)/$(ARCHIVE).tar.gz '$(call platform-cc,$*)' \
		'$(call emulator,$*)'
