#!/bin/bash
# The binding for Go: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# The oldest that is promised, of Debian 12, and the newest of the two lines that Go supports.
do_versions() {
	printf '%s\n' 1.19.8 1.26.8 1.27.3
}

# From here on `go` is that of VERSION: the one that is installed, that of Debian 12, or one
# from Go's module proxy.
of_version() {
	! go version 2>/dev/null | grep -qF "go$VERSION " || return 0
	case $VERSION in
	1.19.*)
		debian golang-1.19-go golang-1.19-src || skip 'no golang-1.19-go, which Debian 12 has'
		export GOROOT=$SCRATCH/debian/usr/lib/go-1.19
		export PATH="$GOROOT/bin:$PATH"
		;;
	*)
		need "no Go of version 1.21 or later, which fetches Go $VERSION" \
			sh -c 'go version | grep -E "go(1\.(2[1-9]|[3-9][0-9])|[2-9])"'
		GOROOT=$(GOFLAGS=-modcacherw GOPATH=$SCRATCH/path \
			GOTOOLCHAIN=go$VERSION go env GOROOT) || skip "Go's module proxy has no Go $VERSION"
		export GOROOT PATH="$GOROOT/bin:$PATH"
		;;
	esac
	go version | grep -qF "go$VERSION "
}

# Go, with its caches kept out of the way.
environment() {
	library
	[ -z "${VERSION:-}" ] || of_version
	need 'no Go of version 1.19 or later: apt-get install golang-go' \
		sh -c 'go version | grep -E "go(1\.(19|[2-9][0-9])|[2-9])"'
	need 'no C compiler, which cgo wants: apt-get install gcc' "${CC:-cc}" --version
	export GOCACHE="$SCRATCH/cache" GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off
}

# Formatting, vet, the tests and examples, and cgo's strictest pointer check.
do_test() {
	environment
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
}

# The module as a proxy serves it, with the static library inside; got and used by a
# module in an empty directory.
do_package() {
	environment
	alone
	arch=$(machine) || skip "$arch"
	case $arch in x64) arch=amd64 ;; esac
	need 'no Python, which makes the zip file: apt-get install python3' python3 --version
	path=$(sed -n 's/^module //p' go.mod) version=v$HWHEEL_VERSION
	tree="$SCRATCH/tree/$path@$version"
	mkdir -p "$tree/timers"
	cp timers/*.go "$tree/timers"
	cp ./*.go go.mod README.md ../../LICENSE-* "$HWHEEL_PREFIX/include/hwheel.h" "$tree"
	strip -g -o "$tree/libhwheel_linux_$arch.a" "$HWHEEL_PREFIX/lib/libhwheel.a"
	# The library of the system stays for other machines and for who asks for it.
	sed -i "1i //go:build hwheel_installed || !(linux \&\& $arch)\n" "$tree/link_installed.go"
	cat >"$tree/link_linux_$arch.go" <<END
//go:build !hwheel_installed

package hwheel

/*
#cgo CFLAGS: -I\${SRCDIR}
#cgo LDFLAGS: \${SRCDIR}/libhwheel_linux_$arch.a -lpthread
*/
import "C"
END
	[ -z "$(gofmt -l "$tree")" ] || { echo "gofmt: $(gofmt -l "$tree")"; exit 1; }

	# The files that a module proxy serves.
	proxy=$SCRATCH/dist/$path/@v
	mkdir -p "$proxy"
	echo "$version" >"$proxy/list"
	echo "{\"Version\":\"$version\",\"Time\":\"2000-01-01T00:00:00Z\"}" >"$proxy/$version.info"
	cp go.mod "$proxy/$version.mod"
	(cd "$SCRATCH/tree" && find . -type f -printf '%P\n' | LC_ALL=C sort | python3 -c '
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as file:
    for name in sys.stdin.read().split():
        file.write(name)' "$proxy/$version.zip")

	# The go.mod of README.md, up to the line for the tree.
	awk '/^```/ { on = $0 == "```go.mod"; next } on && !/^replace/' README.md >"$SCRATCH/clean/go.mod"
	export GOPROXY=file://$SCRATCH/dist GONOSUMDB=${path%/bindings/go}
	export GOPATH=$SCRATCH/clean/path GOFLAGS='-mod=mod -modcacherw'
	mkdir "$SCRATCH/clean/smallest"
	cd "$SCRATCH/clean/smallest"
	cat >main.go <<END
package main

import (
	"context"
	"fmt"
	"time"

	hwheel "$path"
)

func main() {
	wheel, err := hwheel.New(hwheel.Options{})
	if err != nil {
		panic(err)
	}
	defer wheel.Close()
	wheel.Once(hwheel.In(10*time.Millisecond), 42)
	ctx, done := context.WithCancel(context.Background())
	wheel.Run(ctx, make([]hwheel.Event, 1), func(events []hwheel.Event) {
		fmt.Println("hello", events[0].Cookie, "from", hwheel.Version())
		done()
	})
}
END
	mv ../go.mod .
	GOFLAGS=-modcacherw go mod tidy >"$SCRATCH/get" 2>&1 || { cat "$SCRATCH/get"; exit 1; }
	grep -q "$path $version" go.mod
	[ "$(go run .)" = "hello 42 from $HWHEEL_VERSION" ]
	# A program without shared libraries, as for an empty container.
	go build -o static -ldflags '-extldflags "-static"' . 2>"$SCRATCH/static" ||
		{ cat "$SCRATCH/static"; exit 1; }
	! ldd static >/dev/null 2>&1
	[ "$(./static)" = "hello 42 from $HWHEEL_VERSION" ]
	go mod vendor
	[ "$(go run -mod=vendor .)" = "hello 42 from $HWHEEL_VERSION" ]
	go test -count=1 "$path" "$path/timers" >"$SCRATCH/tests" || { cat "$SCRATCH/tests"; exit 1; }
	packaged "$path@$version" "$proxy/$version.zip"
}

# The tests of Go's packages time (sleep_test.go, tick_test.go) and context on package
# timers, from GO, the source tree of Go: that of the go command here is the one that fits.
# And the tests of golang.org/x/time/rate, from XTIME, a checkout of golang.org/x/time.
do_suite() {
	[ -n "${GO:-}${XTIME:-}" ] || skip 'GO names no source tree of Go, and XTIME no checkout'
	environment
	[ -z "${GO:-}" ] || go_suites
	[ -z "${XTIME:-}" ] || rate_suite
}

# A module of suites in $SCRATCH/suites, with the names of packages time and context.
suites() {
	mkdir -p "$SCRATCH/suites/time" "$SCRATCH/suites/context"
	cp ../suites/time.go "$SCRATCH/suites/time"
	cp ../suites/context.go "$SCRATCH/suites/context"
	cat >"$SCRATCH/suites/go.mod" <<END
module suites

go $(go env GOVERSION | sed 's/^go\([0-9]*\.[0-9]*\).*/\1/')

require github.com/hwheel/hwheel/bindings/go v0.0.0

replace github.com/hwheel/hwheel/bindings/go => $PWD
END
}

rate_suite() {
	suites
	rm -rf "$SCRATCH/suites/rate" "$SCRATCH/suites/original"
	mkdir -p "$SCRATCH/suites/rate" "$SCRATCH/suites/original"
	for file in "$XTIME"/rate/*.go; do
		cp "$file" "$SCRATCH/suites/original"
		sed -e 's,^\t"time"$,\t"suites/time",' -e 's,^\t"context"$,\t"suites/context",' \
			-e 's,^import "time"$,import "suites/time",' \
			-e 's,"golang.org/x/time/rate","suites/rate",' "$file" \
			>"$SCRATCH/suites/rate/${file##*/}"
	done
	sed -i 's,"golang.org/x/time/rate","suites/original",' "$SCRATCH"/suites/original/*.go
	for on in rate original; do
		(cd "$SCRATCH/suites" && go test -count=1 -v -vet=off -ldflags=-checklinkname=0 \
			"./$on") >"$SCRATCH/$on.log" 2>&1 || :
		cat "$SCRATCH/$on.log"
	done
	tests=$(cat "$XTIME"/rate/*_test.go | grep -cE '^func (Test|Example)')
	echo "golang.org/x/time/rate | $(revision "$XTIME") | $tests | $(grep -cE \
		'^--- PASS: ' "$SCRATCH/rate.log") | 0 | $(grep -cE '^--- PASS: ' "$SCRATCH/original.log")"
}

go_suites() {
	of=$(head -n 1 "$GO/VERSION" 2>/dev/null) || of=$(revision "$GO")

	# What is not applicable: suite, test, reason.
	cat >"$SCRATCH/not-applicable" <<'END'
time TestTimerGC the wheel refers to a pending timer; only the runtime knows that nobody can receive from a channel
time TestOverflowPeriodRuntimeTimer it tests a structure inside of package time
context TestParentFinishesChild it looks into the types of package context
context TestChildFinishesFirst it looks into the types of package context
context TestCancelRemoves it looks into the types of package context
END

	rm -rf "$SCRATCH/suites"
	suites
	for suite in time context none; do mkdir -p "$SCRATCH/suites/$suite/test"; done
	# What the tests use of Go's own internal packages.
	cat >"$SCRATCH/suites/none/none.go" <<'END'
package none

import "testing"

const Enabled = false

func SkipFlaky(t *testing.T, _ int) { t.Skip("flaky") }
END
	for file in time/sleep_test.go time/tick_test.go context/x_test.go context/afterfunc_test.go \
		context/net_test.go; do
		suite=${file%/*}
		sed -e "s,^\t\. \"$suite\",\t. \"suites/$suite\"," \
			-e 's,^\t"context",\tcontext "suites/context",' \
			-e 's,^\t"internal/\(asan\|testenv\)",\t\1 "suites/none",' \
			-e '/^func Test\(ParentFinishesChild\|ChildFinishesFirst\|CancelRemoves\)(/,/^}/d' \
			"$GO/src/$file" >"$SCRATCH/suites/$suite/test/${file#*/}"
	done
	# One test of package context itself uses only a counter of it.
	{
		printf 'package context_test\n\nimport (\n\t. "suites/context"\n\t"testing"\n)\n\n'
		sed -n -e 's/\<goroutines\.Load/Goroutines.Load/' -e 's/(t testingT)/(t *testing.T)/' \
			-e '/^type myCtx /,$p' "$GO/src/context/context_test.go"
	} >"$SCRATCH/suites/context/test/context_test.go"

	for suite in time context; do
		skip=$(sed -n "s/^$suite \(Test[A-Za-z]*\) .*/\1/p" "$SCRATCH/not-applicable")
		listed=$(echo "$skip" | wc -l)
		case $suite in
		time) name='Go time, sleep and tick' tests="$GO/src/time/sleep_test.go $GO/src/time/tick_test.go" ;;
		context) name='Go context' tests="$GO/src/context/x_test.go $GO/src/context/afterfunc_test.go $GO/src/context/net_test.go" ;;
		esac
		# Tests reach into the runtime for a constant, and the adapter for a counter.
		(cd "$SCRATCH/suites" && go test -count=1 -v -vet=off -timeout 50m -ldflags=-checklinkname=0 \
			-skip "^($(echo $skip | tr ' ' '|'))\$" "./$suite/test") >"$SCRATCH/$suite.log" 2>&1 || :
		cat "$SCRATCH/$suite.log"
		echo "$name | $of | $(cat $tests | grep -c '^func Test') | $(grep -c '^--- PASS: Test' "$SCRATCH/$suite.log") | $listed"
	done
}

do_bench() {
	environment
	go run ./internal/bench
}

"do_$1"
