# Manual pages. Those of section 3 are made from the header by
# `make regenerate WHAT=man` and
# are part of the source, so that nobody needs Python to install them.
MANDIR ?= $(PREFIX)/share/man
MAN_PAGES = $(wildcard man/*.[137])

install::
	$(Q)for page in $(MAN_PAGES); do section=man$${page##*.}; \
		$(INSTALL) -d '$(DESTDIR)$(MANDIR)'/$$section && \
		$(INSTALL) -m 644 $$page '$(DESTDIR)$(MANDIR)'/$$section/ || exit 1; done

uninstall::
	$(Q)for page in $(notdir $(MAN_PAGES)); do \
		rm -f '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page; done
