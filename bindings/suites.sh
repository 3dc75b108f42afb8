#!/bin/sh
# Runs the original tests of each language's own timers on ours, and prints a table.
#
#   suites.sh <scratch directory> <language>...
#
# The language's part is `binding.sh suite`, with adapters in bindings/suites. It runs in the
# environment of run.sh, and finds each checkout in a variable: NODE, WPT, CPYTHON, NETTY, JDK,
# GO, XTIME, TOKIO, ASYNC_IO. The checkouts are the user's; nothing of them is in this
# repository. For each suite whose checkout is named it prints one line to its standard output:
#
#   suite | revision | tests | passed | not applicable | passed on the original
#
# The last is how many of the tests pass here on the language's own timers. Without it, all
# do. What fails on both, such as a test of IPv6 where there is none, is no fault of ours.
#
# Every other line is shown with V=1 or after a failure. It exits with 0, or with 77 if it
# was skipped, the last line saying why.
#
# Each test that passes on the original passes on ours, or the language's part lists it with
# the reason why it does not apply. At most one test in ten of a suite is listed, or two. A
# suite that breaks one of these rules fails, whatever its part says.
set -u
scratch=$1
shift
limit=${SUITE_TIMEOUT:-3600}
here=$(cd "$(dirname "$0")" && pwd)
export PKG_CONFIG_PATH="$HWHEEL_PREFIX/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$HWHEEL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail=0 ran=0
mkdir -p "$scratch" || exit
rows=$scratch/rows
: >"$rows"
for language in "$@"; do
	SCRATCH=$scratch/$language
	export SCRATCH
	mkdir -p "$SCRATCH"
	log=$scratch/$language.log
	(cd "$here/$language" && timeout "$limit" ./binding.sh suite) >"$log" 2>&1
	code=$?
	if [ -n "${V:-}" ] || { [ $code -ne 0 ] && [ $code -ne 77 ]; }; then
		sed 's/^/# /' "$log"
	fi
	case $code in
	0) ;;
	77) echo "# $language: skipped: $(tail -n 1 "$log")"; continue ;;
	*) echo "# $language: failed: exit $code"; fail=1 ;;
	esac
	ran=$((ran + 1))
	grep -E '^[^|]+ \| [^|]+ \| [0-9]+ \| [0-9]+ \| [0-9]+( \| [0-9]+)?$' "$log" >"$scratch/new" || {
		echo "# $language: failed: it printed no suite"
		fail=1
	}
	awk -F ' [|] ' '
		$3 == 0 { bad = "it has no tests" }
		NF < 6 { $6 = $3 }
		$6 * 10 < $3 * 9 { bad = "of the original more than one test in ten fails here" }
		$4 + $5 < $6 || $4 + $5 > $3 { bad = $6 - $4 - $5 " tests neither passed nor are listed" }
		$5 > 2 && $5 * 10 > $3 { bad = "more than two tests, and more than one in ten, are listed" }
		bad { print "# " $1 ": failed: " bad; bad = ""; status = 1 }
		END { exit status }' "$scratch/new" || fail=1
	cat "$scratch/new" >>"$rows"
done
if [ -s "$rows" ]; then
	echo '| suite | revision | tests | passed | not applicable | passed on the original |'
	echo '| --- | --- | ---: | ---: | ---: | ---: |'
	awk -F ' [|] ' '{ print "| " $0 (NF < 6 ? " | " $3 : "") " |" }' "$rows"
fi
if [ $ran -eq 0 ]; then
	echo 'no suite ran: name a checkout, as in make test-suites NODE=/path/of/node'
	exit 1
fi
exit $fail
