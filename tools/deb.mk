# Packages for Debian, made of the tarball, which lintian must accept, and used from
# where they are unpacked. Rust is Debian's if it is installed, and that of the path
# otherwise.
.PHONY: deb
DEB := $(BUILD)/deb
deb:
	$(Q)for tool in git dpkg-buildpackage dh lintian pkg-config; do \
		command -v $$tool >/dev/null || { echo "make deb needs $$tool:" \
			'apt-get install git build-essential debhelper lintian pkg-config'; exit 1; }; done
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
	$(Q)lintian --allow-root --fail-on error,warning $(DEB)/*.changes
	$(Q)for deb in $(DEB)/*_*_*.deb; do case $$deb in *-dbgsym_*) ;; \
		*) dpkg -x $$deb $(DEB)/root || exit 1;; esac; done
	$(Q)cd $(DEB)/$(NAME) && root='$(abspath $(DEB))/root' && lib=$$(dirname "$$root"/usr/lib/*/libhwheel.so)/ && \
		PATH="$$root/usr/bin:$$PATH" LD_LIBRARY_PATH="$$lib" PKG_CONFIG_SYSROOT_DIR="$$root" \
		PKG_CONFIG_LIBDIR="$${lib}pkgconfig" AUTOPKGTEST_TMP=.. debian/tests/link
	$(Q)cd $(DEB) && ls -l *.deb | awk '{ print "    " $$9 ", " $$5 " bytes" }'
