#!/bin/bash
# The binding for Java: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# Everything compiled, and $run, a java that finds it.
environment() {
	library
	need 'no Java of version 17 or later: apt-get install default-jdk-headless' javac --release 17 --version
	home=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
	[ -e "$home/include/jni.h" ] || skip 'no jni.h: apt-get install default-jdk-headless'
	need 'no C compiler: apt-get install gcc' "${CC:-cc}" --version
	# Netty's package of the binding is compiled where netty-common is.
	netty=${NETTY_COMMON:-/usr/share/java/netty-common.jar}
	if [ ! -e "$netty" ]; then
		debian libnetty-java 2>/dev/null || :
		netty=$(find "$SCRATCH/debian" -name 'netty-common.jar' 2>/dev/null | head -n 1)
	fi
	sources=$(find src test -name '*.java' ! -ipath '*netty*')
	[ -z "$netty" ] || sources=$(find src test -name '*.java')
	rm -rf "$SCRATCH/classes" "$SCRATCH/native"
	mkdir -p "$SCRATCH/native"

	# Prints the path of a jar of Maven Central: group, artifact, version.
	maven() {
		jar=$SCRATCH/maven/$(echo "$1" | tr . /)/$2/$3/$2-$3.jar
		[ -e "$jar" ] || mvn -q -B -Dmaven.repo.local="$SCRATCH/maven" \
			org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get \
			-Dartifact="$1:$2:$3" -Dtransitive=false >"$SCRATCH/maven.log" 2>&1 ||
			{ cat "$SCRATCH/maven.log" >&2; return 1; }
		echo "$jar"
	}

	# Compiles a file of C into a library for Java: output, file, flags. A function that is
	# missing is an error when it is loaded; later it would end the process.
	native() {
		out=$1 file=$2
		shift 2
		"${CC:-cc}" -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-z,relro,-z,now \
			-I"$home/include" -I"$home/include/linux" -o "$out" "$file" "$@"
	}
	native "$SCRATCH/native/libhwheel-java.so" jni/hwheel_jni.c $(pkg-config --cflags --libs hwheel)
	javac --release 17 -Xlint:all -Werror -cp "$netty" -d "$SCRATCH/classes" $sources
	run="java -cp $SCRATCH/classes:$netty -Djava.library.path=$SCRATCH/native"
}

do_test() {
	environment
	# Each program of README.md, in a file named after its class.
	rm -rf "$SCRATCH/readme"
	mkdir -p "$SCRATCH/readme"
	awk -v to="$SCRATCH/readme/" '
	/^```/ { if (on) { print text > (to name ".java"); on = 0 }
		 else if ($0 == "```java") { on = 1; text = "" }
		 next }
	on { text = text $0 "\n"; if ($1 == "class") name = $2 }' README.md
	[ "$($run "$SCRATCH/readme/Hello.java")" = 'hello 42' ]
	[ "$($run "$SCRATCH/readme/Connections.java")" = 'all timed out: 499500' ]
	[ "$($run "$SCRATCH/readme/Futures.java")" = 'too late' ]
	[ "$($run "$SCRATCH/readme/Rate.java" | tr '\n' ' ')" = 'once true ' ]
	$run HostileTest
	$run -Xmx32m -XX:+UseG1GC HostileTest garbage
	# A library that is missing, or that lacks functions, is named.
	native "$SCRATCH/native/lacking.so" jni/hwheel_jni.c $(pkg-config --cflags hwheel)
	for named in '-Djava.library.path=/nowhere hwheel-java' '-Dhwheel.library=/nowhere/x.so /nowhere/x.so' \
		"-Dhwheel.library=$SCRATCH/native/lacking.so lacking.so"; do
		! java -cp "$SCRATCH/classes" ${named% *} HostileTest >"$SCRATCH/missing" 2>&1
		grep -q "hwheel cannot load.*${named#* }" "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
	done
	(ulimit -n 256 && $run TimersTest)
	$run -Xmx24m -XX:+UseSerialGC TimersTest heap
	$run -XX:MaxDirectMemorySize=16k TimersTest direct
	$run -Djava.util.concurrent.ForkJoinPool.common.parallelism=0 TimersTest pool
	# The oldest and a recent Netty: the class works with both. Since Netty 4.2 a task has
	# cancelled.
	[ -z "$netty" ] || $run NettyTest
	if [ -n "$netty" ] && recent=$(maven io.netty netty-common 4.2.7.Final); then
		java -cp "$SCRATCH/classes:$recent" -Djava.library.path="$SCRATCH/native" NettyTest
	else
		echo 'no Maven or no network: the timer is not tested with a recent Netty'
	fi
	[ -n "$netty" ] || echo 'no netty-common: apt-get install libnetty-java; its timer is not tested'
	# Virtual threads want a newer Java than the package: the newest one here.
	for java in java /usr/lib/jvm/*/bin/java; do
		if number=$($java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') &&
			[ "${number:-0}" -gt "${newest:-0}" ]; then
			newest=$number newer=$java
		fi
	done
	$run WheelTest
	$newer ${run#java} TimersTest virtual | tee "$SCRATCH/virtual"
	case $(cat "$SCRATCH/virtual") in
	*'1 test passed') echo "passed, also with the virtual threads of Java $newest" ;;
	*) echo "passed; virtual threads are not tested: no Java of version 21 or later" ;;
	esac
}

# The jar with the library inside and its pom, and a program that has nothing else on its
# path.
do_package() {
	environment
	alone
	arch=$(machine) || skip "$arch"
	case $arch in x64) arch=x86-64 ;; arm64) arch=aarch64 ;; esac
	need 'no jar: apt-get install default-jdk-headless' jar --version
	mkdir -p "$SCRATCH/tree/native/linux-$arch" "$SCRATCH/tree/classes"
	cp -r src test jni pom.xml "$SCRATCH/tree"
	cd "$SCRATCH/tree"
	# The library stays loaded once used, and its names are nobody else's.
	(cd "$OLDPWD" && native "$SCRATCH/tree/native/linux-$arch/libhwheel-java.so" jni/hwheel_jni.c \
		-I"$HWHEEL_PREFIX/include" "$HWHEEL_PREFIX/lib/libhwheel.a" $HWHEEL_PRIVATE \
		-Wl,--exclude-libs,ALL -Wl,--gc-sections -Wl,-z,nodelete -s)
	version=$(sed -n 's|^  <version>\(.*\)</version>|\1|p' pom.xml)
	[ "$version" = "$HWHEEL_VERSION" ] || { echo "the pom has version $version"; exit 1; }
	pom=META-INF/maven/io.github.hwheel/hwheel
	mkdir -p "native/$pom"
	cp pom.xml "native/$pom"
	# The class for Netty is in the jar, Netty is not.
	javac --release 17 -cp "$netty" -d classes $(find src -name '*.java')
	jar -c -f "$SCRATCH/dist/hwheel-$version.jar" -C classes . -C native .
	jar -c -f "$SCRATCH/dist/hwheel-$version-sources.jar" -C src .
	cp pom.xml "$SCRATCH/dist/hwheel-$version.pom"
	if command -v mvn >/dev/null; then
		# Offline, with what Debian has: the model alone.
		maven=$(mvn -o -q -Dmaven.repo.local=/usr/share/maven-repo validate 2>&1) ||
			maven="mvn does not take the pom: $maven"
		case $maven in *'Non-parseable'* | *"'dependencies"*) echo "$maven"; exit 1 ;; esac
		[ -z "$maven" ] || printf '%s\n' "$maven" | head -n 3
	else
		echo 'the pom is not checked, as there is no Maven: apt-get install maven'
	fi

	cd "$SCRATCH/clean"
	cat >Smallest.java <<'END'
import hwheel.Events;
import hwheel.Wheel;
import java.time.Duration;

class Smallest {
    public static void main(String[] args) {
        try (Wheel wheel = new Wheel()) {
            Events events = new Events(1);
            wheel.once(Duration.ofMillis(10), 42);
            while (wheel.poll(events) == 0) {
                wheel.await(-1);
            }
            System.out.println("hello " + events.cookie(0) + " from " + Wheel.version());
        }
    }
}
END
	path="$SCRATCH/dist/hwheel-$version.jar"
	[ "$(java -cp "$path" Smallest.java)" = "hello 42 from $HWHEEL_VERSION" ]
	javac -cp "$path" -d . "$SCRATCH"/tree/test/HostileTest.java \
		"$SCRATCH"/tree/test/WheelTest.java "$SCRATCH"/tree/test/TimersTest.java
	java -cp "$path:." HostileTest >/dev/null
	java -cp "$path:." TimersTest >/dev/null
	packaged "hwheel-$version.jar" "$path"
}

# Netty's HashedWheelTimerTest on WheelTimer, from NETTY, a checkout of netty; and the
# JSR-166 tests of ScheduledThreadPoolExecutor on WheelExecutor and of the timeouts of
# CompletableFuture on Timers, from JDK, a checkout of the JDK or of jsr166. No test is
# listed as not applicable. JUNIT names the console of JUnit, which Maven fetches otherwise.
do_suite() {
	NETTY=${NETTY:-} JDK=${JDK:-}
	[ -n "$NETTY$JDK" ] || skip 'NETTY and JDK name no checkouts'
	environment
	suites=../suites
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
		compile netty /nowhere src/hwheel/netty/WheelTimer.java "$suites/HashedWheelTimer.java" \
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
		compile tck "$tck" "$SCRATCH"/tck.src/*.java "$suites/Jdk.java"
		run tck 'JSR-166 ScheduledExecutorTest' "$(revision "$JDK")" \
			--select-class ScheduledExecutorTest
		timeouts=$(sed -n 's/.* void \(test\(OrTimeout\|CompleteOnTimeout\|DelayedExecutor\)[A-Za-z_]*\)().*/--select-method CompletableFutureTest#\1/p' \
			"$tck/CompletableFutureTest.java")
		run tck 'JSR-166 CompletableFutureTest, timeouts' "$(revision "$JDK")" $timeouts
	fi
}

do_bench() {
	environment
	native "$SCRATCH/native/libhwheel-bench.so" test/bench.c $(pkg-config --cflags --libs hwheel)
	$run Bench
	$run OwnBench
}

"do_$1"
