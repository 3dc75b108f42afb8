#!/bin/bash
# Netty's HashedWheelTimerTest on WheelTimer, from NETTY, a checkout of netty; and the
# JSR-166 tests of ScheduledThreadPoolExecutor on WheelExecutor and of the timeouts of
# CompletableFuture on Timers, from JDK, a checkout of the JDK or of jsr166. No test is
# listed as not applicable. JUNIT names the console of JUnit, which Maven fetches otherwise.
set -euo pipefail
[ -n "$NETTY$JDK" ] || { echo 'no checkout: NETTY=, JDK='; exit 77; }
here=$PWD
cd ../../java
. ./env.sh
[ -n "${JUNIT:-}" ] || need 'no JUnit and no Maven to fetch it: apt-get install maven' mvn --version
junit=${JUNIT:-$(maven org.junit.platform junit-platform-console-standalone 1.10.2)}

# Compiles a suite and the binding into $SCRATCH/<suite>: suite, where other sources are,
# sources.
compile() {
	to=$SCRATCH/$1 others=$2
	shift 2
	javac -nowarn -Xlint:none -cp "$junit" -sourcepath "$others" -d "$to" "$@" \
		$(find src -path '*netty*' -prune -o -name '*.java' -print)
}

# Runs tests and prints the line of a suite: suite, name, revision, selectors of JUnit.
run() {
	to=$SCRATCH/$1 name=$2 of=$3
	shift 3
	java -Djava.library.path="$SCRATCH/native" -jar "$junit" execute --disable-banner \
		--details=tree --disable-ansi-colors -cp "$to" "$@" >"$to.log" 2>&1 || :
	cat "$to.log"
	awk -v line="$name | $of" '
		$3 == "tests" { n[$4] = $2 }
		END { print line " | " n["found"] + 0 " | " n["successful"] + 0 " | 0" }' "$to.log"
}

if [ -n "$NETTY" ]; then
	rm -rf "$SCRATCH/netty" "$SCRATCH/netty.src"
	mkdir -p "$SCRATCH/netty" "$SCRATCH/netty.src"
	# One of the tests lacks its annotation, so that JUnit does not run it for Netty.
	sed 's/^\( *\)public void cancelWillCallCallback/\1@Test\n&/' \
		"$NETTY/common/src/test/java/io/netty/util/HashedWheelTimerTest.java" \
		>"$SCRATCH/netty.src/HashedWheelTimerTest.java"
	main=$NETTY/common/src/main/java/io/netty/util
	compile netty /nowhere src/hwheel/netty/WheelTimer.java "$here/HashedWheelTimer.java" \
		"$main/Timer.java" "$main/Timeout.java" "$main/TimerTask.java" \
		"$SCRATCH/netty.src/HashedWheelTimerTest.java"
	run netty 'Netty HashedWheelTimerTest' "$(revision "$NETTY")" \
		--select-class io.netty.util.HashedWheelTimerTest
fi

if [ -n "$JDK" ]; then
	tck=$JDK/test/jdk/java/util/concurrent/tck
	[ -d "$tck" ] || tck=$JDK/src/test/tck
	rm -rf "$SCRATCH/tck" "$SCRATCH/tck.src"
	mkdir -p "$SCRATCH/tck" "$SCRATCH/tck.src"
	# Without their imports the names are those of the adapters.
	sed '/^import java.util.concurrent.ScheduledThreadPoolExecutor;$/d' \
		"$tck/ScheduledExecutorTest.java" >"$SCRATCH/tck.src/ScheduledExecutorTest.java"
	sed -e 's/\<\([fg]\)\.\(orTimeout\|completeOnTimeout\)(/Timeouts.\2(\1, /' \
		-e 's/\<CompletableFuture\.delayedExecutor(/Timeouts.delayedExecutor(/' \
		"$tck/CompletableFutureTest.java" >"$SCRATCH/tck.src/CompletableFutureTest.java"
	compile tck "$tck" "$SCRATCH"/tck.src/*.java "$here/ScheduledThreadPoolExecutor.java" \
		"$here/Timeouts.java"
	run tck 'JSR-166 ScheduledExecutorTest' "$(revision "$JDK")" \
		--select-class ScheduledExecutorTest
	timeouts=$(sed -n 's/.* void \(test\(OrTimeout\|CompleteOnTimeout\|DelayedExecutor\)[A-Za-z_]*\)().*/--select-method CompletableFutureTest#\1/p' \
		"$tck/CompletableFutureTest.java")
	run tck 'JSR-166 CompletableFutureTest, timeouts' "$(revision "$JDK")" $timeouts
fi
