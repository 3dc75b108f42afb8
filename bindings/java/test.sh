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
[ -z "$netty" ] || $run NettyTest
[ -n "$netty" ] || echo 'no netty-common: apt-get install libnetty-java; its timer is not tested'
$run WheelTest
