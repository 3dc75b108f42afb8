#!/bin/sh
set -eu
. ./env.sh
"$python" bench.py
