# shellcheck shell=bash
# What the checks share that are shell scripts. They run at the top of the source.
set -eu

say() { # say <WHAT> <of what>
	printf '  %-7s %s\n' "$1" "$2"
}

# need <how to install it> <command>...: ends the check if the command fails, and says why.
need() {
	local hint=$1
	shift
	"$@" >/dev/null 2>&1 || { echo "  SKIPPED: needs $hint"; exit "${STRICT:-0}"; }
}

die() { # die <why>
	echo "$*"
	exit 1
}

# $dir, which is removed at the end.
scratch() {
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
}

# quietly <log> <command>...: prints what the command has said if it fails, and ends the check.
quietly() {
	"${@:2}" >"$1" 2>&1 || { cat "$1"; exit 1; }
}

# What make builds from here on is built as by a user. The library is quick to build rather than
# quick.
as_a_user() {
	unset MAKEFLAGS MAKELEVEL MFLAGS WERROR
	export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
		CARGO_PROFILE_RELEASE_OPT_LEVEL=1
}

# Files that make builds.
built() {
	$MAKE -s --no-print-directory "$@"
}

# must_find <pattern> <command>...: the command fails, and prints that.
must_find() {
	local pattern=$1 log=$BUILD/found.$$
	shift
	! "$@" >"$log" 2>&1 || die "not found: $pattern"
	grep -q "$pattern" "$log" || { cat "$log"; exit 1; }
	rm "$log"
	echo "    found what was planted: $pattern"
}

# The C tests but for <name>..., each below <directory>.
c_tests() { # c_tests <directory> <name>...
	local test
	for test in $C_TESTS; do
		[[ " ${*:2} " == *" $test "* ]] || echo "$1/$test"
	done
}

# drifted <file> <what to regenerate> <new>: fails if they differ; WRITE=1 replaces it.
drifted() {
	[ -z "${WRITE:-}" ] || { cmp -s "$1" "$3" || cp "$3" "$1"; return 0; }
	diff -u "$1" "$3" || die "$1 has drifted: make regenerate WHAT=$2"
}

need_sanitizers() {
	need 'apt-get install clang-19 libclang-rt-19-dev' $CLANG --version
	need 'rustup component add rust-src' test -d "$RUST_LIB/src"
}
# sanitize thread|address <file>...: 10^6 operations of $stress with it. Also builds the files.
sanitize() {
	need_sanitizers
	sanitizer=$1
	stress=$BUILD/sanitize/verify-$1/stress control=$BUILD/sanitize/verify-$1/control
	built "$stress" "$control" "${@:2}"
	say "${1^^}" '10^6 operations'
	"$stress" -n 1000000
}
# The C tests and the Rust tests with the sanitizer in them. A fault ends the process, as a
# test expects, and is not explained.
sanitized_tests() {
	local programs
	mapfile -t programs < <(c_tests "$BUILD/sanitize/$sanitizer" $NOT_SANITIZED)
	built "${programs[@]}"
	ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS='handle_segv=0 die_after_fork=0' KTAP_TIMEOUT=600 \
		c-tests/run.sh "${programs[@]}"
	built "rust-tests-$sanitizer"
}
