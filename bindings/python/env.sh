# Sourced by test.sh and bench.sh: the package, installed from this tree into
# an environment of its own, which $PYTHON makes. Sets $python and $pip.
. ../lib.sh
packages='apt-get install python3-venv python3-dev gcc'
PYTHON=${PYTHON:-python3}
need "no Python that makes environments: $packages" "$PYTHON" -c 'import venv, ensurepip'
need "no headers of Python: $packages" "$PYTHON" -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")'
need "no C compiler: $packages" "${CC:-cc}" --version

python=$SCRATCH/venv/bin/python
pip="$python -m pip install -q --disable-pip-version-check"
[ -x "$python" ] || "$PYTHON" -m venv "$SCRATCH/venv"
need 'pip cannot install cffi, pytest and mypy: set PIP_INDEX_URL to a mirror of PyPI' \
	$pip cffi pytest mypy setuptools
$pip uvloop || echo 'pip cannot install uvloop: its loop is not tested'
# From a copy: setuptools writes next to its sources.
rm -rf "$SCRATCH/tree"
cp -r . "$SCRATCH/tree"
$pip "$SCRATCH/tree"
