#!/bin/sh
# The package, installed from the tree: its types, its tests. And whether cffi
# reads the declarations that are installed, for those who want its ABI mode.
set -eu
. ./env.sh
cd "$SCRATCH/tree"
cdef="$HWHEEL_PREFIX/share/hwheel/hwheel.cdef"
"$python" -c 'import cffi, sys; cffi.FFI().cdef(open(sys.argv[1]).read())' "$cdef"
# A library that is missing is named, when the package is built and when it is imported.
! PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/nowhere "$python" build_native.py 2>"$SCRATCH/missing"
grep -q 'hwheel: no library. Install it' "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
LD_LIBRARY_PATH= "$python" -c 'import hwheel' 2>"$SCRATCH/missing" ||
	grep -q 'libhwheel.so.0' "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
"$python" -m mypy --no-error-summary
"$python" -m pytest -q
