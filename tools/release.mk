# For those who decide whether to use the library: licences, a list of its parts, releases.
#
#: Release.
#:   make release       VERSION=0.1.0, in a clean clone: all of a release, in build/release
#:   make release-tools installs what that needs, on Debian and as root
#:   make sbom          hwheel.cdx.json, the list of crates, which is part of the source
#:   make check-conan   a package of Conan, used by a program
#:   make test-upgrade  programs of this release with a later one

# Licences, sources and duplicates of all crates; a copyright and a licence for every file.
CRATES := Cargo.toml jobs/Cargo.toml bindings/rust/async/Cargo.toml bindings/rust/tokio/Cargo.toml benches/peers/rust/Cargo.toml
.PHONY: check-deny check-reuse check-github check-sbom
LONG_PARTS += check-deny check-reuse check-github check-sbom
check-deny:
	$(call say,CHECK,crates)
	$(Q)$(call need,cargo deny --version,cargo-deny: cargo install --locked cargo-deny@0.18.3) \
	for manifest in $(CRATES); do \
		$(CARGO) deny --log-level error --manifest-path $$manifest --all-features --locked \
			check licenses sources bans || exit 1; done

check-reuse:
	$(call say,CHECK,licence of every file)
	$(Q)$(call need,reuse --version,reuse: pip install reuse) reuse lint | tail -n 1; \
	reuse lint -q

# The workflows, the forms for issues, and the settings of dependabot.
check-github:
	$(call say,CHECK,.github)
	$(Q)$(call need,actionlint --version,actionlint: go install \
		github.com/rhysd/actionlint/cmd/actionlint@v1.7.7) \
	$(call need,check-jsonschema --version,check-jsonschema: pip install check-jsonschema) \
	actionlint && \
	check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml && \
	check-jsonschema -q --builtin-schema vendor.github-issue-config \
		.github/ISSUE_TEMPLATE/config.yml && \
	check-jsonschema -q --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

# The crates in the library, as CycloneDX: part of the source, so that the tarball and the
# packages have it, and nobody needs the tool.
SBOM := hwheel.cdx.json
.PHONY: sbom
need-cyclonedx = $(call need,cargo cyclonedx --version,cargo-cyclonedx: cargo install \
	--locked cargo-cyclonedx@0.5.9)
# The crates of one processor, which are those of the other. Without time and directory.
write-sbom = SOURCE_DATE_EPOCH=0 $(CARGO) cyclonedx -q -f json --spec-version 1.5 \
	--no-default-features --features capi --no-build-deps --target x86_64-unknown-linux-gnu --override-filename $(1) && \
	sed -i 's|path+file://[^"\#]*\#\(hwheel@\)\?|hwheel@|g' $(1).json
sbom:
	$(call say,SBOM,$(SBOM))
	$(Q)$(need-cyclonedx) $(call write-sbom,hwheel.cdx)
check-sbom:
	$(call say,CHECK,$(SBOM))
	$(Q)$(need-cyclonedx) cp $(SBOM) $(BUILD)/sbom.before && $(call write-sbom,hwheel.cdx) && \
	{ cmp -s $(SBOM) $(BUILD)/sbom.before || { mv $(BUILD)/sbom.before $(SBOM); \
		echo '$(SBOM) has drifted: run make sbom'; exit 1; }; }

# AUDITABLE=1 writes the list into the shared library too, where scanners find it. cargo
# auditable writes it into a library of cargo's own, and from there it is copied.
ifdef AUDITABLE
$(SHARED): $(BUILD)/crates
$(BUILD)/crates: Cargo.lock Cargo.toml | $(BUILD)
	$(Q)env -u CARGO_BUILD_TARGET $(CARGO) auditable rustc -q --lib --crate-type cdylib $(FEATURES) \
		--target-dir $(TARGET)/auditable --message-format=json-render-diagnostics $(ALONE) \
		> $(BUILD)/auditable.json
	$(Q)objcopy --dump-section .dep-v0=$@ "$$(sed -n \
		's/.*"filenames":\["\([^"]*libhwheel\.so\)".*/\1/p' $(BUILD)/auditable.json)" /dev/null
endif

# The library in a package of Conan, used by a program.
.PHONY: check-conan
LONG_PARTS += check-conan
check-conan:
	$(call say,CHECK,conan)
	$(Q)$(call need,conan --version,conan: pip install conan) \
	$(call need,cmake --version,apt-get install cmake) \
	export CONAN_HOME='$(abspath $(BUILD))/conan' && rm -rf $(BUILD)/conan && \
	conan profile detect >/dev/null 2>&1 && for shared in True False; do \
		conan create . -o "&:shared=$$shared" -c \
			tools.cmake.cmake_layout:test_folder='$(abspath $(BUILD))/conan/program' \
			> $(BUILD)/conan.log 2>&1 || { cat $(BUILD)/conan.log; exit 1; }; \
		tail -n 2 $(BUILD)/conan.log | grep -x 'request 1 timed out' || exit 1; done

.PHONY: test-upgrade
LONG_PARTS += test-upgrade
test-upgrade: $(STAGE)/.done
	$(call say,TEST,upgrade)
	$(Q)c-tests/upgrade.sh '$(MAKE)' '$(CC)' '$(abspath $(STAGE))' '$(SONAME)' \
		'$(abspath $(TARGET))/upgrade' '$(abspath $(BUILD))/upgrade'

# A release, from a clean clone: so that what is in it is what was committed. With
# RELEASE_STRICT=1 a part that cannot be made here is a failure.
.PHONY: release release-tools
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

release-tools:
	$(call say,APT,compilers and tools)
	$(Q)tools/release.sh tools
