#!/bin/bash
# The crate as its users get it: the package holds what it needs and builds, a
# dependent builds no static library and defines no C function, its first timer fires
# while another thread drops the wheel's last owner, and cargo refuses two versions of
# the crate in one program, which would share memory.
set -eu
cargo=${CARGO:-cargo} dir=$SCRATCH
cd ../..
"$cargo" --version >/dev/null 2>&1 ||
	{ echo 'no Rust of version 1.85 or later: rustup install stable'; exit 77; }
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
[dev-dependencies]
libc = "0.2"
[workspace]
END
cat > "$dir/program/src/main.rs" <<'END'
use hwheel::Options;
use std::sync::{mpsc, Arc};
use std::{thread, time::Duration};

fn main() {
    let (due, fired) = mpsc::channel();
    let wheel = Options::new()
        .handler(move |_, event| due.send(event.cookie).unwrap())
        .create()
        .unwrap();
    wheel.start().unwrap();
    wheel.once(Duration::from_millis(10), 42).unwrap();
    println!("hello {}", fired.recv().unwrap());

    // The last owner drops the wheel in the middle of the work, and that ends it.
    for round in 0..50 {
        let wheel = Arc::new(Options::new().handler(|_, _| ()).create().unwrap());
        wheel.start().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let wheel = wheel.clone();
                thread::spawn(move || {
                    for cookie in 0..100 * round {
                        let timer = wheel.once(Duration::ZERO, cookie).unwrap();
                        let _ = wheel.delete(timer);
                        let _ = wheel.arm(timer, Duration::ZERO);
                    }
                })
            })
            .collect();
        drop(wheel);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}
END
mkdir "$dir/program/tests"
cp bindings/rust/tokio/tests/hostile.rs "$dir/program/tests/"
cp Cargo.lock "$dir/program/"
$cargo build -q --manifest-path "$dir/program/Cargo.toml" 2>"$dir/log" ||
	{ cat "$dir/log"; exit 1; }
[ "$("$dir/target/debug/program")" = 'hello 42' ]
$cargo test -q --manifest-path "$dir/program/Cargo.toml" --test hostile >"$dir/log" 2>&1 ||
	{ cat "$dir/log"; exit 1; }
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
echo "hwheel-$version.crate, $(du -k "$dir/target/package/hwheel-$version.crate" | cut -f 1) kB:" \
	'used by a program, first timer fired, hostile calls passed'
