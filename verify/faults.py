#!/usr/bin/env python3
"""Applies each patch of verify/faults to a copy of the sources, one after the other,
and sees that each test which the patch names catches the fault.

A patch begins with a sentence about the fault, and names its tests, a line each:

    Caught-by: loom some_test
    Caught-by: c some_program some_test

The rung is loom or shuttle, the model checkers; std, the Rust tests; or c, a program
of c-tests and one of its tests. A patch that does not apply to the sources of today
ends the run, and so does a test that fails without a fault.

Arguments name the patches to try, without their suffix, and the rungs; the default is
all. Each rung has a copy of its own, so that rungs can run at the same time.
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
RUNGS = ("std", "c", "loom", "shuttle")
COPIED = ("Cargo.toml", "Cargo.lock", "build.rs", "src", "include", "c-tests", "bindings/rust", "tests",
          "verify/fuzz/threads")
LIBRARIES = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc".split()
# Seconds. A test that does not end has caught nothing, unless its checker says so.
PATIENCE = 600
# Seconds that the model checker explores for at most, with a fault and without. What it
# finds without one is the business of `make loom`.
LONG, SHORT = "60", "1"
# Orders that shuttle tries, with a fault and without.
ORDERS = {LONG: "5000", SHORT: "500"}


class Stuck(Exception):
    """A test did not end."""


class Fault:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        said = re.findall(r"^Caught-by: (?:(loom|shuttle|std) |(c) (?=\w+ ))(\w+(?: \w+)?)$", path.read_text(), re.M)
        # Each a rung and a test; of a C test its program, too.
        self.tests = [(checker or c, test) for checker, c, test in said]
        if len(said) != path.read_text().count("Caught-by:") or not said:
            sys.exit(f"{path.name} does not say which tests catch it")

    def patch(self, copy, *arguments):
        command = ["patch", "-p1", "--fuzz=0", "--silent", "--force", *arguments]
        with self.path.open() as text:
            return subprocess.run(command, cwd=copy, stdin=text, capture_output=True, text=True)


def copy_sources(copy):
    """Copies only what differs, so that only that is built anew."""
    wanted = set()
    for name in COPIED:
        top = TOP / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file():
                wanted.add(path.relative_to(TOP))
    for path in wanted:
        to = copy / path
        if not to.exists() or to.read_bytes() != (TOP / path).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / path, to)
    for name in COPIED:
        top = copy / name
        for path in top.rglob("*") if top.is_dir() else []:
            if path.is_file() and path.relative_to(copy) not in wanted:
                path.unlink()


def copy_of(rung):
    return TARGET / f"faults-{rung}" / "copy"


def build(rung):
    """The program that has a rung's tests, or the C library, built from the copy."""
    env = dict(
        os.environ,
        RUSTFLAGS=f"--cfg {rung}" if rung in ("loom", "shuttle") else "",
        CARGO_TARGET_DIR=str(TARGET / f"faults-{rung}"),
        # Built for a few seconds of work.
        CARGO_PROFILE_RELEASE_LTO="off",
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
        CARGO_INCREMENTAL="1",
    )
    cargo = os.environ.get("CARGO", "cargo")
    if rung == "c":
        command = [cargo, "rustc", "-q", "--release", "--lib", "--crate-type", "staticlib"]
        subprocess.run([*command, "--features", "capi"], cwd=copy_of(rung), env=env, check=True)
        return TARGET / "faults-c" / "release" / "libhwheel.a"
    command = [cargo, "test", "-q", "--lib", "--no-run", "--message-format=json"]
    command += ["--release"] * (rung != "std")
    out = subprocess.run(command, cwd=copy_of(rung), env=env, check=True, stdout=subprocess.PIPE, text=True)
    made = map(json.loads, out.stdout.splitlines())
    return pathlib.Path(next(m["executable"] for m in made if m.get("executable")))


def link(program, library):
    """A program of c-tests with the library in it."""
    copy = copy_of("c")
    source = next((copy / "c-tests").glob(f"{program}.c*"), None)
    if not source:
        sys.exit(f"there is no C test {program}")
    plain = source.suffix == ".c"
    compiler = os.environ.get("CC", "cc") if plain else os.environ.get("CXX", "c++")
    linked = TARGET / "faults-c" / program
    command = [compiler, "-O2", "-D_GNU_SOURCE", f"-I{copy}/include", "-o", linked, source, library]
    subprocess.run([*command, *LIBRARIES], check=True)
    return linked


def run(command, seconds):
    env = dict(
        os.environ,
        LOOM_MAX_PREEMPTIONS="3",
        LOOM_MAX_DURATION=seconds,
        PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
        RUST_BACKTRACE="0",
    )
    env.setdefault("SHUTTLE_ITERATIONS", ORDERS[seconds])
    try:
        return subprocess.run(
            command, cwd=TARGET, env=env, capture_output=True, timeout=PATIENCE, text=True
        )
    except subprocess.TimeoutExpired as stuck:
        raise Stuck from stuck


def passes(rung, built, test, seconds):
    """Whether the test passes; fails if there is none of that name."""
    if rung == "c":
        program, name = test.split()
        return bool(re.search(rf"^ok \d+ {name}$", run([link(program, built)], seconds).stdout, re.M))
    listed = subprocess.run([built, "--list"], check=True, capture_output=True, text=True)
    paths = re.findall(rf"^((?:\w+::)*{test}): test$", listed.stdout, re.M)
    if len(paths) != 1:
        sys.exit(f"{rung} has {len(paths)} tests of the name {test}")
    return run([built, "--exact", paths[0]], seconds).returncode == 0


def verdict(rung, built, test, seconds):
    try:
        return "passes" if passes(rung, built, test, seconds) else "fails"
    except Stuck:
        return "does not end"


def try_all(rung, mine):
    """Applies each fault; the number of those that are not caught, or cannot be."""
    copy, wrong = copy_of(rung), 0
    copy_sources(copy)
    stale = [fault for fault, _ in mine if fault.patch(copy, "--dry-run").returncode]
    for fault in stale:
        said = fault.patch(copy, "--dry-run").stdout
        print(f"{fault.path.relative_to(TOP)} does not apply:\n{said}")
    if stale:
        return len(stale)
    built = build(rung)
    for test in sorted({test for _, test in mine}):
        if (what := verdict(rung, built, test, SHORT)) != "passes":
            print(f"  {rung} {test} {what} without a fault", flush=True)
            wrong += 1
    for fault, test in mine:
        fault.patch(copy)
        try:
            what = verdict(rung, build(rung), test, LONG)
        except subprocess.CalledProcessError:
            what = "does not compile"
        finally:
            copy_sources(copy)
        said = "caught" if what == "fails" else f"NOT CAUGHT, {what}:"
        print(f"  {fault.name:40} {said} by {rung} {test}", flush=True)
        wrong += what != "fails"
    return wrong


def main():
    faults = [Fault(path) for path in sorted(FAULTS.glob("*.patch"))]
    names = set(sys.argv[1:]).difference(RUNGS)
    rungs = [r for r in RUNGS if r in sys.argv] or RUNGS
    if unknown := names.difference(f.name for f in faults):
        sys.exit(f"no such fault: {', '.join(unknown)}")
    tried, wrong = 0, 0
    for rung in rungs:
        its = [f for f in faults if not names or f.name in names]
        mine = [(f, test) for f in its for r, test in f.tests if r == rung]
        if mine:
            tried += len(mine)
            wrong += try_all(rung, mine)
    print(f"figures: {tried} times a fault was applied, {wrong} times something was wrong")
    sys.exit(wrong != 0)


main()
