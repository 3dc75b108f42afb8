#!/bin/sh
# Formatting, vet, the tests and examples, and cgo's strictest pointer check.
set -eu
. ./env.sh
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "gofmt: $unformatted"; exit 1; }
go vet ./...
# A library that is missing is named.
! PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/nowhere go build -gcflags=-l . \
	2>"$SCRATCH/missing"
grep -q "'hwheel'\|No package hwheel\|hwheel was not found" "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
GODEBUG=cgocheck=2 go test -count=1 ./...
if go test -count=1 -race . ./timers >"$SCRATCH/race" 2>&1; then
	echo 'passed, also under the race detector'
elif grep -q 'race is not supported\|-race requires' "$SCRATCH/race"; then
	echo 'passed; this Go has no race detector'
else
	cat "$SCRATCH/race"
	exit 1
fi
