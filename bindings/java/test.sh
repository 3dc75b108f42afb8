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
$run HostileTest
# A library that is missing is named.
! java -cp "$SCRATCH/classes:$jna" -Djna.boot.library.path="$(dirname "$jni")" \
	-Djna.boot.library.name=jnidispatch.system -Djna.library.path=/nowhere \
	-Dhwheel.library=hwheel-missing HostileTest >"$SCRATCH/missing" 2>&1
grep -q "hwheel-missing" "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
$run WheelTest
