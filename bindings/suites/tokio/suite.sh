#!/bin/sh
# tokio's own tests of sleep, timeout and interval, and tokio-util's of DelayQueue, on a
# wheel: adapter.rs stands for tokio. TOKIO is a checkout of tokio.
set -eu
here=$PWD
[ -n "${TOKIO:-}" ] || { echo 'TOKIO names no checkout'; exit 77; }
"${CARGO:=cargo}" --version >/dev/null 2>&1 ||
	{ echo 'no Rust of version 1.85 or later: rustup install stable'; exit 77; }
revision=$(sed -n '/^version/{s/.*"\(.*\)"/tokio \1/p;q}' "$TOKIO/tokio/Cargo.toml")

# Tests that do not apply, with the reason.
not_applicable='
time_sleep::long_sleeps                              2^36 ticks ahead, up to 1e-8 of it late
time_sleep::creating_sleep_outside_of_context        a wheel is an argument, not a context
time_delay_queue::compact_remove_remapped_keys       its capacity is that of a hash table
time_delay_queue::reset_later_after_slot_starts      wants a wake-up that ours does not need
time_delay_queue::reset_earlier_after_slot_starts    wants a wake-up that ours does not need
'

mkdir -p "$SCRATCH/adapter" "$SCRATCH/tests"
cp "$here/adapter.rs" "$SCRATCH/adapter/lib.rs"
cat >"$SCRATCH/adapter/Cargo.toml" <<END
[package]
name = "tokio-on-hwheel"
version = "0.0.0"
edition = "2021"
rust-version = "1.85"
[lib]
path = "lib.rs"
[dependencies]
futures-core = "0.3"
hwheel = { path = "$here/../../.." }
real = { package = "tokio", version = "1", features = ["full"] }
END
cat >"$SCRATCH/Cargo.toml" <<END
[package]
name = "suite"
version = "0.0.0"
edition = "2021"
rust-version = "1.85"
[lib]
path = "lib.rs"
[features]
default = ["full"]
full = []
[dev-dependencies]
futures = "0.3"
tokio = { package = "tokio-on-hwheel", path = "adapter" }
tokio-test = "0.4"
[workspace]
resolver = "3"
END
: >"$SCRATCH/lib.rs"
cat >"$SCRATCH/tests/suite.rs" <<END
// The adapter has both.
extern crate tokio as tokio_util;
#[path = "$TOKIO/tokio/tests/time_sleep.rs"]
mod time_sleep;
#[path = "$TOKIO/tokio/tests/time_timeout.rs"]
mod time_timeout;
#[path = "$TOKIO/tokio/tests/time_interval.rs"]
mod time_interval;
#[path = "$TOKIO/tokio-util/tests/time_delay_queue.rs"]
mod time_delay_queue;
END
cd "$SCRATCH"
export CARGO_TARGET_DIR="$SCRATCH/target"
"$CARGO" test -q --no-run
skips=$(echo "$not_applicable" | awk 'NF {print "--skip " $1}')
echo "$not_applicable"
code=0
for suite in time_sleep time_timeout time_interval time_delay_queue; do
	# shellcheck disable=SC2086
	timeout 300 "$CARGO" test -q -- $skips $suite:: >"$suite.log" 2>&1 || code=1
	cat "$suite.log"
	listed=$(echo "$not_applicable" | grep -c "^$suite::" || :)
	sed -n 's/^test result: [A-Za-z]*\. \([0-9]*\) passed; \([0-9]*\) failed.*/\1 \2/p' "$suite.log" |
		awk -v suite=$suite -v revision="$revision" -v listed="$listed" '
			$1 + $2 { print suite " | " revision " | " $1 + $2 + listed " | " $1 " | " listed }'
done
exit $code
