# Sourced by test.sh, package.sh and bench.sh: everything compiled, and $run, a java that
# finds it.
. ../lib.sh
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
