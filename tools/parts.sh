#!/bin/bash
# Runs targets of make, some at the same time. Prints a line for each target that has
# ended: its time, that of processors, and the number of tests in it. Prints all of the output of a target that
# has failed. At the end it prints what was skipped, and the sum.
#
#   parts.sh <make> <directory for the output> <number at the same time> <target>...
set -u
flags=${MAKEFLAGS:-}
case ${flags%% *} in *n*) exit ;; esac # make -n
make=$1 logs=$2 most=$3
shift 3
rm -rf "$logs"
mkdir -p "$logs"
declare -A target_of=() begin_of=()
passed=0 failed=0 skipped=0 processor=0

# A target that counts no tests is one check, unless it says SKIPPED of the whole of it.
ended() { # ended <process> <status>
	local target=${target_of[$1]} status=$2 log ok bad skip say busy
	log=$logs/$target
	busy=$(awk '{ s += $1 + $2 } END { printf "%.0f", s }' "$logs/.time.$target")
	processor=$((processor + busy))
	read -r ok bad < <(awk '
		/^test result: / { ok += $4; bad += $6; counts = 1 }
		/^  C tests: / { ok += $3; bad += $5; counts = 1 }
		/^ *SKIPPED/ { counts = 1 }
		END { print ok + !counts, bad + 0 }' "$log")
	skip=$(grep -cE '^ *(skipped: |SKIPPED)' "$log")
	say="$ok passed"
	if [ "$status" -ne 0 ]; then
		[ "$bad" -gt 0 ] || { bad=1 ok=$((ok > 1 ? ok : 0)); }
		say="FAILED, $bad"
	elif [ "$skip" -gt 0 ]; then
		say+=", $skip skipped"
	fi
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
	printf '%s  %4d s, %4d s busy  %-16s %s\n' "$clear" $((SECONDS - begin_of[$1])) "$busy" \
		"$target" "$say"
	[ "$status" -eq 0 ] || sed 's/^/    /' "$log"
	unset "target_of[$1]" "begin_of[$1]"
}

# A terminal shows what runs.
clear='' tick=
[ ! -t 1 ] || clear=$'\r\e[K'
wait_for_one() {
	local process
	if [ -n "$clear" ]; then
		printf '%s  %4d s  runs: %s' "$clear" "$SECONDS" "${target_of[*]}"
	fi
	wait -n -p process "${!target_of[@]}"
	ended "$process" $?
}

for target; do
	[ ${#target_of[@]} -lt "$most" ] || wait_for_one
	{
		TIMEFORMAT='%U %S'
		time $make --no-print-directory "$target" >"$logs/$target" 2>&1 </dev/null
	} 2>"$logs/.time.$target" &
	target_of[$!]=$target begin_of[$!]=$SECONDS
done
while [ ${#target_of[@]} -gt 0 ]; do
	wait_for_one
done

(cd "$logs" && grep -HE '^ *(skipped: |SKIPPED)' -- *) |
	sed -E 's/^([^:]*): *(skipped:|SKIPPED) */  skipped in \1: /'
echo "  $SECONDS s, $processor s busy"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
