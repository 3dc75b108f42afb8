#!/bin/sh
# The programs of the documentation and of README.md, and the tests of the crate, without
# and with tokio.
set -eu
. ./env.sh
# A link to nothing is a mistake.
RUSTDOCFLAGS='-D warnings' cargo doc -q --no-deps
cargo test -q --doc
cargo test -q --test api --test futures
cargo test -q --manifest-path bindings/rust/tokio/Cargo.toml --target-dir "$SCRATCH/tokio"
echo "the documentation, README.md, tests/api.rs, tests/futures.rs, futures on tokio and" \
	"smol, and hostile calls"
