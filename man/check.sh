#!/bin/sh
# Renders every manual page and takes any warning for a failure. With groff and
# mandoc, with one of them, or aloud with none.
set -eu
rendered=
failed=0
warn() { [ -z "$1" ] || { echo "$1"; failed=1; }; }
if command -v groff >/dev/null; then
	rendered=yes
	for page in "$@"; do
		warn "$(groff -t -man -ww -Tutf8 -rLL=80n -z "$page" 2>&1)"
	done
fi
if command -v mandoc >/dev/null; then
	rendered=yes
	warn "$(mandoc -Tlint -W warning "$@" 2>&1)"
fi
[ "$rendered" ] ||
	echo '    skipped: rendering the pages, neither groff nor mandoc is installed'
exit $failed
