#!/bin/bash
# Installs a prebuilt archive where there is no Rust, builds programs against it,
# shared and static, runs them and the tool, and removes everything again.
#
#   prebuilt.sh <archive> <compiler> [<emulator>]
set -eu
archive=$1 cc=$2 emulator=${3:-}
here=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Everything that is installed here, but no Rust.
mkdir "$dir/bin" "$dir/home"
for program in /bin/* /usr/bin/*; do
	case ${program##*/} in cargo* | rust*) ;; *) ln -sf "$program" "$dir/bin/" ;; esac
done
export PATH="$dir/bin" HOME="$dir/home"
! command -v cargo rustc || { echo 'Rust is still there'; exit 1; }

tar -xzf "$archive" -C "$dir"
unpacked=$dir/$(basename "$archive" .tar.gz)
(cd "$dir/home" && "$unpacked/install.sh" DESTDIR="$dir/root" PREFIX=/opt/hwheel >/dev/null)
root=$dir/root/opt/hwheel
script=$(basename "$unpacked"/share/gdb/auto-load/*.py)
cmp "$unpacked/share/gdb/auto-load/$script" "$root/share/gdb/auto-load/opt/hwheel/lib/$script"
diff -r --exclude=gdb --exclude=install.sh "$unpacked" "$root"
! "$unpacked/install.sh" --prefix=/usr >/dev/null 2>&1 ||
	{ echo 'install.sh takes any argument'; exit 1; }
! grep -rl "$here" "$root" || { echo "names $here"; exit 1; }
for page in "$here"/man/*.[17] $(sed -n 's/^\t\(hwheel_.*\);/\1.3/p' "$here/hwheel.map"); do
	[ -e "$root/share/man/man${page##*.}/${page##*/}" ] || { echo "$page is not there"; exit 1; }
done

if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$root/lib/pkgconfig"
	shared=$(pkg-config --cflags --libs hwheel)
	static=$(pkg-config --static --cflags --libs hwheel)
else
	echo '    pkg-config is not installed (apt-get install pkg-config): the flags are spelled out instead'
	shared="-I$root/include -L$root/lib -lhwheel"
	static="$shared $(sed -n 's/^Libs.private: //p' "$root/lib/pkgconfig/hwheel.pc")"
fi
version=$(sed -n 's/^Version: //p' "$root/lib/pkgconfig/hwheel.pc")
# shellcheck disable=SC2086
{
	for name in c-tests/consumer/consumer examples/hello; do
		$cc -o "$dir/${name##*/}-shared" "$here/$name.c" $shared "-Wl,-rpath,$root/lib"
		$cc -static -o "$dir/${name##*/}-static" "$here/$name.c" $static
	done
}
if [ -n "$emulator" ] && ! command -v "${emulator%% *}" >/dev/null; then
	echo "    skipped: nothing of ${archive##*/} runs, there is no ${emulator%% *} (apt-get install qemu-user)"
	exit 0
fi
for kind in shared static; do
	[ "$($emulator "$dir/consumer-$kind")" = "$version" ] ||
		{ echo "consumer-$kind does not say $version"; exit 1; }
	[ "$($emulator "$dir/hello-$kind")" = 'request 1 timed out' ] ||
		{ echo "hello-$kind does not fire its timer"; exit 1; }
done
[ "$($emulator "$root/bin/hwheel-latency" --version)" = "hwheel-latency $version" ]

"$unpacked/install.sh" uninstall DESTDIR="$dir/root" PREFIX=/opt/hwheel
left=$(find "$dir/root" ! -type d)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
