#!/bin/sh
# The package, installed from the tree: its types, its tests.
set -eu
. ./env.sh
cd "$SCRATCH/tree"
"$python" -m mypy --no-error-summary
"$python" -m pytest -q
