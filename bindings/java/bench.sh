#!/bin/sh
set -eu
. ./env.sh
native "$SCRATCH/native/libhwheel-bench.so" test/bench.c $(pkg-config --cflags --libs hwheel)
$run Bench
$run OwnBench
