#!/usr/bin/env python3
"""Count the cache lines that operations write, and who else uses them: lines.py PROGRAM

Runs PROGRAM with the workload "lines" under valgrind's lackey, which prints every
access to memory. Prints for each operation the number of lines that it writes: those
that only its own thread uses ("own"), that the thread that advances time also uses
("driver"), and that other threads use in the same operations ("others").
"""

import re
import subprocess
import sys
from collections import defaultdict

TURNS = ("arm", "rearm", "cancel", "fire", "idle")
DRIVER, THREADS, END = 2, 3, 63
LINE = 64


def trace(program):
    """The lines that PROGRAM printed, and its accesses as (kind, address)."""
    with subprocess.Popen(["valgrind", "-q", "--tool=lackey", "--trace-mem=yes",
                           "--log-fd=1", "--fair-sched=no", program, "lines"],
                          stdout=subprocess.PIPE, text=True) as run:
        for text in run.stdout:
            # " S 1ffefff0d0,8"; instructions are of no interest.
            if text[:3] in (" S ", " M ", " L "):
                yield text[1], int(text[3:text.index(",")], 16)
            elif text[0] != "I":
                yield "printed", text
    if run.returncode != 0:
        sys.exit(f"{program}: status {run.returncode}")


def operations(program):
    """Each operation as (turn, thread, lines read, lines written), and what was fired."""
    marks, stacks, now, found, fired = None, [], None, [], 0
    for kind, value in trace(program):
        if kind == "printed":
            words = value.split()
            if words[:1] == ["marks"]:
                marks = int(words[1], 16)
            elif words[:1] == ["stack"]:
                stacks.append(range(int(words[1], 16), int(words[1], 16) + int(words[2])))
            elif words[:1] == ["fired"]:
                fired = int(words[1])
            continue
        if marks is None:
            continue
        if kind in "SM" and marks <= value < marks + 4 * 64:
            number = (value - marks) // 4
            if number == END - 1:
                found = []
            elif number == END:
                now = None
            else:
                now = (TURNS[number // THREADS], number % THREADS, set(), set())
                found.append(now)
            continue
        if now is None or any(value in stack for stack in stacks):
            continue
        now[2 if kind == "L" else 3].add(value // LINE)
    return found, fired


def main(program):
    found, fired = operations(program)
    users = defaultdict(set)
    for _, thread, read, written in found:
        for line in read | written:
            users[line].add(thread)
    for turn in TURNS:
        counts = defaultdict(int)
        several = [op for op in found if op[0] == turn]
        for _, thread, _, written in several:
            for line in written:
                other = users[line] - {thread}
                if thread == DRIVER:
                    counts["others" if other else "own"] += 1
                elif other - {DRIVER}:
                    counts["others"] += 1
                else:
                    counts["driver" if other else "own"] += 1
        each = fired if turn == "fire" else len(several)
        for who in ("own", "driver", "others"):
            print(f"{turn}_{who} {counts[who] / each:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.search(r"\w", sys.argv[1]):
        sys.exit(__doc__)
    main(sys.argv[1])
