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

# Files that make builds.
built() {
	$MAKE -s --no-print-directory "$@"
}

# must_find <pattern> <command>...: the command fails, and prints that.
must_find() {
	local pattern=$1 log=$BUILD/found.$$
	shift
	! "$@" >"$log" 2>&1 || { echo "not found: $pattern"; exit 1; }
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
	diff -u "$1" "$3" || { echo "$1 has drifted: make regenerate WHAT=$2"; exit 1; }
}

# sanitize [thread|address]: the tools are there; which of them is meant.
sanitize() {
	sanitizer=${1:-}
	need 'apt-get install clang-19 libclang-rt-19-dev' $CLANG --version
	need 'rustup component add rust-src' test -d "$RUST_LIB/src"
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
