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
# The go.mod of README.md for the tree.
rm -rf "$SCRATCH/readme"
mkdir -p "$SCRATCH/readme"
awk '/^```/ { on = $0 == "```go.mod"; next } on' README.md | sed "s|TREE/bindings/go|$PWD|" \
	>"$SCRATCH/readme/go.mod"
cat >"$SCRATCH/readme/main.go" <<END
package main

import hwheel "$(sed -n 's/^module //p' go.mod)"

func main() { println(hwheel.Version()) }
END
(cd "$SCRATCH/readme" && go run .)
# The strict check belonged to the runtime before Go 1.21, and to the compiler since.
if GOEXPERIMENT=cgocheck2 go version >/dev/null 2>&1; then
	GOEXPERIMENT=cgocheck2 go test -count=1 ./...
else
	GODEBUG=cgocheck=2 go test -count=1 ./...
fi
if go test -count=1 -race . ./timers >"$SCRATCH/race" 2>&1; then
	echo 'passed, also under the race detector'
elif grep -q 'race is not supported\|-race requires' "$SCRATCH/race"; then
	echo 'passed; this Go has no race detector'
else
	cat "$SCRATCH/race"
	exit 1
fi
