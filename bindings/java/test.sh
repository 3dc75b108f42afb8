#!/bin/sh
set -eu
. ./env.sh
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
