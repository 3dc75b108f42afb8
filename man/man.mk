# Manual pages.
MANDIR ?= $(PREFIX)/share/man
MAN_PAGES = $(wildcard man/*.[137])

.PHONY: install-man uninstall-man
install: install-man
install-man:
	$(Q)for page in $(MAN_PAGES); do section=man$${page##*.}; \
		$(INSTALL) -d $(DESTDIR)$(MANDIR)/$$section && \
		$(INSTALL) -m 644 $$page $(DESTDIR)$(MANDIR)/$$section/ || exit 1; done

uninstall: uninstall-man
uninstall-man:
	$(Q)for page in $(notdir $(MAN_PAGES)); do \
		rm -f $(DESTDIR)$(MANDIR)/man$${page##*.}/$$page; done
