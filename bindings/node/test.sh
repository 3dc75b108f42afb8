#!/bin/sh
set -eu
. ./env.sh
node --test test/ >"$SCRATCH/tap" || { cat "$SCRATCH/tap"; exit 1; }
grep -o 'pass [0-9]*$' "$SCRATCH/tap"
