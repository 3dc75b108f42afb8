#!/bin/bash
# The jar with the library inside and its pom, and a program that has nothing else on its
# path.
set -euo pipefail
. ./env.sh
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
jar=hwheel-$version.jar
echo "$jar, $(du -k "$SCRATCH/dist/$jar" | cut -f 1) kB: installed, first timer fired," \
	"hostile calls passed"
