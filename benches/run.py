#!/usr/bin/env python3
"""Run the benchmark programs, round by round.

    run.py [--limits] [--rows REGEX] [--tables REGEX] [--only REGEX]
           [--programs DIR] [--rounds N] [--fifo] FIGURES

Runs each program that benches/limits.txt (of the rows that match) or benches/tables.py
(of the tables that match) names once a round. Those that are compared run one after
the other, so that what disturbs the machine for a while disturbs all alike. Writes
one line of JSON for each figure to FIGURES and prints what was asked for.
"""

import argparse
import os
import re
import subprocess
import sys
import time

import limits
import tables
from measured import Side, read, write

# On an idle machine no run takes half of it.
TIME_LIMIT = 90
# Rounds of programs whose figures are counted, not timed.
AT_MOST = (
    (1, r"^cost|^lines|^ours (growth|sleeping)| memory "),
)
# Their threads wait for each other on one processor.
NEVER_FIFO = r"^server|^machine contended"


def preferred(fifo):
    """In a new process: before the other work of the machine, if that is allowed."""
    os.setsid()
    if fifo:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    try:
        os.nice(-20)
        with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
            autogroup.write("-20")
    except OSError:
        pass


def run(command, programs, fifo):
    """One run's figures by name, or None and the reason."""
    program, *arguments = command.split()
    path = os.path.abspath(os.path.join(programs, program))
    if not os.path.exists(path):
        return None, "not built"
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True,
                              timeout=TIME_LIMIT, check=False, preexec_fn=lambda: preferred(fifo),
                              cwd=os.path.dirname(path))
    except subprocess.TimeoutExpired:
        return None, f"longer than {TIME_LIMIT} s"
    if done.returncode != 0:
        return None, f"status {done.returncode}: {done.stderr.strip()[-200:]}"
    pairs = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in pairs}, None


def progress(text, stay=False):
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="\n" if stay else "", file=sys.stderr, flush=True)
    elif stay:
        print(text, file=sys.stderr, flush=True)


# Rounds of programs whose figures vary more than they differ.
AT_LEAST = ((7, r"^server"),)


def rounds(command, asked):
    if asked >= 5:
        asked = max([asked, *(n for n, pattern in AT_LEAST if re.search(pattern, command))])
    return min([asked, *(n for n, pattern in AT_MOST if re.search(pattern, command))])


def measure(commands, options):
    """Runs every command, round by round; what there is by then is in the file."""
    runs, dropped = {}, set()
    start = time.monotonic()
    turns = max(rounds(command, options.rounds) for command in commands)
    for turn in range(turns):
        if not sys.stderr.isatty():
            progress(f"  round {turn + 1} of {turns}, {time.monotonic() - start:.0f} s", stay=True)
        for number, command in enumerate(commands, 1):
            if command in dropped or turn >= rounds(command, options.rounds):
                continue
            progress(f"  round {turn + 1} of {turns}, {number} of {len(commands)}: {command}")
            figures, why = run(command, options.programs,
                               options.fifo and not re.search(NEVER_FIFO, command))
            if figures is None:
                dropped.add(command)
                progress(f"  SKIP    {command}: {why}", stay=True)
                continue
            for name, value in figures.items():
                runs.setdefault(Side(command, name), []).append(value)
        write(runs, options.figures)
    progress(f"  {len(commands)} programs, {turns} rounds, "
             f"{time.monotonic() - start:.0f} s", stay=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--rows", default="", metavar="REGEX", help="of the limits")
    parser.add_argument("--tables", metavar="REGEX", help="of their names")
    parser.add_argument("--fifo", action="store_true",
                        help="with the priority of real time, where the machine is not idle; as root")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the commands")
    parser.add_argument("figures", metavar="FIGURES")
    options = parser.parse_args()

    sides = []
    if options.limits:
        sides += [side for row in limits.rows(options.rows) for side in row.sides()]
    wanted = [table for name, table in tables.TABLES.items()
              if options.tables is not None and re.search(options.tables, name)]
    sides += [side for table in wanted for side in table.sides()]
    commands = [c for c in dict.fromkeys(side.command for side in sides)
                if re.search(options.only, c)]
    measure(commands, options)
    runs = read(options.figures)
    for text in filter(None, (table.text(runs) for table in wanted)):
        print(text)
    if options.limits:
        print(limits.table(runs, options.rows)[0], end="")


if __name__ == "__main__":
    main()
