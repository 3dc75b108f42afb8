#!/usr/bin/env python3
"""Applies each patch of verify/faults to a copy of the sources, one after the other,
and sees that the test which the patch names catches the fault.

A patch begins with what it breaks, and says by whom that must be caught:

    Caught-by: shuttle some_test

The rung is loom or shuttle, the model checkers; std, the Rust tests; or c, a program
of c-tests, of which one test at least must fail. A patch that does not apply to the
sources of today ends it all, as does a test that fails without a fault.

Arguments name the patches that are tried, without their suffix; all by default.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
FAULTS = TOP / "verify" / "faults"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).absolute()
COPY = TARGET / "faults"
COPIED = ("Cargo.toml", "Cargo.lock", "build.rs", "src", "include", "c-tests", "bindings/rust", "tests")
# Seconds. A test that does not end has caught nothing, unless its checker says so.
PATIENCE = 600


class Fault:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        said = re.search(r"^Caught-by: (loom|shuttle|std|c) (\w+)$", path.read_text(), re.M)
        if not said:
            sys.exit(f"{path.name} does not say by whom it is caught")
        self.rung, self.test = said.groups()

    def patch(self, *arguments):
        command = ["patch", "-p1", "--fuzz=0", "--silent", "--force", *arguments]
        with self.path.open() as text:
            return subprocess.run(command, cwd=COPY, stdin=text, capture_output=True, text=True)


def copy_sources():
    """Only what differs, so that only that is built anew."""
    wanted = set()
    for name in COPIED:
        top = TOP / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file():
                wanted.add(path.relative_to(TOP))
    for path in wanted:
        to = COPY / path
        if not to.exists() or to.read_bytes() != (TOP / path).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / path, to)
    for name in COPIED:
        top = COPY / name
        for path in top.rglob("*") if top.is_dir() else []:
            if path.is_file() and path.relative_to(COPY) not in wanted:
                path.unlink()


def build(rung):
    """The program that has a rung's tests, built from the copy."""
    flags = "" if rung in ("std", "c") else f"--cfg {rung}"
    env = dict(
        os.environ,
        RUSTFLAGS=flags,
        CARGO_TARGET_DIR=str(TARGET / f"faults-{rung}"),
        # Built for a few seconds of work.
        CARGO_PROFILE_RELEASE_LTO="off",
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS="8",
        CARGO_INCREMENTAL="1",
    )
    cargo = os.environ.get("CARGO", "cargo")
    if rung == "c":
        command = [cargo, "rustc", "-q", "--release", "--lib", "--crate-type", "staticlib"]
        subprocess.run(command, cwd=COPY, env=env, check=True)
        return TARGET / "faults-c" / "release" / "libhwheel.a"
    command = [cargo, "test", "-q", "--lib", "--no-run", "--message-format=json"]
    command += ["--release"] * (rung != "std")
    out = subprocess.run(command, cwd=COPY, env=env, check=True, stdout=subprocess.PIPE, text=True)
    made = map(json.loads, out.stdout.splitlines())
    return pathlib.Path(next(m["executable"] for m in made if m.get("executable")))


def passes(rung, program, test):
    """Whether the test passes; fails if there is none of that name."""
    env = dict(os.environ, LOOM_MAX_PREEMPTIONS="3", RUST_BACKTRACE="0")
    env.setdefault("SHUTTLE_ITERATIONS", "500")
    if rung == "c":
        linked = TARGET / "faults-c" / test
        source = next((COPY / "c-tests").glob(f"{test}.c*"))
        cc = os.environ.get("CXX" if source.suffix == ".cc" else "CC")
        cc = cc or ("c++" if source.suffix == ".cc" else "cc")
        command = [cc, "-O2", "-D_GNU_SOURCE", f"-I{COPY}/include", "-o", linked, source, program]
        libraries = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc".split()
        subprocess.run([*command, *libraries], check=True)
        command = [linked]
    else:
        listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
        paths = re.findall(rf"^((?:\w+::)*{test}): test$", listed.stdout, re.M)
        if len(paths) != 1:
            sys.exit(f"{rung} has {len(paths)} tests of the name {test}")
        command = [program, "--exact", paths[0]]
    try:
        run = subprocess.run(command, cwd=TOP, env=env, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        sys.exit(f"{test} does not end")
    return run.returncode == 0


def main():
    names = sys.argv[1:]
    faults = [Fault(path) for path in sorted(FAULTS.glob("*.patch"))]
    faults = [f for f in faults if not names or f.name in names]
    if not faults or (names and len(faults) != len(set(names))):
        sys.exit("no such fault")
    copy_sources()
    stale = [f for f in faults if f.patch("--dry-run").returncode]
    for fault in stale:
        print(f"{fault.path.relative_to(TOP)} does not apply:\n{fault.patch('--dry-run').stdout}")
    if stale:
        sys.exit(1)
    wrong = 0
    for rung in sorted({f.rung for f in faults}):
        mine = [f for f in faults if f.rung == rung]
        program = build(rung)
        for test in sorted({f.test for f in mine}):
            if not passes(rung, program, test):
                print(f"  {test} fails without a fault")
                wrong += 1
        for fault in mine:
            fault.patch()
            try:
                caught = not passes(rung, build(rung), fault.test)
            finally:
                copy_sources()
            print(f"  {fault.name:36} {'caught' if caught else 'NOT CAUGHT'} by {rung} {fault.test}", flush=True)
            wrong += not caught
    print(f"{len(faults)} faults applied, {wrong} wrong")
    sys.exit(wrong != 0)


main()
