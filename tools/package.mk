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
	$(Q)tools/release.sh vendor '$(abspath $(VENDOR))' '$(CARGO)'

# The platforms: both processors, glibc and musl.
PLATFORMS := x86_64-linux-gnu x86_64-linux-musl aarch64-linux-gnu aarch64-linux-musl

# $(call …,platform): its processor; what builds for it, where a compiler for glibc lends
# itself to musl; what runs its programs; the variables of make that say so.
processor = $(firstword $(subst -, ,$(1)))
rust-target = $(subst -linux,-unknown-linux,$(1))
musl-specs = /usr/lib/$(1)/musl-gcc.specs
platform-cc = $(call processor,$(1))-linux-gnu-gcc$(if $(findstring \
	musl,$(1)),$(space)-specs=$(call musl-specs,$(1))$(if $(findstring \
	aarch64,$(1)),$(space)-mno-outline-atomics))
emulator = $(if $(filter-out $(call processor,$(RUST_HOST)),$(call processor,$(1))),qemu-$(call \
	processor,$(1))$(if $(findstring gnu,$(1)),$(space)-L /usr/$(1)))
platform = CARGO_BUILD_TARGET=$(call rust-target,$(1)) BUILD=$(BUILD)/$(1) \
	CC='$(call platform-cc,$(1))' CXX=$(call processor,$(1))-linux-gnu-g++

# A musl of Debian's for another processor is a package of that processor's.
debian-name = $(subst x86_64,amd64,$(subst aarch64,arm64,$(call processor,$(1))))
need-platform = \
	$(call need,$(call processor,$(1))-linux-gnu-gcc --version,apt-get install gcc-$(subst \
		_,-,$(call processor,$(1)))-linux-gnu) \
	$(if $(findstring musl,$(1)),$(call need,test -e $(call musl-specs,$(1)),dpkg \
		--add-architecture $(call debian-name,$(1)) && apt-get update && \
		apt-get install musl-dev:$(call debian-name,$(1)))) \
	$(call need,test -d $(RUST_LIB)/$(call rust-target,$(1)),the target $(call \
		rust-target,$(1)) of Rust: rustup target add $(call rust-target,$(1)))

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

# Packages for Debian, made of the tarball, which lintian must accept, and used from
# where they are unpacked. Rust is Debian's if it is installed, and that of the path
# otherwise.
.PHONY: deb
DEB := $(BUILD)/deb
DEB_LACKS = $(shell for tool in git dpkg-buildpackage dh lintian pkg-config; do \
	command -v $$tool >/dev/null || echo $$tool; done)
deb:
	$(Q)[ -z '$(DEB_LACKS)' ] || { echo 'make deb needs $(DEB_LACKS):' \
		'apt-get install git build-essential debhelper lintian pkg-config'; exit 1; }
	$(Q)$(MAKE) --no-print-directory dist
	$(call say,DEB,$(DEB))
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)
	$(Q)cp $(DIST) $(DEB)/hwheel_$(VERSION).orig.tar.gz && tar -xzf $(DIST) -C $(DEB)
	$(Q)cd $(DEB)/$(NAME)/jobs && mkdir .cargo && { $(CARGO) vendor --locked vendor \
		> .cargo/config.toml 2> ../../log || { cat ../../log; exit 1; }; }
	$(Q)cd $(DEB)/$(NAME) && env -u MAKEFLAGS -u MAKELEVEL \
		RUSTUP_HOME=$${RUSTUP_HOME:-$$HOME/.rustup} \
		dpkg-buildpackage -us -uc -b $(if $(shell command -v dpkg >/dev/null && \
		dpkg -s rustc 2>/dev/null),,-d) > ../log 2>&1 || { cat ../log; exit 1; }
	$(Q)lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning $(DEB)/*.changes
	$(Q)for deb in $(DEB)/*_*_*.deb; do case $$deb in *-dbgsym_*) ;; \
		*) dpkg -x $$deb $(DEB)/root || exit 1;; esac; done
	$(Q)cd $(DEB)/$(NAME) && root='$(abspath $(DEB))/root' && lib=$$(dirname "$$root"/usr/lib/*/libhwheel.so)/ && \
		PATH="$$root/usr/bin:$$PATH" LD_LIBRARY_PATH="$$lib" PKG_CONFIG_SYSROOT_DIR="$$root" \
		PKG_CONFIG_LIBDIR="$${lib}pkgconfig" AUTOPKGTEST_TMP=.. debian/tests/link
	$(Q)cd $(DEB) && ls -l *.deb | awk '{ print "    " $$9 ", " $$5 " bytes" }'

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
	$(Q)$(MAKE) --no-print-directory dist-bin $(if $(DEB_LACKS),,deb) AUDITABLE=$(if $(shell cargo auditable \
		--version 2>/dev/null),1)
	$(Q)BINDING_TIMEOUT=3600 $(MAKE) --no-print-directory test-packages
	$(Q)tools/release.sh collect '$(VERSION)' '$(BUILD)' '$(RELEASE)' '$(RELEASE_STRICT)'
