# Sourced by test.sh and bench.sh: everything compiled, and $run, a java that
# finds it.
. ../lib.sh
need 'no Java of version 17 or later: apt-get install default-jdk-headless' javac --release 17 --version
root=
if [ ! -e /usr/share/java/jna.jar ]; then
	need 'no JNA: apt-get install libjna-java' debian libjna-java libjna-jni
	root=$SCRATCH/debian
fi
jna=$root/usr/share/java/jna.jar
# Debian's name for JNA's own library.
jni=$(find "$root/usr/lib" -name libjnidispatch.system.so 2>/dev/null | head -n 1)
[ -n "$jni" ] || skip "no library of JNA's: apt-get install libjna-jni"
rm -rf "$SCRATCH/classes"
javac --release 17 -Xlint:all -Werror -cp "$jna" -d "$SCRATCH/classes" src/hwheel/*.java test/*.java
run="java -cp $SCRATCH/classes:$jna -Djna.library.path=$HWHEEL_PREFIX/lib
	-Djna.boot.library.path=$(dirname "$jni") -Djna.boot.library.name=jnidispatch.system"
