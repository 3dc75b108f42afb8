#: Maintain. These write files that are part of the source.
#:   make header        include/hwheel.h from src/capi
#:   make man           the manual pages from the header
#:   make abi-baseline  abi/hwheel.abi, after a permitted change of the interface
#:   make gdb-layout    the table in tools/gdb/hwheel.py
#:   make html          not part of the source: a reference in build/html, with Doxygen
#
# Manual pages. Those of section 3 are made from the header by `make man` and
# are part of the source, so that nobody needs Python to install them.
MANDIR ?= $(PREFIX)/share/man
MAN_PAGES = $(wildcard man/*.[137])

.PHONY: man check-man
man:
	$(call say,MAN,man/*.3)
	$(Q)man/generate.py include/hwheel.h man/hwheel.7 man

# A reference for a browser, which Doxygen makes from the header:
# build/html/index.html. Its own manual pages would lack the lists of return values.
.PHONY: html
html: | $(BUILD)
	$(call say,HTML,$(BUILD)/html/index.html)
	$(Q)command -v doxygen >/dev/null || \
		{ echo 'doxygen is not installed (apt-get install doxygen)'; exit 1; }
	$(Q)rm -rf $(BUILD)/html
	$(Q){ cat man/Doxyfile && echo 'OUTPUT_DIRECTORY = $(BUILD)'; } | doxygen -
	$(Q)for name in $$(sed -n 's/^\t\(hwheel_.*\);/\1/p' hwheel.map); do \
		grep -q "title\">.*$$name()" $(BUILD)/html/group__*.html || \
			{ echo "$$name() is not in the reference"; exit 1; }; done

# The pages are what the header says, nothing is left out, all render, and the
# examples compile.
CHECK_PARTS += check-man
check-man:
	$(call say,CHECK,man)
	$(Q)for example in man/examples/*.c; do \
		$(CC) -std=c11 -D_GNU_SOURCE $(WARN) -Werror -Iinclude -include hwheel.h \
			-include errno.h -include poll.h -include semaphore.h \
			-include stdio.h -include stdlib.h -include string.h \
			'-Dtimed_out(object)=(void)(object)' -fsyntax-only $$example || exit 1; done
	$(Q)man/check.sh $(MAN_PAGES)
	$(Q)command -v python3 >/dev/null || \
		{ echo '    skipped: the drift of the pages, python3 is not installed'; exit 0; }; \
	rm -rf $(BUILD)/man && mkdir -p $(BUILD)/man && \
	man/generate.py include/hwheel.h man/hwheel.7 $(BUILD)/man && \
	man/check.py include/hwheel.h hwheel.map $(BUILD)/man

install::
	$(Q)for page in $(MAN_PAGES); do section=man$${page##*.}; \
		$(INSTALL) -d '$(DESTDIR)$(MANDIR)'/$$section && \
		$(INSTALL) -m 644 $$page '$(DESTDIR)$(MANDIR)'/$$section/ || exit 1; done

uninstall::
	$(Q)for page in $(notdir $(MAN_PAGES)); do \
		rm -f '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page; done
