#!/usr/bin/env python3
"""Run the benchmark programs, round by round.

    run.py [--limits] [--rows REGEX] [--tables] [--server] [--only REGEX]
           [--programs DIR] [--rounds N] FIGURES

Runs each program that benches/limits.txt (of the rows that match), benches/tables.py
or the table of the server names once a round. Those that are compared run one after
the other, so that what disturbs the machine for a while disturbs all alike. Writes
one line of JSON for each figure to FIGURES and prints what was asked for.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

# On an idle machine no run takes half of it.
TIME_LIMIT = 90
# Rounds of programs whose figures are the same each time, or which take long.
AT_MOST = (
    (1, r"^cost|^lines|^ours (growth|sleeping)"),
    (3, r"^server|^(libuv|libevent|tokio|hhwt|delay_queue|go|jdk|netty)\b|0000000"),
)


class Side(NamedTuple):
    """A figure of a program."""

    command: str
    figure: str = "ns"


def preferred():
    """In a new process: before the other work of the machine, if that is allowed."""
    os.setsid()
    try:
        os.nice(-20)
        with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
            autogroup.write("-20")
    except OSError:
        pass


def run(command, programs):
    """One run's figures by name, or None and the reason."""
    program, *arguments = command.split()
    path = os.path.abspath(os.path.join(programs, program))
    if not os.path.exists(path):
        return None, "not built"
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True,
                              timeout=TIME_LIMIT, check=False, preexec_fn=preferred,
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


def at_most(command):
    return min((n for n, pattern in AT_MOST if re.search(pattern, command)), default=sys.maxsize)


def measure(commands, programs, rounds, path):
    """Runs every command, round by round; what there is by then is in the file."""
    runs, dropped = {}, set()
    start = time.monotonic()
    for turn in range(rounds):
        if not sys.stderr.isatty():
            progress(f"  round {turn + 1} of {rounds}, {time.monotonic() - start:.0f} s", stay=True)
        for number, command in enumerate(commands, 1):
            if command in dropped or turn >= at_most(command):
                continue
            progress(f"  round {turn + 1} of {rounds}, {number} of {len(commands)}: {command}")
            figures, why = run(command, programs)
            if figures is None:
                dropped.add(command)
                progress(f"  SKIP    {command}: {why}", stay=True)
                continue
            for name, value in figures.items():
                runs.setdefault(Side(command, name), []).append(value)
        write(runs, path)
    progress(f"  {len(commands)} programs, {rounds} rounds, "
             f"{time.monotonic() - start:.0f} s", stay=True)


def write(runs, path):
    with open(path, "w", encoding="utf-8") as out:
        for of, values in runs.items():
            out.write(json.dumps({**of._asdict(), "median": statistics.median(values),
                                  "runs": values}) + "\n")


def read(path):
    """The values of every round, by figure."""
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return {Side(r["command"], r["figure"]): r["runs"] for r in records}


def median(runs, side):
    return statistics.median(runs[side]) if side in runs else None


def number(value):
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == int(value):
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def markdown(lines, left=(0,)):
    """A table that is readable as it is; the columns `left` are aligned to the left."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    rule = ["-" * w if i in left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "".join(
        "| " + " | ".join(text.ljust(w) if i in left else text.rjust(w)
                          for i, (text, w) in enumerate(zip(line, widths))) + " |\n"
        for line in [lines[0], rule, *lines[1:]])


def main():
    # They use what stands above.
    import limits
    import tables

    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limits", action="store_true")
    parser.add_argument("--rows", default="", metavar="REGEX", help="of the limits")
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the commands")
    parser.add_argument("figures", metavar="FIGURES")
    options = parser.parse_args()

    sides = []
    if options.limits:
        sides += [side for row in limits.rows(options.rows) for side in row.sides()]
    wanted = tables.TABLES if options.tables else ()
    wanted = [*wanted, *(tables.SERVER if options.server else ())]
    sides += [side for table in wanted for side in table.sides()]
    commands = [c for c in dict.fromkeys(side.command for side in sides)
                if re.search(options.only, c)]
    measure(commands, options.programs, options.rounds, options.figures)
    runs = read(options.figures)
    for text in filter(None, (table.text(runs) for table in wanted)):
        print(text)
    if options.limits:
        print(limits.table(runs, options.rows)[0], end="")


if __name__ == "__main__":
    # One module, whether it is the program or imported by the others.
    sys.modules["run"] = sys.modules["__main__"]
    main()
