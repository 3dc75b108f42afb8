#!/usr/bin/env python3
"""Plants each fault of verify/faults.txt into a copy of the sources, one after the other,
and sees that each test which the fault names catches it.

verify/faults.txt says how a fault is written. Its old lines must occur exactly once in the
sources of today. A test that fails without a fault is an error, too.

Arguments name the faults to try, and the rungs; the default is all. Each rung has a copy
of its own, so that rungs can run at the same time. `--check` only sees that every fault
finds its place, and that its Rust tests and C tests exist by name.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
FAULTS = TOP / "verify" / "faults.txt"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).absolute()
RUNGS = ("std", "c", "loom", "shuttle")
COPIED = ("Cargo.toml", "Cargo.lock", "build.rs", "src", "include", "c-tests", "bindings/rust", "tests",
          "verify/fuzz/threads.corpus")
LIBRARIES = "-lpthread -lc".split()
# Seconds. A test that does not end has caught nothing, unless its checker says so.
PATIENCE = 600
# Seconds that the model checker explores for at most, and that the differential test tries
# calls, with a fault and without. What they find without one is the business of other checks.
LONG, SHORT = "60", "1"
# Orders that shuttle tries, with a fault and without.
ORDERS = {LONG: "5000", SHORT: "500"}


class Fault:
    def __init__(self, text, file):
        head = re.match(r"(\w+):\s((?:[\w ]+,\s)*[\w ]+)\n", text)
        said = re.split(r",\s", head[2]) if head else []
        # Each a rung and a test; of a C test its program, too.
        tests = [re.fullmatch(r"(loom|shuttle|std|c(?= \w+ )) (\w+(?: \w+)?)", test) for test in said]
        if not tests or None in tests:
            sys.exit(f"{FAULTS.name}: a fault does not say which tests catch it:\n{text}")
        self.name, self.tests = head[1], [test.groups() for test in tests]
        first, *parts = re.split(r"^In: (.*)\n", text[head.end():] + "\n", flags=re.M)
        # A sentence comes first.
        about = re.match(r"(?:[^-+ ].*\n)*", first)
        # Each a file, its old lines, and its new ones.
        self.edits = []
        for file, part in zip([file, *parts[::2]], [first[about.end():], *parts[1::2]]):
            edit = [(line[0], line[1:]) for line in part.splitlines()]
            if not edit or any(mark not in "-+ " for mark, _ in edit):
                sys.exit(f"{FAULTS.name}: {self.name} lacks lines, or has one that begins with none of '-+ '")
            old, new = ([line for mark, line in edit if mark != other] for other in "+-")
            self.edits.append((file, old, new))

    def misplaced(self, top):
        """What is wrong with the places of this fault in the sources at `top`."""
        for file, old, new in self.edits:
            path = top / file
            found = len(places(path, old)) if path.is_file() else 0
            if not old or old == new or found != 1:
                yield f"{self.name}: {found} places in {file}"

    def plant(self, top):
        for file, old, new in self.edits:
            path = top / file
            [at] = places(path, old)
            lines = path.read_text().splitlines()
            lines[at : at + len(old)] = new
            path.write_text("\n".join(lines) + "\n")


def places(path, old):
    """The lines at which `old`, a list of lines, occurs in a file."""
    lines = path.read_text().splitlines()
    return [at for at in range(len(lines)) if lines[at : at + len(old)] == old]


def read_faults():
    text = "\n".join(line for line in FAULTS.read_text().splitlines() if not line.startswith("#"))
    faults, file = [], ""
    for part in filter(None, re.split(r"\n{2,}", text.strip("\n"))):
        if heading := re.fullmatch("In: (.*)", part):
            file = heading[1]
        else:
            faults.append(Fault(part, file))
    names = [fault.name for fault in faults]
    if twice := {name for name in names if names.count(name) > 1}:
        sys.exit(f"{FAULTS.name} has two faults of one name: {', '.join(twice)}")
    return faults


def check(faults):
    """Whether each fault finds its place, and each of its tests has a name in the sources."""
    wrong = [said for fault in faults for said in fault.misplaced(TOP)]
    rust = "\n".join(path.read_text() for path in (TOP / "src").rglob("*.rs"))
    # A test has its name in a macro, too.
    named = set(re.findall(r"\w+", rust))
    for fault in faults:
        for rung, test in fault.tests:
            *program, name = test.split()
            files = list((TOP / "c-tests").glob(f"{program[0]}.c*")) if rung == "c" else []
            if rung == "c" and not any(re.search(rf"\b{name}\b", path.read_text()) for path in files):
                wrong.append(f"{fault.name}: there is no C test {test}")
            if rung != "c" and name not in named:
                wrong.append(f"{fault.name}: there is no test {test}")
    rungs = [{rung for rung, _ in fault.tests} for fault in faults]
    alone = collections.Counter(one for one, *others in rungs if not others)
    said = ", ".join(f"{rung} {number}" for rung, number in alone.most_common())
    print("\n".join(wrong) if wrong else f"{len(faults)} faults have their places; caught on one rung: {said}")
    return not wrong


def copy_sources(copy):
    """Copies only what differs, so that only that is built anew."""
    def files(top):
        found = (path for name in COPIED for path in [top / name, *(top / name).rglob("*")])
        return {path.relative_to(top) for path in found if path.is_file()}

    wanted = files(TOP)
    for path in wanted:
        to = copy / path
        if not to.exists() or to.read_bytes() != (TOP / path).read_bytes():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / path, to)
    for path in files(copy) - wanted:
        (copy / path).unlink()


def copy_of(rung):
    return TARGET / f"faults-{rung}" / "copy"


def build(rung, quiet=True):
    """The program that has a rung's tests, or the C library, built from the copy."""
    env = dict(
        os.environ,
        RUSTFLAGS=f"--cfg {rung}" if rung in ("loom", "shuttle") else "",
        CARGO_TARGET_DIR=str(TARGET / f"faults-{rung}"),
        # Built for a few seconds of work.
        CARGO_PROFILE_RELEASE_LTO="off",
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
        CARGO_PROFILE_RELEASE_OPT_LEVEL="1",
        CARGO_PROFILE_TEST_OPT_LEVEL="1",
        CARGO_PROFILE_RELEASE_DEBUG="0",
        CARGO_INCREMENTAL="1",
    )
    cargo = os.environ.get("CARGO", "cargo")
    if rung == "c":
        command = [cargo, "rustc", "--release", "--lib", "--crate-type", "staticlib"]
        command += ["--no-default-features", "--features", "capi", *["-q"] * quiet]
        command += ["--", "--cfg", "alone"]
        subprocess.run(command, cwd=copy_of(rung), env=env, check=True)
        return TARGET / "faults-c" / "release" / "libhwheel.a"
    command = [cargo, "test", "--lib", "--no-run", "--message-format=json", *["-q"] * quiet]
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
        HWHEEL_SECONDS=seconds,
        PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
        RUST_BACKTRACE="0",
    )
    env.setdefault("SHUTTLE_ITERATIONS", ORDERS[seconds])
    return subprocess.run(command, cwd=TARGET, env=env, capture_output=True, timeout=PATIENCE, text=True)


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
    except subprocess.TimeoutExpired:
        return "does not end"


def try_all(rung, mine):
    """Plants each fault; the number of those that are not caught, or cannot be."""
    copy, wrong = copy_of(rung), 0
    copy_sources(copy)
    built = build(rung, quiet=False)
    for test in sorted({test for _, tests in mine for test in tests}):
        if (what := verdict(rung, built, test, SHORT)) != "passes":
            print(f"  {rung} {test} {what} without a fault", flush=True)
            wrong += 1
    for fault, tests in mine:
        fault.plant(copy)
        try:
            planted = build(rung)
            said = {test: verdict(rung, planted, test, LONG) for test in tests}
        except subprocess.CalledProcessError:
            said = dict.fromkeys(tests, "does not compile")
        finally:
            copy_sources(copy)
        for test, what in said.items():
            how = "caught" if what == "fails" else f"NOT CAUGHT, {what}:"
            print(f"  {fault.name:40} {how} by {rung} {test}", flush=True)
            wrong += what != "fails"
    return wrong


def main():
    faults = read_faults()
    if not check(faults):
        sys.exit(1)
    if "--check" in sys.argv:
        return
    names = set(sys.argv[1:]).difference(RUNGS)
    rungs = [r for r in RUNGS if r in sys.argv] or RUNGS
    if unknown := names.difference(f.name for f in faults):
        sys.exit(f"no such fault: {', '.join(unknown)}")
    tried, wrong = 0, 0
    for rung in rungs:
        its = [f for f in faults if not names or f.name in names]
        mine = [(f, [test for r, test in f.tests if r == rung]) for f in its]
        mine = [(f, tests) for f, tests in mine if tests]
        if mine:
            tried += len(mine)
            wrong += try_all(rung, mine)
    print(f"figures: {tried} times a fault was planted, {wrong} times something was wrong")
    sys.exit(wrong != 0)


main()
