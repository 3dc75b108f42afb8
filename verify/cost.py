#!/usr/bin/env python3
"""Counts the instructions that calls of the library execute.

usage: cost.py PROGRAM table|check

Runs PROGRAM (verify/cost.c) under callgrind and counts, operation by operation,
the instructions executed in the library that it is linked with. The program
itself, the C library and the loader have no part in it. "table" prints the table.
"check" fails if an operation has grown by more than 5 per cent since verify/cost.txt,
or if an arm divides. A table that another compiler made is
not compared with, and the program says so.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

CALLS = 1000
GROWTH = 1.05
TABLE = pathlib.Path(__file__).with_name("cost.txt")
ARMS = ("setup", "arm", "rearm_later", "rearm_earlier", "rearm_at_deadline", "once")
HEAD = """\
# Instructions inside libhwheel for a call, or for a timer fired, or for a tick.
# Made by `make regenerate WHAT=cost`; `make check CHECK=cost` fails where one has grown by more
# than 5 per cent.
"""


# The libraries that were found to execute something.
LIBRARIES = set()


def compiler():
    out = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True)
    return out.stdout.split(" (")[0]


OTHERS = re.compile(r"/(libc|libm|libgcc_s|libpthread|libdl|ld-linux[^/]*|vgpreload[^/]*)\b[^/]*$")


def parse(dump, program):
    """The operation of a dump, and its executions by address in the library."""
    text = dump.read_text()
    trigger = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
    executed = {}
    inside = called = False
    for line in text.splitlines():
        if line.startswith("ob="):
            path = line[3:]
            inside = path != program and path != "???" and not OTHERS.search(path)
            if inside:
                LIBRARIES.add(path)
        elif line.startswith("calls="):
            called = True  # the next line is the cost of the callee
        elif line.startswith("0x"):
            address, _, count = line.split()
            if inside and not called:
                executed[int(address, 16)] = executed.get(int(address, 16), 0) + int(count)
            called = False
    return trigger and trigger[1], executed


def measure(program):
    """Every operation's executions by address, in the order of the program."""
    program = str(pathlib.Path(program).resolve())
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(
            ["valgrind", "-q", "--tool=callgrind", "--collect-atstart=no", "--dump-instr=yes",
             "--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={d}/out",
             program], check=True, stderr=subprocess.PIPE)
        dumps = sorted(pathlib.Path(d).glob("out.*"), key=lambda p: int(p.suffix[1:]))
        found = dict(parse(dump, program) for dump in dumps)
    found.pop(None, None)
    if not found or not all(found.values()):
        sys.exit("callgrind counted nothing")
    return found


def divisions():
    """The addresses of the library's division instructions."""
    (library,) = LIBRARIES
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library],
                         check=True, capture_output=True, text=True).stdout
    return {int(m[1], 16) for m in re.finditer(r"^ *([0-9a-f]+):\s+i?div", out, re.MULTILINE)}


def table(costs):
    rows = "".join(f"{op:20}{cost:8.1f}\n" for op, cost in costs.items())
    return f"{HEAD}# {compiler()}\n{rows}"


def check(costs):
    return all([check_growth(costs), check_threads(costs)])


def check_threads(costs):
    """A tick costs what is due, however many threads there are."""
    alone, together = costs["tick_1_thread"], costs["tick_256_threads"]
    good = 0 < together <= alone * GROWTH
    print(f"    figures: a tick with one timer due: {alone:.1f} instructions with 1 thread, "
          f"{together:.1f} with 256{'' if good else ': MORE FOR MORE THREADS'}")
    return good


def check_growth(costs):
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
        print("  if it must be so: make regenerate WHAT=cost, and commit verify/cost.txt with the reason")
    return good


def main(program, what):
    found = measure(program)
    costs = {op: sum(executed.values()) / CALLS for op, executed in found.items()}
    if what == "table":
        print(table(costs), end="")
        return 0
    divided = [op for op in ARMS if divisions() & found[op].keys()]
    for op in divided:
        print(f"  {op} divides")
    if divided or not check(costs):
        return 1
    print(f"    figures: {len(costs)} operations, none has grown")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("table", "check"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
