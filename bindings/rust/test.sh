#!/bin/sh
# The programs of the documentation and of README.md, tests/api.rs and tests/futures.rs.
set -eu
. ./env.sh
cargo test -q --doc
cargo test -q --test api --test futures
echo "the documentation, README.md, tests/api.rs and tests/futures.rs"
