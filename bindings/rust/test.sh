#!/bin/sh
# The programs of the documentation and of README.md, and tests/api.rs.
set -eu
. ./env.sh
cargo test -q --doc
cargo test -q --test api
echo "the documentation, README.md and tests/api.rs"
