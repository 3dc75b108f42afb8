#!/bin/bash
# The address of the project can be set by one variable, and nothing names another.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
named='bindings Cargo.toml conanfile.py debian/watch hwheel.cdx.json verify/fuzz/oss-fuzz'
# shellcheck disable=SC2086
cp -r --parents $named "$dir/"
cd "$dir"
now=$(sed -n 's|^module \(.*\)/bindings/go$|\1|p' bindings/go/go.mod)
for to in example.org/Some_one/a.wheel gitlab.com/someone/wheel; do
	"$OLDPWD/tools/address.sh" "$to"
	# shellcheck disable=SC2086
	! grep -rn -e 'github\.com/hwheel' -e 'io\.github' $named || exit 1
	grep -q "^module $to/bindings/go$" bindings/go/go.mod
	grep -q "https://$to" bindings/luajit/*.rockspec
	# The sources of Java are where their package says, and C defines its functions.
	find bindings/java/src -name '*.java' | while read -r file; do
		package=$(sed -n 's/^package \(.*\);$/\1/p' "$file")
		[ "$(dirname "$file")" = "bindings/java/src/${package//./\/}" ]
	done
	package=$(sed -n 's/^package \(.*\);$/\1/p' "$(find bindings/java/src -name Library.java)")
	jni=${package//_/_1}
	grep -q "Java_${jni//./_}_Library_version(" bindings/java/jni/hwheel_jni.c
done
grep -q '<groupId>io.gitlab.someone<' bindings/java/pom.xml
"$OLDPWD/tools/address.sh" "$now"
same() {
	for name in $named; do
		diff -r "$name" "$OLDPWD/$name"
	done
}
same
for wrong in '' hwheel example.org/someone 'example.org/a b/c' 'https://example.org/a/b'; do
	! "$OLDPWD/tools/address.sh" "$wrong" 2>/dev/null || { echo "takes '$wrong'"; exit 1; }
done
same
