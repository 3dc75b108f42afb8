#!/usr/bin/env python3
"""Counts the instructions that calls of the library execute.

usage: cost.py PROGRAM LIBRARY table|check

Runs PROGRAM (verify/cost.c) under callgrind and counts, operation by
operation, the instructions executed inside LIBRARY and nowhere else, so that
neither the C library nor the loader has a part in it. "table" prints the table.
"check" compares with verify/cost.txt and fails if an operation has grown by
more than 5 per cent, or if an arm divides. A table that another compiler made
is compared with nothing, and that is said.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

CALLS = 1000
GROWTH = 1.05
TABLE = pathlib.Path(__file__).with_name("cost.txt")
ARMS = ("setup", "arm", "rearm_later", "rearm_earlier", "rearm_at_deadline", "after")
HEAD = """\
# Instructions inside libhwheel for a call, or for a timer fired, or for a tick.
# Made by `make cost-table`; `make check-cost` fails where one has grown by more
# than 5 per cent.
"""


def compiler():
    out = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
    return out.stdout.split(" (")[0]


def parse(dump, library):
    """The operation of a dump, and its executions by address in the library."""
    text = dump.read_text()
    trigger = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
    executed = {}
    inside = called = False
    for line in text.splitlines():
        if line.startswith("ob="):
            inside = library in line
        elif line.startswith("calls="):
            called = True  # the next line is the cost of the callee
        elif line.startswith("0x"):
            address, _, count = line.split()
            if inside and not called:
                executed[int(address, 16)] = executed.get(int(address, 16), 0) + int(count)
            called = False
    return trigger and trigger[1], executed


def measure(program, library):
    """Every operation's executions by address, in the order of the program."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes",
             "--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={d}/out",
             program], check=True, stderr=subprocess.PIPE)
        dumps = sorted(pathlib.Path(d).glob("out.*"), key=lambda p: int(p.suffix[1:]))
        found = dict(parse(dump, library) for dump in dumps)
    found.pop(None, None)
    if not found or not all(found.values()):
        sys.exit("callgrind counted nothing")
    return found


def divisions(library):
    """The addresses of the division instructions."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library],
                         check=True, capture_output=True, text=True).stdout
    return {int(m[1], 16) for m in re.finditer(r"^ *([0-9a-f]+):\s+i?div", out, re.MULTILINE)}


def table(costs):
    rows = "".join(f"{op:20}{cost:8.1f}\n" for op, cost in costs.items())
    return f"{HEAD}# {compiler()}\n{rows}"


def check(costs):
    text = TABLE.read_text()
    made_by = re.search(r"^# (rustc .*)$", text, re.MULTILINE)[1]
    if made_by != compiler():
        print(f"  SKIPPED the comparison: verify/cost.txt is of {made_by}, this is {compiler()}")
        return True
    before = {op: float(n) for op, n in re.findall(r"^(\w+) +([\d.]+)$", text, re.MULTILINE)}
    good = set(before) == set(costs)
    for op, cost in costs.items():
        was = before.get(op, 0.0)
        grown = cost > was * GROWTH
        good &= not grown
        print(f"    {op:20}{cost:8.1f}  was{was:8.1f}{'  GROWN' if grown else ''}")
    if not good:
        print("  if it must be so: make cost-table, and commit verify/cost.txt with the reason")
    return good


def main(program, library, what):
    found = measure(program, pathlib.Path(library).name)
    costs = {op: sum(executed.values()) / CALLS for op, executed in found.items()}
    if what == "table":
        print(table(costs), end="")
        return 0
    divided = [op for op in ARMS if divisions(library) & found[op].keys()]
    for op in divided:
        print(f"  {op} divides")
    return 0 if check(costs) and not divided else 1


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in ("table", "check"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
