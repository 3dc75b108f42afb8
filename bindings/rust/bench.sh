#!/bin/sh
set -eu
. ./env.sh
cargo bench -q --bench rust
cargo run -q --release --manifest-path bindings/rust/tokio/Cargo.toml --target-dir "$SCRATCH/tokio"
