#!/usr/bin/env python3
"""Prints which test stands for which trap, and how it went.

usage: traps.py DIRECTORY...

Runs the trap_* programs of the given directories. A trap is an id and a line
of verify/traps.txt; a test stands for it if its name begins with the id. A
trap without a test needs a line "**id.**" in docs/VERIFICATION.md that argues
why. Fails if a trap has neither, if a test failed or names no trap.
"""

import pathlib
import re
import subprocess
import sys

TRAP = re.compile(r"([A-Z]\d+) (.+)")
RESULT = re.compile(r"(not ok|ok) \d+ (([a-z]\d+)_\w+)( # SKIP .*)?")
ARGUED = re.compile(r"^- \*\*([A-Z]\d+)\.\*\*", re.MULTILINE)


def traps(text):
    """The ids, each with its line."""
    return dict(m.groups() for m in map(TRAP.fullmatch, text.splitlines()) if m)


def run(program):
    """The tests of a program: id of the trap, name, passed, skipped."""
    out = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=300)
    found = [m for m in map(RESULT.fullmatch, out.stdout.splitlines()) if m]
    plan = re.search(r"^1\.\.(\d+)$", out.stdout, re.MULTILINE)
    for m in re.finditer(r"^(# .+)\n(not ok .+)$", out.stdout, re.MULTILINE):
        print(m[0])
    if plan is None or int(plan[1]) != len(found):
        sys.exit(f"{program} ended before its plan, exit {out.returncode}")
    return [(m[3].upper(), m[2], m[1] == "ok", m[4] is not None) for m in found]


def outcome(results):
    """One word for the same test in several programs."""
    if not all(passed for passed, _ in results):
        return "FAILED"
    return "skipped" if all(skipped for _, skipped in results) else "passed"


def main(directories):
    top = pathlib.Path(__file__).resolve().parent.parent
    known = traps((top / "verify/traps.txt").read_text())
    argued = set(ARGUED.findall((top / "docs/VERIFICATION.md").read_text()))
    tests = {trap: {} for trap in known}
    wrong = []
    for program in sorted(p for d in directories for p in pathlib.Path(d).glob("trap_*")):
        for trap, name, passed, skipped in run(program):
            if trap not in known:
                wrong.append(f"{name} stands for no trap")
                continue
            tests[trap].setdefault(name, []).append((passed, skipped))
    for trap, what in known.items():
        print(f"{trap:4} {what}")
        for name, results in tests[trap].items():
            print(f"       {outcome(results):8} {name}")
            if outcome(results) == "FAILED":
                wrong.append(f"{name} failed")
        if trap in argued:
            print("       argued   in docs/VERIFICATION.md")
        elif not tests[trap]:
            wrong.append(f"{trap} has neither a test nor an argument")
    covered = sum(bool(t) for t in tests.values())
    print(f"figures: {len(known)} traps: {covered} with tests, {len(known) - covered} argued; "
          f"{sum(map(len, tests.values()))} tests, {len(wrong)} wrong")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
