# Sourced by each language's binding.sh.

# Skips, with the reason.
skip() {
	echo "$1"
	exit 77
}

# Skips, with the first argument as the reason, unless the rest works.
need() {
	reason=$1
	shift
	"$@" >/dev/null 2>&1 || skip "$reason"
}

# The installed library is there.
library() {
	need 'pkg-config does not find hwheel: set PKG_CONFIG_PATH' pkg-config --exists hwheel
}

# Unpacks Debian packages into $SCRATCH/debian; nothing is installed.
debian() {
	[ ! -e "$SCRATCH/debian/.done" ] || return 0
	mkdir -p "$SCRATCH/debian"
	(
		cd "$SCRATCH/debian"
		apt-get -qq download "$@" && for deb in *.deb; do dpkg -x "$deb" . || exit; done
	) || return
	touch "$SCRATCH/debian/.done"
}

# The versions of the language that this is tested with, the oldest first, one a line. A
# binding.sh that has them tests the one that VERSION names.
do_versions() { :; }

# Prints the path of a file of Maven Central: group, artifact, version, classifier or nothing.
maven() {
	file=$SCRATCH/maven/$(echo "$1" | tr . /)/$2/$3/$2-$3${4:+-$4}.jar
	[ -e "$file" ] || mvn -q -B -Dmaven.repo.local="$SCRATCH/maven" \
		org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get \
		-Dartifact="$1:$2:$3:jar${4:+:$4}" -Dtransitive=false >"$SCRATCH/maven.log" 2>&1 ||
		{ cat "$SCRATCH/maven.log" >&2; return 1; }
	echo "$file"
}

# For a package: nothing of the library that is installed is found from now on.
alone() {
	unset PKG_CONFIG_PATH LD_LIBRARY_PATH
	rm -rf "$SCRATCH/tree" "$SCRATCH/dist" "$SCRATCH/clean"
	mkdir -p "$SCRATCH/dist" "$SCRATCH/clean"
}

# Says that a package has passed: its name, its file, and what else was made.
packaged() {
	echo "$1, $(du -k "$2" | cut -f 1) kB${3:-}: installed, first timer fired, hostile calls passed"
}

# A processor and a C library have packages of their own. Prebuilt is for this one.
machine() {
	case $(uname -m)-$(ldd --version 2>&1 | head -n 1) in
	x86_64-*[Mm]usl* | aarch64-*[Mm]usl*) skip 'prebuilt packages are for glibc so far' ;;
	x86_64-*) echo x64 ;;
	aarch64-*) echo arm64 ;;
	*) skip "no prebuilt package for $(uname -m)" ;;
	esac
}

# For a suite: which revision a checkout is of, by git or by its file REVISION.
revision() {
	if [ -e "$1/.git" ]; then
		git -C "$1" describe --tags --always
	elif [ -s "$1/REVISION" ]; then
		head -n 1 "$1/REVISION"
	else
		echo unknown
	fi
}
