# Packaging: what CMake finds, a tarball, and cargo-c.
CMAKEDIR = $(LIBDIR)/cmake/hwheel

.PHONY: install-cmake uninstall-cmake
install: install-cmake
install-cmake:
	$(Q)$(INSTALL) -d $(DESTDIR)$(CMAKEDIR)
	$(Q)for file in hwheelConfig hwheelConfigVersion; do \
		$(fill) -e "s|@INCLUDE_FROM_LIB@|$$(realpath -m -s \
			--relative-to=$(LIBDIR) $(INCLUDEDIR))|" \
			cmake/$$file.cmake.in > $(DESTDIR)$(CMAKEDIR)/$$file.cmake || \
			exit 1; done

uninstall: uninstall-cmake
uninstall-cmake:
	$(Q)rm -f $(DESTDIR)$(CMAKEDIR)/hwheelConfig.cmake \
		$(DESTDIR)$(CMAKEDIR)/hwheelConfigVersion.cmake

# The tarball is what git has committed; the same commit, the same bytes.
DIST := $(BUILD)/hwheel-$(VERSION).tar.gz
.PHONY: dist check-dist
dist: | $(BUILD)
	$(call say,DIST,$(DIST))
	$(Q)git archive --format=tar --prefix=hwheel-$(VERSION)/ HEAD | gzip -9n > $(DIST)

# It builds and installs by itself.
check-dist: dist
	$(call say,CHECK,dist)
	$(Q)rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist
	$(Q)tar -xzf $(DIST) -C $(BUILD)/dist
	$(Q)env -u CARGO_TARGET_DIR $(MAKE) --no-print-directory \
		-C $(BUILD)/dist/hwheel-$(VERSION) install \
		DESTDIR=$(abspath $(BUILD)/dist/root) PREFIX=/usr >/dev/null
	$(Q)test -f $(BUILD)/dist/root/usr/lib/$(notdir $(SHARED))
	$(Q)rm -rf $(BUILD)/dist

# cargo-c installs the same.
.PHONY: check-cargo-c
check-cargo-c: all
	$(call say,CHECK,cargo-c)
	$(Q)c-tests/cargo-c.sh "$(MAKE)" "$(CARGO)"
