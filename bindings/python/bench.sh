#!/bin/sh
set -eu
. ./env.sh
"$python" bench.py
"$python" bench_own.py
