#!/bin/bash
# Runs the given programs, KTAP_JOBS= at the same time, each with a
# time limit, and sums up their KTAP. Full output only of what fails; V=1 shows all.
# KTAP_RUN= names what runs them: an emulator, a checker.
set -u
limit=${KTAP_TIMEOUT:-300} jobs=${KTAP_JOBS:-4}
pass=0 fail=0 skip=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { # run <program> <file for its output>
	# shellcheck disable=SC2086
	timeout "$limit" ${KTAP_RUN:-} "$1" >"$2" 2>&1 </dev/null
	echo $? >"$2.code"
}

sum() { # sum <program> <file with its output>
	local out code plan ok skipped bad
	out=$(<"$2") code=$(<"$2.code")
	plan=$(printf '%s\n' "$out" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p')
	ok=$(printf '%s\n' "$out" | grep -c '^ok ')
	skipped=$(printf '%s\n' "$out" | grep -c '^ok .*# SKIP')
	bad=$(printf '%s\n' "$out" | grep -c '^not ok ')
	[ -n "${V:-}" ] && printf '%s\n' "$out"
	printf '%s\n' "$out" | sed -n 's/^ok [0-9]* \(.*\) # SKIP \(.*\)/    skipped: \1: \2/p'
	printf '%s\n' "$out" | sed -n "s/^# \(seed [0-9]*\)$/    ${1##*/}: \1/p"
	pass=$((pass + ok - skipped)) skip=$((skip + skipped)) fail=$((fail + bad))
	if { [ "$code" -ne 0 ] && [ "$code" -ne 4 ]; } || [ "$((ok + bad))" != "${plan:-x}" ]; then
		[ "$bad" -gt 0 ] || fail=$((fail + 1))
		printf '  FAIL    %s (exit %s)\n%s\n' "$1" "$code" "$out"
	fi
}

programs=("$@")
for i in "${!programs[@]}"; do
	[ "$(jobs -pr | wc -l)" -lt "$jobs" ] || wait -n
	run "${programs[i]}" "$work/$i" &
done
wait
for i in "${!programs[@]}"; do
	sum "${programs[i]}" "$work/$i"
done
printf '  C tests: %s passed, %s failed, %s skipped\n' "$pass" "$fail" "$skip"
[ "$pass" -gt 0 ] && [ "$fail" -eq 0 ]
