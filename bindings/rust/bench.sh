#!/bin/sh
set -eu
. ./env.sh
cargo bench -q --bench rust
