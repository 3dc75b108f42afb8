# Manual pages. Those of section 3 are made from the header, by python3. The tarball has them,
# so that nobody needs Python to install it.
MANDIR ?= $(PREFIX)/share/man
MAN := $(BUILD)/man

$(MAN)/.done: man/generate.py man/examples.c man/hwheel.7 include/hwheel.h
	$(call say,MAN,$(MAN))
	$(Q)mkdir -p $(MAN) && man/generate.py include/hwheel.h man/hwheel.7 $(MAN) && touch $@

HAS_PYTHON := $(shell command -v python3)
install:: $(if $(wildcard man/*.3),,$(if $(HAS_PYTHON),$(MAN)/.done))
	$(Q)for page in man/*.[137] $(MAN)/*.3; do section=man$${page##*.}; \
		[ -e $$page ] || continue; \
		$(INSTALL) -d '$(DESTDIR)$(MANDIR)'/$$section && \
		$(INSTALL) -m 644 $$page '$(DESTDIR)$(MANDIR)'/$$section/ || exit 1; done
	$(if $(wildcard man/*.3)$(HAS_PYTHON),,$(Q)echo '  SKIPPED: the manual pages of functions need python3' >&2)
$(STAGE)/.done: $(wildcard man/*)

uninstall::
	$(Q)for page in $$(sed -n 's/^\t\(hwheel_.*\);/\1.3/p' hwheel.map) hwheel.7 hwheel-latency.1; do \
		rm -f '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page; done
