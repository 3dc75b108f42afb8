#!/bin/sh
# The package, installed from the tree: its types, its tests. And whether cffi
# reads the declarations that are installed, for those who want its ABI mode.
set -eu
. ./env.sh
cd "$SCRATCH/tree"
cdef="$HWHEEL_PREFIX/share/hwheel/hwheel.cdef"
"$python" -c 'import cffi, sys; cffi.FFI().cdef(open(sys.argv[1]).read())' "$cdef"
"$python" -m mypy --no-error-summary
"$python" -m pytest -q
