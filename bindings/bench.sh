#!/bin/sh
# Runs bindings/<language>/bench.sh for each language given, in the environment
# of run.sh, and prints a table of events per second. A bench.sh prints lines of
# a way and its rate: "batch" and "callback" are in the table, the best of three
# runs, as what else the machine does can only slow them down.
set -u
scratch=$1
shift
here=$(dirname "$0")
export PKG_CONFIG_PATH="$HWHEEL_PREFIX/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
export LD_LIBRARY_PATH="$HWHEEL_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail=0
echo '| language | batch, million/s | callback, million/s | times |'
echo '| --- | ---: | ---: | ---: |'
for language in "$@"; do
	SCRATCH=$scratch/$language
	export SCRATCH
	mkdir -p "$SCRATCH"
	log=$scratch/$language.bench
	(cd "$here/$language" && ./bench.sh && ./bench.sh && ./bench.sh) >"$log" 2>&1
	code=$?
	case $code in
	0) awk -v language="$language" '
		$2 + 0 > rate[$1] { rate[$1] = $2 }
		END {
			if (!rate["batch"] || !rate["callback"]) exit 1
			printf "| %s | %.2f | %.2f | %.1f |\n", language, rate["batch"] / 1e6,
				rate["callback"] / 1e6, rate["batch"] / rate["callback"]
		}' "$log" || { cat "$log"; fail=1; } ;;
	77) echo "| $language | skipped: $(tail -n 1 "$log") | | |" ;;
	*) cat "$log"; fail=1 ;;
	esac
done
exit $fail
