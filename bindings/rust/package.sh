#!/bin/bash
# The crate as its users get it: the package holds what it needs and builds, a
# dependent builds no static library and defines no C function, and cargo refuses two
# versions of the crate in one program, which would share memory.
#
#   package.sh <cargo> <directory>
set -eu
cargo=$1 dir=$2
version=$(sed -n '/^version/{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
rm -rf "$dir"
mkdir -p "$dir/program/src"

$cargo package --list --allow-dirty >"$dir/list" 2>/dev/null
! grep -E '^(src/tests|tests|verify|benches|c-tests|docs)/' "$dir/list" ||
	{ echo 'the package holds what no user needs'; exit 1; }
export CARGO_TARGET_DIR=$dir/target
$cargo package -q --allow-dirty --no-verify 2>/dev/null
tar -xzf "$dir/target/package/hwheel-$version.crate" -C "$dir"
mv "$dir/hwheel-$version" "$dir/program/hwheel"

cat > "$dir/program/Cargo.toml" <<END
[package]
name = "program"
version = "0.0.0"
edition = "2021"
[dependencies]
hwheel = { path = "hwheel" }
[workspace]
END
cat > "$dir/program/src/main.rs" <<'END'
fn main() {
    let wheel = hwheel::Wheel::new().unwrap();
    wheel.once(std::time::Duration::from_secs(1), 1).unwrap();
    println!("armed");
}
END
cp Cargo.lock "$dir/program/"
$cargo build -q --manifest-path "$dir/program/Cargo.toml" 2>"$dir/log" ||
	{ cat "$dir/log"; exit 1; }
[ "$("$dir/target/debug/program")" = armed ]
! nm "$dir/target/debug/program" | grep ' T hwheel_' ||
	{ echo 'a dependent defines C functions'; exit 1; }
[ -z "$(find "$dir/target/debug" -name '*.a')" ] ||
	{ echo 'a dependent builds a static library'; exit 1; }

# A later version, which breaks the interface.
cp -r "$dir/program/hwheel" "$dir/later"
sed -i "0,/^version = \"$version\"/s//version = \"99.0.0\"/" "$dir/later/Cargo.toml"

sed -i '/^hwheel = /a later = { package = "hwheel", path = "../later" }' "$dir/program/Cargo.toml"
! $cargo build -q --manifest-path "$dir/program/Cargo.toml" 2>"$dir/log" ||
	{ echo 'cargo takes two versions'; exit 1; }
grep -q 'links.*hwheel' "$dir/log" || { cat "$dir/log"; exit 1; }
