#!/usr/bin/env python3
"""Plants each bug of verify/bugs.txt and sees that its test catches it.

Fails if a test passes with its bug or fails without it, and if the table and
the sources do not name the same bugs.
"""

import collections
import pathlib
import re
import subprocess
import sys

import planted

TABLE = pathlib.Path(__file__).with_name("bugs.txt")
Bug = collections.namedtuple("Bug", "name rung test")


def table():
    lines = TABLE.read_text().splitlines()
    return [Bug(*line.split()) for line in lines if line and not line.startswith("#")]


def planted_in_the_sources():
    sources = (planted.TOP / "src").rglob("*.rs")
    return {name for s in sources for name in re.findall(r'planted\("(\w+)"\)', s.read_text())}


def verdict(tests, test, want_pass, **spoilt):
    """None if the test does what it should, else what is wrong."""
    try:
        passed = tests.run([test], **spoilt)[0] is None
    except subprocess.TimeoutExpired:
        return "does not end"
    return None if passed == want_pass else ("passes" if passed else "fails")


def main():
    bugs = table()
    different = {b.name for b in bugs} ^ planted_in_the_sources()
    if different:
        sys.exit("in the table or in the sources alone: " + ", ".join(sorted(different)))
    wrong = 0
    for rung in sorted({b.rung for b in bugs}):
        mine = [b for b in bugs if b.rung == rung]
        tests = planted.Tests(rung)
        for test in sorted({b.test for b in mine}):
            if what := verdict(tests, test, True):
                print(f"{test} {what} without a bug")
                wrong += 1
        for bug in mine:
            what = verdict(tests, bug.test, False, HWHEEL_PLANTED=bug.name)
            print(f"  {bug.name:33} {'NOT CAUGHT' if what else 'caught'} by {bug.test}")
            wrong += what is not None
    print(f"{len(bugs)} bugs planted, {wrong} faults found")
    sys.exit(wrong != 0)


main()
