#!/bin/sh
set -eu
. ./env.sh
node bench.js
node bench_own.js
