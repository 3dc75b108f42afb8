#!/bin/bash
# The binary interface: what was committed against what the source gives.
#
#   check.sh check     compare
#   check.sh prove     break copies, which must be noticed
#   check.sh baseline  commit what there is now: writes abi/hwheel.abi
#
# The library is built unoptimised, where no function is merged with another,
# and with all debug information: with less abidw sees no types, and abidiff
# finds no difference in anything. Other crates have none: they are no part of
# the interface, and abidiff does not take two units without names.
set -euo pipefail
what=$1 cc=$2 cargo=$3 soname=$4 private=$5 target=$6 work=$7
root=$(cd "$(dirname "$0")/.." && pwd)
export CARGO_PROFILE_DEV_DEBUG=2
# One unit holds the whole interface.
export CARGO_PROFILE_DEV_CODEGEN_UNITS=1

if ! command -v abidiff >/dev/null; then
	echo '  SKIPPED abidiff is not installed (apt-get install abigail-tools)'
	[ "$what" != baseline ]
	exit
fi
mkdir -p "$work"

# build <tree> <library>: the library of a source tree, as the Makefile links
# it; each with a target directory of its own, as cargo takes copies for one
build() {
	local into
	into=$target/abi/$(basename "$2" .so)
	(cd "$1" && CARGO_TARGET_DIR=$into $cargo rustc -q --lib --no-default-features --features capi \
		--crate-type staticlib --config 'profile.dev.package."*".debug = 0' -- --cfg alone) ||
		return
	# shellcheck disable=SC2086
	$cc -shared -o "$2" -Wl,--whole-archive "$into/debug/libhwheel.a" \
		-Wl,--no-whole-archive -Wl,--gc-sections \
		-Wl,--version-script="$1/hwheel.map" -Wl,-soname,"$soname" $private
}

# dump <library> <file>: its interface, without units that have no part in it
# and without where they were compiled
dump() {
	abidw --suppressions "$root/abi/suppressions.ini" --no-show-locs --no-corpus-path \
		--no-comp-dir-path --no-elf-needed "$1" |
		sed -e "s| path='[^']*'||" -e '/<abi-instr/{N;/<\/abi-instr>/d}' > "$2"
	grep -q "name='deadline_ns'" "$2" || { echo "no types in $1"; return 1; }
}

compare() {
	local differences
	differences=$(abidiff --no-added-syms --suppressions "$root/abi/suppressions.ini" \
		"$root/abi/hwheel.abi" "$1") || { echo "$differences"; return 1; }
}

build "$root" "$work/now.so"
if [ "$what" = baseline ]; then
	dump "$work/now.so" "$root/abi/hwheel.abi"
	exit
fi
dump "$work/now.so" "$work/now.abi"
compare "$work/now.abi" || { echo 'the interface has changed: see CONTRIBUTING.md'; exit 1; }
[ "$what" = prove ] || exit 0

# copy <name>: a copy of the source to change
copy() {
	rm -rf "${work:?}/$1"
	mkdir -p "$work/$1"
	cp -r "$root"/{src,Cargo.toml,Cargo.lock,build.rs,hwheel.map} "$work/$1/"
}

# refused <name> <change>: the changed copy must not compare as equal
refused() {
	build "$work/$1" "$work/$1.so"
	dump "$work/$1.so" "$work/$1.abi"
	! compare "$work/$1.abi" >/dev/null || { echo "unnoticed: $2"; exit 1; }
}

copy swapped
sed -i '/^pub struct hwheel_event/,/^}/{s/cookie:/tmp:/;s/deadline_ns:/cookie:/;s/tmp:/deadline_ns:/}' \
	"$work/swapped/src/capi/event.rs"
! build "$work/swapped" "$work/swapped.so" 2>/dev/null ||
	{ echo 'a record of the core is passed as an event with members swapped'; exit 1; }
sed -i 's/ == offset_of!(hwheel_event, .*/ < 32);/' "$work/swapped/src/capi/event.rs"
refused swapped 'two members of struct hwheel_event swapped'

copy removed
sed -i '/hwheel_every;/d' "$work/removed/hwheel.map"
refused removed 'hwheel_every() removed'

strip -g -o "$work/bare.so" "$work/now.so"
! dump "$work/bare.so" "$work/bare.abi" >/dev/null ||
	{ echo 'unnoticed: no debug information'; exit 1; }

# Permitted changes pass.
copy grown
sed -i -e '/^pub struct Stats/,/^}/s/^}/    pub more: u64,\n}/' \
	-e 's/^    Ok(Stats {$/&\n        more: 0,/' "$work/grown/src/runtime/stats.rs"
build "$work/grown" "$work/grown.so"
dump "$work/grown.so" "$work/grown.abi"
compare "$work/grown.abi" || { echo 'struct hwheel_stats may not grow'; exit 1; }
! cmp -s "$work/grown.abi" "$work/now.abi" || { echo 'nothing has grown'; exit 1; }
