#!/bin/bash
# The binding for Rust: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# The oldest, which Debian 13 has, and the one that is found.
do_versions() {
	printf '%s\n' 1.85 stable
}

# Sets $CARGO to that of VERSION: the one that is found, or that of rustup.
of_version() {
	[ "$VERSION" != stable ] || return 0
	! "${CARGO:=cargo}" --version 2>/dev/null | grep -qF "cargo $VERSION." || return 0
	rustup run "$VERSION" cargo --version >/dev/null 2>&1 ||
		skip "no Rust $VERSION: on Debian 13 apt-get install cargo, elsewhere rustup install $VERSION"
	CARGO=$(rustup which --toolchain "$VERSION" cargo)
	PATH=$(dirname "$CARGO"):$PATH
	export PATH
}

# cargo, in the root of the tree.
environment() {
	[ -z "${VERSION:-}" ] || of_version
	need 'no Rust of version 1.85 or later: rustup install stable' "${CARGO:=cargo}" --version
	cd ../..
}

# The programs of the documentation and of README.md, and the tests of the crate, without
# and with tokio.
do_test() {
	environment
	# A link to nothing is a mistake.
	RUSTDOCFLAGS='-D warnings' "$CARGO" doc -q --no-deps
	"$CARGO" test -q --doc
	"$CARGO" test -q --test api
	RUSTDOCFLAGS='-D warnings' "$CARGO" doc -q --no-deps --manifest-path bindings/rust/async/Cargo.toml \
		--target-dir "$SCRATCH/async"
	"$CARGO" test -q --manifest-path bindings/rust/async/Cargo.toml --target-dir "$SCRATCH/async"
	"$CARGO" test -q --manifest-path bindings/rust/tokio/Cargo.toml --target-dir "$SCRATCH/tokio"
	echo "the documentation, README.md, tests/api.rs, hwheel-async, futures on tokio and" \
		"smol, and hostile calls"
}

# The crates as their users get them: a package holds what it needs and builds, a
# dependent builds no static library and defines no C function, its first timer fires
# while another thread drops the wheel's last owner, and cargo refuses two versions of
# the crate in one program, which would share memory.
do_package() {
	environment
	dir=$SCRATCH
	version=$(sed -n '/^version/{s/.*"\(.*\)"/\1/p;q}' Cargo.toml)
	rm -rf "$dir"
	mkdir -p "$dir/program/src"

	"$CARGO" package --list --allow-dirty >"$dir/list" 2>/dev/null
	! grep -E '^(src/tests|tests|verify|benches|c-tests|docs)/' "$dir/list" ||
		{ echo 'the package holds what no user needs'; exit 1; }
	export CARGO_TARGET_DIR=$dir/target
	"$CARGO" package -q --allow-dirty --no-verify 2>/dev/null
	tar -xzf "$dir/target/package/hwheel-$version.crate" -C "$dir"
	mv "$dir/hwheel-$version" "$dir/program/hwheel"
	# Of hwheel this one names the version, which is not published yet.
	"$CARGO" package -q --allow-dirty --no-verify --manifest-path bindings/rust/async/Cargo.toml \
		--config "patch.crates-io.hwheel.path=\"$dir/program/hwheel\"" 2>/dev/null
	tar -xzf "$dir/target/package/hwheel-async-$version.crate" -C "$dir"
	mv "$dir/hwheel-async-$version" "$dir/program/hwheel-async"

	cat >"$dir/program/Cargo.toml" <<END
[package]
name = "program"
version = "0.0.0"
edition = "2021"
[dependencies]
hwheel = { path = "hwheel" }
[dev-dependencies]
hwheel-async = { path = "hwheel-async" }
libc = "0.2"
[patch.crates-io]
hwheel = { path = "hwheel" }
[workspace]
END
	cat >"$dir/program/src/main.rs" <<'END'
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
	"$CARGO" build -q --manifest-path "$dir/program/Cargo.toml" 2>"$dir/log" ||
		{ cat "$dir/log"; exit 1; }
	[ "$("$dir/target/debug/program")" = 'hello 42' ]
	"$CARGO" test -q --manifest-path "$dir/program/Cargo.toml" --test hostile >"$dir/log" 2>&1 ||
		{ cat "$dir/log"; exit 1; }
	! nm "$dir/target/debug/program" | grep ' T hwheel_' ||
		{ echo 'a dependent defines C functions'; exit 1; }
	[ -z "$(find "$dir/target/debug" -name '*.a')" ] ||
		{ echo 'a dependent builds a static library'; exit 1; }

	# A later version, which breaks the interface.
	cp -r "$dir/program/hwheel" "$dir/later"
	sed -i "0,/^version = \"$version\"/s//version = \"99.0.0\"/" "$dir/later/Cargo.toml"

	sed -i '/^hwheel = /a later = { package = "hwheel", path = "../later" }' "$dir/program/Cargo.toml"
	! "$CARGO" build -q --manifest-path "$dir/program/Cargo.toml" 2>"$dir/log" ||
		{ echo 'cargo takes two versions'; exit 1; }
	grep -q 'links.*hwheel' "$dir/log" || { cat "$dir/log"; exit 1; }
	echo "hwheel-$version.crate, $(du -k "$dir/target/package/hwheel-$version.crate" | cut -f 1) kB," \
		"hwheel-async-$version.crate:" \
		'used by a program, first timer fired, hostile calls passed'
}

# A package of the suite: a directory, its name, and the rest of its Cargo.toml.
package() {
	mkdir -p "$1"
	cat >"$1/Cargo.toml" <<END
[package]
name = "$2"
version = "0.0.0"
edition = "2021"
rust-version = "1.85"
[lib]
path = "lib.rs"
$3
END
}

# The tests of the parts named, with what is not applicable: lines of "part::test  reason".
suites() {
	revision=$1 not_applicable=$2
	shift 2
	skips=$(echo "$not_applicable" | awk 'NF {print "--skip " $1}')
	echo "$not_applicable"
	for suite; do
		# shellcheck disable=SC2086
		timeout 300 "$CARGO" test -q -- $skips $suite:: >"$suite.log" 2>&1 || code=1
		cat "$suite.log"
		listed=$(echo "$not_applicable" | grep -c "^$suite::" || :)
		sed -n 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$suite.log" |
			awk -v suite=$suite -v revision="$revision" -v listed="$listed" '
			$1 + $2 { print suite " | " revision " | " $1 + $2 + listed " | " $1 " | " listed }'
	done
}

# tokio's own tests of sleep, timeout and interval, tokio-util's of DelayQueue and
# tokio-stream's of streams with times, on a wheel: adapter.rs stands for tokio. TOKIO is a
# checkout of tokio. The tests of async-io's Timer: async_io.rs stands for it, and ASYNC_IO is a
# checkout.
do_suite() {
	[ -n "${TOKIO:-}${ASYNC_IO:-}" ] || skip 'TOKIO and ASYNC_IO name no checkout'
	environment
	here=$PWD
	export CARGO_TARGET_DIR="$SCRATCH/target"
	hwheel="hwheel = { path = \"$here\" }
hwheel-async = { path = \"$here/bindings/rust/async\" }
futures-core = \"0.3\""
	code=0
	[ -z "${TOKIO:-}" ] || of_tokio
	[ -z "${ASYNC_IO:-}" ] || of_async_io
	exit $code
}

of_tokio() {
	dir=$SCRATCH/of-tokio
	package "$dir/adapter" tokio-on-hwheel "[dependencies]
$hwheel
real = { package = \"tokio\", version = \"1\", features = [\"full\"] }"
	cp "$here/bindings/suites/adapter.rs" "$dir/adapter/lib.rs"
	# Its other features have no times.
	package "$dir/stream" tokio-stream '[features]
default = ["time"]
time = []
[dependencies]
futures-core = "0.3"
pin-project-lite = "0.2"
tokio = { package = "tokio-on-hwheel", path = "../adapter" }
[lints.rust]
unexpected_cfgs = "allow"'
	cp -r "$TOKIO/tokio-stream/src/." "$dir/stream"
	package "$dir" suite '[features]
default = ["full", "time", "sync", "io-util"]
full = []
time = []
sync = []
io-util = []
[dev-dependencies]
futures = "0.3"
tokio = { package = "tokio-on-hwheel", path = "adapter" }
tokio-stream = { path = "stream" }
tokio-test = "0.4"
[workspace]
resolver = "3"'
	: >"$dir/lib.rs"
	mkdir -p "$dir/tests"
	{
		echo '// The adapter has both.'
		echo 'extern crate tokio as tokio_util;'
		for suite in tokio/tests/time_{sleep,timeout,interval} tokio-util/tests/time_delay_queue \
			tokio-stream/tests/{chunks_timeout,stream_chunks_timeout,stream_timeout,time_throttle}; do
			[ -e "$TOKIO/$suite.rs" ] || continue
			echo "#[path = \"$TOKIO/$suite.rs\"]"
			echo "mod ${suite##*/};"
		done
	} >"$dir/tests/suite.rs"
	cd "$dir"
	"$CARGO" test -q --no-run
	suites "$(sed -n '/^version/{s/.*"\(.*\)"/tokio \1/p;q}' "$TOKIO/tokio/Cargo.toml")" '
time_sleep::long_sleeps                              2^36 ticks ahead, up to 1e-8 of it late
time_sleep::creating_sleep_outside_of_context        a wheel is an argument, not a context
time_delay_queue::compact_remove_remapped_keys       its capacity is that of a hash table
time_delay_queue::reset_later_after_slot_starts      wants a wake-up that ours does not need
time_delay_queue::reset_earlier_after_slot_starts    wants a wake-up that ours does not need
' time_sleep time_timeout time_interval time_delay_queue
	suites "$(sed -n '/^version/{s/.*"\(.*\)"/tokio-stream \1/p;q}' "$TOKIO/tokio-stream/Cargo.toml")" '' \
		chunks_timeout stream_chunks_timeout stream_timeout time_throttle
}

of_async_io() {
	dir=$SCRATCH/of-async-io
	package "$dir/adapter" async-io-on-hwheel "[dependencies]
$hwheel"
	cp "$here/bindings/suites/async_io.rs" "$dir/adapter/lib.rs"
	package "$dir" suite '[dev-dependencies]
async-channel = "2"
async-io = { package = "async-io-on-hwheel", path = "adapter" }
futures-lite = "2"
[workspace]
resolver = "3"'
	: >"$dir/lib.rs"
	mkdir -p "$dir/tests"
	printf '#[path = "%s"]\nmod timer;\n' "$ASYNC_IO/tests/timer.rs" >"$dir/tests/suite.rs"
	cd "$dir"
	"$CARGO" test -q --no-run
	suites "$(sed -n '/^version/{s/.*"\(.*\)"/async-io \1/p;q}' "$ASYNC_IO/Cargo.toml")" '' timer
}

do_bench() {
	environment
	"$CARGO" bench -q --bench rust
	"$CARGO" run -q --release --manifest-path bindings/rust/tokio/Cargo.toml --target-dir "$SCRATCH/tokio"
}

"do_$1"
