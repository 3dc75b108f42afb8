#!/usr/bin/env python3
"""Measure what benches/limits.txt names, and compare it with its limits.

    limits.py run [--programs DIR] [--rounds N] [--rows REGEX] FIGURES
    limits.py check FIGURES

"run" runs each program that a row names once a round, those of one row one after
the other, so that what is compared runs at nearly the same time. It writes one
line of JSON for each figure to FIGURES and prints the table of the medians.
"check" prints the table of FIGURES again. Its status is 1 if a limit is missed.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

LIMITS = pathlib.Path(__file__).with_name("limits.txt")
# On an idle machine no run takes a tenth of it.
TIME_LIMIT = 60


class Side(NamedTuple):
    """A figure of a program."""

    command: str
    figure: str


class Row(NamedTuple):
    """A line of limits.txt."""

    what: str
    over: Side
    under: Side | None
    sign: str
    limit: float

    def sides(self):
        return [side for side in (self.over, self.under) if side]


def side(text):
    command, _, figure = text.partition(":")
    return Side(" ".join(command.split()), figure.strip() or "ns") if text.strip() else None


def rows(pattern=""):
    """The rows of limits.txt whose names match."""
    found = []
    for line in LIMITS.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        what, over, under, limit = (part.strip() for part in line.split("|"))
        sign, _, number = limit.partition(" ")
        row = Row(what, side(over), side(under), sign, float(number) if number else 0.0)
        if re.search(pattern, what):
            found.append(row)
    return found


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
                              timeout=TIME_LIMIT, check=False, preexec_fn=preferred)
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


def measure(commands, programs, rounds):
    """The figures of every command, round by round."""
    runs, dropped = {}, {}
    start = time.monotonic()
    for turn in range(rounds):
        for number, command in enumerate(commands, 1):
            # Counted instructions are the same each time.
            if command in dropped or (turn > 0 and command == "cost"):
                continue
            progress(f"  round {turn + 1} of {rounds}, {number} of {len(commands)}: {command}")
            figures, why = run(command, programs)
            if figures is None:
                dropped[command] = why
                progress(f"  SKIP    {command}: {why}", stay=True)
                continue
            for name, value in figures.items():
                runs.setdefault(Side(command, name), []).append(value)
    progress(f"  {len(commands)} programs, {rounds} rounds, "
             f"{time.monotonic() - start:.0f} s", stay=True)
    return runs


def write(runs, path):
    with open(path, "w", encoding="utf-8") as out:
        for of, values in runs.items():
            out.write(json.dumps({**of._asdict(), "median": statistics.median(values),
                                  "runs": values}) + "\n")


def read(path):
    """The medians of a file."""
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return {Side(r["command"], r["figure"]): r["median"] for r in records}


def number(value):
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(medians, pattern):
    """Print the rows that were measured; whether all limits are kept."""
    kept = True
    lines = [("what", "ours or over", "under", "ratio", "limit", "")]
    for row in rows(pattern):
        values = [medians.get(s) for s in row.sides()]
        if not any(values) and row.under:
            continue
        if None in values:
            lines.append((row.what, *(number(v) for v in (values + [None])[:2]), "", "",
                          "not measured"))
            continue
        result = values[0] / values[1] if row.under else values[0]
        verdict = ""
        if row.sign != "-":
            good = result <= row.limit if row.sign == "<=" else result >= row.limit
            kept &= good
            verdict = "kept" if good else "MISSED"
        lines.append((row.what, *(number(v) for v in (values + [None])[:2]),
                      number(result) if row.under else "",
                      f"{row.sign} {number(row.limit)}" if row.sign != "-" else "", verdict))
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, tuple("-" * w if i in (0, 5) else "-" * (w - 1) + ":"
                          for i, w in enumerate(widths)))
    for line in lines:
        print("| " + " | ".join(text.ljust(w) if i in (0, 5) else text.rjust(w)
                                for i, (text, w) in enumerate(zip(line, widths))) + " |")
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "check"))
    parser.add_argument("--programs", default="build/bench/core")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="", metavar="REGEX")
    parser.add_argument("figures", metavar="FIGURES")
    options = parser.parse_args()

    if options.what == "run":
        commands = dict.fromkeys(s.command for row in rows(options.rows) for s in row.sides())
        write(measure(list(commands), options.programs, options.rounds), options.figures)
    kept = table(read(options.figures), options.rows)
    sys.exit(0 if kept or options.what == "run" else 1)


if __name__ == "__main__":
    main()
