# Packaging: what CMake finds and a tarball.
CMAKEDIR = $(LIBDIR)/cmake/hwheel

install::
	$(Q)$(INSTALL) -d '$(DESTDIR)$(CMAKEDIR)'
	$(Q)for file in hwheelConfig hwheelConfigVersion; do \
		$(fill) -e "s|@INCLUDE_FROM_LIB@|$$(realpath -m -s \
			--relative-to='$(LIBDIR)' '$(INCLUDEDIR)')|" \
			cmake/$$file.cmake.in > '$(DESTDIR)$(CMAKEDIR)'/$$file.cmake || \
			exit 1; done

uninstall::
	$(Q)rm -f '$(DESTDIR)$(CMAKEDIR)'/hwheelConfig.cmake \
		'$(DESTDIR)$(CMAKEDIR)'/hwheelConfigVersion.cmake

# The tarball is what git has committed, with the crates that it names, so that it
# builds offline; the same commit, the same bytes.
NAME := hwheel-$(VERSION)
DIST := $(BUILD)/$(NAME).tar.gz
# $(call pack,directory,what of it): the time is that of the commit, which is that of
# the files where there is no git.
pack = tar -C $(1) --sort=name --mtime=@$${SOURCE_DATE_EPOCH:-$$($(if $(wildcard \
	.git),git log -1 --format=%ct,stat -c %Y Makefile))} --owner=0 --group=0 \
	--numeric-owner --mode=u=rwX,go=rX --format=gnu -c $(2) | gzip -9n
.PHONY: dist
dist: $(MAN)/.done | $(BUILD)
	$(Q)git rev-parse HEAD >/dev/null 2>&1 || { echo 'The tarball is made of what git has' \
		'committed: this needs git (apt-get install git) and its directory'; exit 1; }
	$(call say,DIST,$(DIST))
	$(Q)rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist/$(NAME)/.cargo
	$(Q)git archive HEAD | tar -xC $(BUILD)/dist/$(NAME)
	$(Q)cp $(MAN)/*.3 $(BUILD)/dist/$(NAME)/man/
	$(Q)cd $(BUILD)/dist/$(NAME) && { $(CARGO) vendor --locked vendor \
		> .cargo/config.toml 2> ../log || { cat ../log; exit 1; }; }
	$(Q)$(call pack,$(BUILD)/dist,$(NAME)) > $(DIST)
	$(Q)rm -rf $(BUILD)/dist

# A directory to check in, which CMake and Meson build a program with, offline.
.PHONY: dist-vendor
VENDOR := $(BUILD)/$(NAME)-vendor
dist-vendor: | $(BUILD)
	$(call say,VENDOR,$(VENDOR))
	$(Q)tools/vendor.sh '$(abspath $(VENDOR))' '$(CARGO)'
