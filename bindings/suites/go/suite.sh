#!/bin/sh
# The tests of Go's packages time (sleep_test.go, tick_test.go) and context on package
# timers, from GO, the source tree of Go: that of the go command here is the one that fits.
set -eu
[ -n "$GO" ] || { echo 'no checkout: GO='; exit 77; }
here=$PWD
cd ../../go
. ./env.sh
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
for suite in time context none; do mkdir -p "$SCRATCH/suites/$suite/test"; done
cp "$here/time.go" "$SCRATCH/suites/time"
cp "$here/context.go" "$SCRATCH/suites/context"
cat >"$SCRATCH/suites/go.mod" <<END
module suites

go $(go env GOVERSION | sed 's/^go\([0-9]*\.[0-9]*\).*/\1/')

require github.com/hwheel/hwheel/bindings/go v0.0.0

replace github.com/hwheel/hwheel/bindings/go => $PWD
END
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
