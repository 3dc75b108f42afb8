#!/bin/sh
# Runs `binding.sh bench` of each language given, in the environment of run.sh, and prints
# two tables.
#
#   bench.sh <scratch directory> <document> <language>...
#
# It prints lines of a way and its rate a second: "batch" and "callback" for
# events, and where the language has timers of its own, "own", "form", "one" and "many" for
# pairs of arming and cancelling. The tables show the best of BENCH_RUNS runs, as what else
# the machine does can only slow them down. A run longer than BENCH_TIMEOUT seconds fails.
# The tables replace what stands in the document between the lines "<!-- bench -->" and
# "<!-- end of bench -->", if no language has failed.
set -u
scratch=$1 document=$2
shift 2
here=$(dirname "$0")
runs=${BENCH_RUNS:-3} limit=${BENCH_TIMEOUT:-300}
mkdir -p "$scratch" || exit
export PKG_CONFIG_PATH="$HWHEEL_PREFIX/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$HWHEEL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail=0
events=$scratch/events.md pairs=$scratch/pairs.md
cat >"$events" <<'END'
| language | batch, million/s | callback, million/s | times |
| --- | ---: | ---: | ---: |
END
cat >"$pairs" <<'END'
| language | its own, ns | the same form, ns | a call each, ns | many in a call, ns |
| --- | ---: | ---: | ---: | ---: |
END
for language in "$@"; do
	SCRATCH=$scratch/$language
	export SCRATCH
	mkdir -p "$SCRATCH"
	log=$scratch/$language.bench
	: >"$log"
	code=0 n=0
	while [ $n -lt "$runs" ] && [ $code -eq 0 ]; do
		(cd "$here/$language" && timeout "$limit" ./binding.sh bench) >>"$log" 2>&1
		code=$?
		n=$((n + 1))
	done
	case $code in
	0) awk -v language="$language" -v pairs="$pairs" '
		$2 + 0 > rate[$1] { rate[$1] = $2 }
		function ns(way) { return rate[way] ? sprintf("%.0f", 1e9 / rate[way]) : "" }
		END {
			if (!rate["batch"] || !rate["callback"]) exit 1
			printf "| %s | %.2f | %.2f | %.1f |\n", language, rate["batch"] / 1e6,
				rate["callback"] / 1e6, rate["batch"] / rate["callback"]
			if (rate["own"])
				printf "| %s | %s | %s | %s | %s |\n", language, ns("own"),
					ns("form"), ns("one"), ns("many") >> pairs
		}' "$log" >>"$events" || { cat "$log"; fail=1; } ;;
	77) echo "| $language | skipped: $(tail -n 1 "$log") | | |" >>"$events" ;;
	*) cat "$log"; fail=1 ;;
	esac
done
{
	echo 'Events that a driver receives:'
	echo
	cat "$events"
	echo
	echo 'To cancel a timer and to arm another, with 10,000 others pending, processor time:'
	echo
	cat "$pairs"
} | tee "$scratch/tables.md"
[ $fail -eq 0 ] || exit 1
grep -q '^<!-- bench -->$' "$document" || exit 0
awk -v tables="$scratch/tables.md" '
	/^<!-- end of bench -->$/ { on = 0 }
	!on
	/^<!-- bench -->$/ {
		on = 1
		print ""
		while ((getline line < tables) > 0) print line
		print ""
	}' "$document" >"$scratch/document" && cat "$scratch/document" >"$document"
