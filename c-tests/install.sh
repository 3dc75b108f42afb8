#!/bin/sh
# A program of ten lines outside the tree, built with pkg-config against an
# installed header and library, shared and static, then everything uninstalled.
set -eu
make=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$make --no-print-directory install DESTDIR="$dir/root" PREFIX=/opt/hwheel >/dev/null
cat > "$dir/ten.c" <<'C'
#include <hwheel.h>
#include <stdio.h>
int main(void)
{
	struct hwheel *wheel;
	if (hwheel_create(NULL, 0, &wheel) != 0 || hwheel_after(wheel, 1000, NULL, 7, 0, NULL) != 0)
		return 1;
	printf("%s\n", hwheel_version_string());
	return hwheel_destroy(wheel);
}
C
lib="$dir/root/opt/hwheel/lib"
if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_SYSROOT_DIR="$dir/root" PKG_CONFIG_PATH="$lib/pkgconfig"
	shared=$(pkg-config --cflags --libs hwheel)
	static=$(pkg-config --static --cflags --libs hwheel)
	version=$(pkg-config --modversion hwheel)
else
	echo '    pkg-config is not installed (apt-get install pkg-config): the flags are spelled out instead'
	shared="-I$dir/root/opt/hwheel/include -L$lib -lhwheel"
	static="$shared $(sed -n 's/^Libs.private: //p' "$lib/pkgconfig/hwheel.pc")"
	version=$(sed -n 's/^Version: //p' "$lib/pkgconfig/hwheel.pc")
fi
cd "$dir"
# shellcheck disable=SC2086
$cc -o shared ten.c $shared
[ "$(LD_LIBRARY_PATH="$lib" ./shared)" = "$version" ]
rm "$lib"/*.so*
# shellcheck disable=SC2086
$cc -o static ten.c $static
[ "$(./static)" = "$version" ]
cd "$OLDPWD"
$make --no-print-directory uninstall DESTDIR="$dir/root" PREFIX=/opt/hwheel >/dev/null
left=$(find "$dir/root" -type f -o -type l)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
