#!/bin/sh
# Runs every program in the given directories, each with a time limit, and sums
# up their KTAP. Full output only of what fails; V=1 shows all. KTAP_RUN= names
# what runs them: an emulator, a checker.
set -u
limit=${KTAP_TIMEOUT:-120}
pass=0 fail=0 skip=0
for dir in "$@"; do
	for program in "$dir"/*; do
		[ -x "$program" ] || continue
		out=$(timeout "$limit" ${KTAP_RUN:-} "$program" 2>&1)
		code=$?
		plan=$(printf '%s\n' "$out" | sed -n 's/^1\.\.\([0-9]*\)$/\1/p')
		ok=$(printf '%s\n' "$out" | grep -c '^ok ')
		skipped=$(printf '%s\n' "$out" | grep -c '^ok .*# SKIP')
		bad=$(printf '%s\n' "$out" | grep -c '^not ok ')
		[ -n "${V:-}" ] && printf '%s\n' "$out"
		printf '%s\n' "$out" | sed -n 's/^ok [0-9]* \(.*\) # SKIP \(.*\)/    skipped: \1: \2/p'
		pass=$((pass + ok - skipped)) skip=$((skip + skipped)) fail=$((fail + bad))
		if { [ $code -ne 0 ] && [ $code -ne 4 ]; } || [ "$((ok + bad))" != "${plan:-x}" ]; then
			[ "$bad" -gt 0 ] || fail=$((fail + 1))
			printf '  FAIL    %s (exit %s)\n%s\n' "$program" "$code" "$out"
		fi
	done
done
printf '  C tests: %s passed, %s failed, %s skipped\n' "$pass" "$fail" "$skip"
[ "$pass" -gt 0 ] && [ "$fail" -eq 0 ]
