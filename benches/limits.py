#!/usr/bin/env python3
"""Compare measured figures with benches/limits.txt: limits.py FIGURES

Its status is 1 if a limit is missed or was not measured.
"""

import pathlib
import re
import statistics
import sys
from typing import NamedTuple

from measured import Side, markdown, median, number, read

LIMITS = pathlib.Path(__file__).with_name("limits.txt")


class Row(NamedTuple):
    """A line of limits.txt."""

    what: str
    over: Side
    under: Side | None
    sign: str
    limit: float
    # Why a user feels it.
    why: str

    def sides(self):
        return [side for side in (self.over, self.under) if side]

    def value(self, runs):
        """The figure, or the median of the ratios of each round; None if not measured."""
        if any(side not in runs for side in self.sides()):
            return None
        if not self.under:
            return median(runs, self.over)
        over, under = runs[self.over], runs[self.under]
        if len(over) != len(under):
            return statistics.median(over) / statistics.median(under)
        return statistics.median(a / b for a, b in zip(over, under))

    def keeps(self, value):
        return value <= self.limit if self.sign == "<=" else value >= self.limit


def side(text):
    command, _, figure = text.partition(":")
    return Side(" ".join(command.split()), figure.strip() or "ns") if text.strip() else None


def rows(pattern=""):
    """The rows of limits.txt whose names match."""
    found = []
    for line in LIMITS.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            found[-1] = found[-1]._replace(why=" ".join([found[-1].why, line.strip()]).strip())
            continue
        what, over, under, limit = (part.strip() for part in line.split("|"))
        sign, bound = limit.split()
        found.append(Row(what, side(over), side(under), sign, float(bound), ""))
    return [row for row in found if re.search(pattern, row.what)]


def table(runs, pattern=""):
    """The table of the rows, and whether all limits are kept."""
    kept = True
    lines = [("limit", "measured", "compared with", "ratio", "wanted", "")]
    for row in rows(pattern):
        values = [number(median(runs, s)) for s in row.sides()] + [""]
        value = row.value(runs)
        verdict = ""
        if value is None:
            verdict = "not measured"
            kept = False
        else:
            verdict = "kept" if row.keeps(value) else "MISSED"
            kept &= row.keeps(value)
        lines.append((row.what, values[0], values[1],
                      number(value) if row.under else "",
                      f"{row.sign} {number(row.limit)}", verdict))
    return markdown(lines, left=(0, 5)), kept


def main():
    text, kept = table(read(sys.argv[1]))
    print(text, end="")
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main()
