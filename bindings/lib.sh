# Sourced by each language's env.sh.

# Skips, with the reason.
skip() {
	echo "$1"
	exit 77
}

# Skips, with the first argument as the reason, unless the rest works.
need() {
	reason=$1
	shift
	"$@" >/dev/null 2>&1 || skip "$reason"
}

need 'pkg-config does not find hwheel: set PKG_CONFIG_PATH' pkg-config --exists hwheel

# Unpacks Debian packages into $SCRATCH/debian; nothing is installed.
debian() {
	[ ! -e "$SCRATCH/debian/.done" ] || return 0
	mkdir -p "$SCRATCH/debian"
	(
		cd "$SCRATCH/debian"
		apt-get -qq download "$@" && for deb in *.deb; do dpkg -x "$deb" . || exit; done
	) || return
	touch "$SCRATCH/debian/.done"
}
