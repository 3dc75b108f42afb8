#: Package. docs/PACKAGING.md says what they need.
#:   make dist          the source with its crates, which builds offline
#:   make dist-bin      prebuilt archives for the platforms that can be built here
#:   make dist-vendor   a directory that a C project checks in
#:   make deb           packages for Debian
#:   make check-dist    builds both twice, compares, installs and uses them
#:   make check-cargo-c compares what cargo-c installs with `make install`
#
# Packaging: what CMake finds, a tarball, and cargo-c.
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
.PHONY: dist check-dist
dist: | $(BUILD)
	$(Q)git rev-parse HEAD >/dev/null 2>&1 || { echo 'The tarball is made of what git has' \
		'committed: this needs git (apt-get install git) and its directory'; exit 1; }
	$(call say,DIST,$(DIST))
	$(Q)rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist/$(NAME)/.cargo
	$(Q)git archive HEAD | tar -xC $(BUILD)/dist/$(NAME)
	$(Q)cd $(BUILD)/dist/$(NAME) && { $(CARGO) vendor --locked vendor \
		> .cargo/config.toml 2> ../log || { cat ../log; exit 1; }; }
	$(Q)$(call pack,$(BUILD)/dist,$(NAME)) > $(DIST)
	$(Q)rm -rf $(BUILD)/dist

# It builds and installs by itself, offline, where cargo has nothing in store.
check-dist: dist dist-bin
	$(call say,CHECK,dist)
	$(Q)mkdir -p $(BUILD)/dist
	$(Q)tar -xzf $(DIST) -C $(BUILD)/dist
	$(Q)env -u CARGO_TARGET_DIR CARGO_HOME='$(abspath $(BUILD)/dist/empty)' \
		CARGO_NET_OFFLINE=true $(MAKE) --no-print-directory -C $(BUILD)/dist/$(NAME) \
		install DESTDIR='$(abspath $(BUILD)/dist/root)' PREFIX=/usr >/dev/null
	$(Q)nm -D $(BUILD)/dist/root/usr/lib/$(notdir $(SHARED)) | grep -q ' T hwheel_create'
	$(Q)mv $(DIST) $(BUILD)/dist/first && $(MAKE) -s --no-print-directory dist \
		BUILD=$(BUILD)/again >/dev/null && mv $(BUILD)/again/$(notdir $(DIST)) $(DIST)
	$(Q)cmp $(BUILD)/dist/first $(DIST)
	$(Q)rm -rf $(BUILD)/dist $(BUILD)/again
	$(check-dist-bin)

# A directory to check in, which CMake and Meson build a program with, offline.
.PHONY: dist-vendor check-vendor
VENDOR := $(BUILD)/$(NAME)-vendor
LONG_PARTS += check-vendor
dist-vendor: | $(BUILD)
	$(call say,VENDOR,$(VENDOR))
	$(Q)tools/vendor.sh '$(abspath $(VENDOR))' '$(CARGO)'
check-vendor:
	$(Q)[ -d .git ] || [ -f .git ] || { echo '    skipped: make dist-vendor, this is no clone'; exit 0; }; \
		$(again) -s dist-vendor && \
		mkdir -p $(BUILD)/vendor/empty && \
		CARGO_HOME='$(abspath $(BUILD))/vendor/empty' CARGO_NET_OFFLINE=true c-tests/subproject.sh \
			"$(CC)" '$(abspath $(BUILD))/vendor/programs' '$(abspath $(VENDOR))'
	$(Q)rm -rf $(BUILD)/vendor

# cargo-c installs the same.
.PHONY: check-cargo-c
check-cargo-c: all
	$(call say,CHECK,cargo-c)
	$(Q)c-tests/cargo-c.sh "$(MAKE)" "$(CARGO)"
