#!/usr/bin/env python3
"""Weakens each atomic ordering of the library by a step and sees what catches it.

usage: orderings.py all|open|check
       orderings.py all|open PATTERN

"all" weakens one after the other, runs the model checker's tests until one
fails, and writes verify/orderings.txt. "open" does so only for those that no
test has caught. PATTERN, a regular expression, leaves out the rows that it does not
match, each as a line of words with a space between. A row ends with the test that
fails; with "=name", an argument at the top of the table ("# - name. ..."), if none
does; with "~name", the same, if not all tests were tried.
"check" fails if the table and the sources do not name the same orderings,
or if an argument is missing, and tries those fences again that a test has caught.
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target")).absolute()
TABLE = pathlib.Path(__file__).with_name("orderings.txt")
FILES = [f"core/{path.relative_to(TOP / 'src/core').with_suffix('')}"
         for path in sorted((TOP / "src/core").rglob("*.rs"))]
FILES += [f"runtime/{name}" for name in "ring pool callbacks drive tick_thread times numbers create".split()]
FILES += ["sys/event"]
CALL = re.compile(
    r"(?:crate::sync::)?\b(fence|fence_after_rmw|fence_between_loads)\(|"
    r"\.\s*(load|store|swap|compare_exchange(?:_weak)?|fetch_\w+)\("
)
FENCES = ("fence_after_rmw", "fence_between_loads")
PREEMPTIONS = int(os.environ.get("HWHEEL_PREEMPTIONS", 1))
# Seconds that each test explores for at most, and that all of them may take.
SECONDS = int(os.environ.get("HWHEEL_SECONDS", 4))
PATIENCE = 3600
# Too many executions to have them for each ordering, or not about the core: keys
# have a lock. HWHEEL_SLOW is another pattern of what to leave out: to look for a test
# that catches. A row that none catches then stays as it was.
SLOW = re.compile(os.environ.get("HWHEEL_SLOW", "^triple_|^pairs_of_|_of_a_key_"))
ALL = "HWHEEL_SLOW" not in os.environ
STRONG = re.compile(r"Ordering::(?!Relaxed)\w+")
WEAKER = {
    "SeqCst": ["AcqRel"],
    "AcqRel": ["Acquire", "Release"],
    "Acquire": ["Relaxed"],
    "Release": ["Relaxed"],
    "Relaxed": [],
}
ARGUED = re.compile(r"^# - ([\w-]+)\. ", re.MULTILINE)

# One step down at one place. `key` is its row in the table.
Site = collections.namedtuple("Site", "key place to")


def arguments(text, at):
    """The arguments of the call whose parenthesis opens before `at`."""
    depth, begin, found = 1, at, []
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 or (depth == 1 and text[i] == ","):
            found.append(text[begin:i])
            begin = i + 1
        if depth == 0:
            return found
    raise ValueError("unbalanced")


def receiver(text):
    """The name of what a method is called on, at the end of the text."""
    depth = 0
    for i in reversed(range(len(text))):
        depth += (text[i] in ")]") - (text[i] in "([")
        if depth == 0 and (name := re.search(r"\w+$", text[: i + 1])):
            return name[0]
    raise ValueError("nothing is named")


def sites(name):
    """The orderings of a file of src/ and what is weaker."""
    text = (TOP / f"src/{name}.rs").read_text()
    text = re.split(r"(?m)^#\[cfg\((?:all\()?test", text)[0]
    # What is no code made blank.
    text = re.sub("//.*", lambda m: re.sub(r"\S", " ", m[0]), text)
    found, seen, strong = [], collections.Counter(), 0
    for call in CALL.finditer(text):
        functions = re.findall(r"\bfn (\w+)", text[: call.start()])
        fence = call[1] is not None
        access = call[1] if fence else f"{receiver(text[:call.start()])}.{call[2]}"
        orders = [re.fullmatch(r"\s*Ordering::(\w+)\s*", a) for a in arguments(text, call.end())]
        orders = [m[1] for m in orders if m] or ["SeqCst"] * (access in FENCES)
        if not orders:
            continue
        at = call.start() if fence else call.start(2)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        where = f"{name}.rs {functions[-1]}"
        seen[where, access] += 1
        nth = f"#{seen[where, access]}" if seen[where, access] > 1 else ""
        for n, order in enumerate(orders):
            strong += bool(WEAKER[order]) and access not in FENCES
            what = access + nth + ("(failure)" if n else "")
            for to in WEAKER[order]:
                place = f"src/{name}.rs:{line}:{column}:{n}:{to}"
                found.append(Site(f"{where} {what} {order}->{to}", place, to))
    if strong != len(STRONG.findall(text)):
        sys.exit(f"{name}.rs has orderings that this program does not understand")
    return found


class Tests:
    """The tests of the model checker, built so that the environment can weaken an
    ordering of the library: src/tests/sync/weak.rs."""

    def __init__(self):
        env = dict(
            os.environ,
            RUSTFLAGS="--cfg weakened --cfg loom",
            CARGO_TARGET_DIR=str(TARGET / "weakened"),
            # Built for a few seconds of work.
            CARGO_PROFILE_RELEASE_LTO="off",
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
        )
        build = [os.environ.get("CARGO", "cargo"), "test", "-q", "--lib", "--no-run"]
        build += ["--release", "--message-format=json"]
        out = subprocess.run(build, cwd=TOP, env=env, check=True, stdout=subprocess.PIPE, text=True)
        made = map(json.loads, out.stdout.splitlines())
        self.program = next(m["executable"] for m in made if m.get("executable"))
        listed = subprocess.run(
            [self.program, "--list"], check=True, capture_output=True, text=True
        )
        lines = [line[:-6] for line in listed.stdout.splitlines() if line.endswith(": test")]
        self.path = {path.rsplit("::", 1)[1]: path for path in lines}

    def run(self, tests, **weakened):
        """The first of some tests that fails, or None, and what they said.
        Fails if they do not end."""
        env = dict(
            os.environ,
            LOOM_MAX_PREEMPTIONS=str(PREEMPTIONS),
            LOOM_MAX_DURATION=str(SECONDS),
            RUST_BACKTRACE="0",
            # The harness has --fail-fast, but does not call it stable.
            RUSTC_BOOTSTRAP="1",
            **weakened,
        )
        command = [self.program, "--exact", *(self.path[test] for test in tests)]
        command += ["--nocapture", "--test-threads=1", "-Zunstable-options", "--fail-fast"]
        run = subprocess.run(
            command, cwd=TOP, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        begun = re.findall(r"^test (\S+) \.\.\.", run.stdout, re.MULTILINE)
        if run.returncode == 0 and len(begun) == len(tests):
            return None, run.stdout
        return begun[-1].rsplit("::", 1)[1], run.stdout


def read_table():
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    rows = [line.rsplit(None, 1) for line in lines]
    return {" ".join(key.split()): verdict for key, verdict in rows}


def write_table(rows):
    cells = [key.split() + [verdict] for key, verdict in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
    head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
    TABLE.write_text("\n".join(head + lines) + "\n")


def judge(tests, site, names, last):
    """The test that fails with the site weakened; None without any."""
    try:
        if last and tests.run([last], HWHEEL_WEAKEN=site.place)[0]:
            return last
        failed, said = tests.run(names, HWHEEL_WEAKEN=site.place)
    except subprocess.TimeoutExpired:
        print(f"  {site.key}: does not end")
        return None
    if "weakened" not in said:
        print(f"  {site.key}: no test comes there")
    return failed


def run(tests, names, todo, old):
    """Weakens one site after the other; yields the row of each."""
    failed, _ = tests.run(names)
    if failed:
        sys.exit(f"{failed} fails with nothing weakened")

    def one(site):
        last = old.get(site.key)
        verdict = judge(tests, site, names, last if last in tests.path else None)
        print(f"  {site.key}: {verdict or 'NOT CAUGHT'}", flush=True)
        return site.key, verdict

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(one, todo)


def check(found, old):
    """Whether table, sources and document agree, and the fences are needed."""
    argued = ARGUED.findall(TABLE.read_text())
    different = {s.key for s in found} ^ set(old)
    different |= {k for k, v in old.items() if v[0] in "=~" and v[1:] not in argued}
    if different:
        sys.exit("not in the table, or only there, or not argued there:\n" + "\n".join(different))
    todo = [s for s in found if s.to == "AcqRel" and old[s.key][0] not in "=~"]
    partly = sum(v[0] == "~" for v in old.values())
    names = sorted({old[s.key] for s in todo})
    missed = [k for k, verdict in run(Tests(), names, todo, old) if not verdict]
    print(f"figures: {len(found)} orderings, {partly} of them argued and not tried by all tests")
    print(f"figures: {len(todo)} fences weakened, {len(missed)} not caught")
    sys.exit(bool(missed))


def weaken(found, old, todo):
    tests = Tests()
    names = [name for name, path in tests.path.items() if "::model::" in path]
    names = [name for name in names if not SLOW.search(name)]
    rows = dict(old)
    for key, verdict in run(tests, names, todo, old):
        was = old.get(key, "=?")
        tried = "=" if ALL else was[0]
        rows[key] = verdict or (tried + was[1:] if was[0] in "=~" else "=?")
        write_table([(s.key, rows.get(s.key, "=?")) for s in found])
    missed = [s.key for s in todo if rows[s.key] == "=?"]
    print(f"figures: {len(todo)} of {len(found)} orderings weakened, "
          f"{len(missed)} neither caught nor argued")
    sys.exit(bool(missed))


def main(what, pattern=""):
    found = [site for name in FILES for site in sites(name)]
    old = read_table()
    if what == "check":
        check(found, old)
    todo = [s for s in found if re.search(pattern, f"{s.key} {old.get(s.key, '')}")]
    if what == "open":
        todo = [s for s in todo if old.get(s.key, "=")[0] in "=~"]
    weaken(found, old, todo)


if sys.argv[1:2] not in (["all"], ["open"], ["check"]) or len(sys.argv) > 3 - ("check" in sys.argv):
    sys.exit(__doc__)
main(*sys.argv[1:])
