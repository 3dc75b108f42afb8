#!/usr/bin/env python3
"""Prints how much of the core the tests execute.

usage: coverage.py JSON

JSON is what `llvm-cov export` says. Each branch has two sides, true and false;
a side is covered if any copy of a generic function went there. Left out are the
tests in a file and debug assertions. Fails if fewer than FLOOR per cent of the
sides were covered, of those that verify/coverage.txt does not call impossible; or if
that does not explain one that was not covered, or explains one that was, or that is
gone.
"""

import json
import pathlib
import re
import sys

FLOOR = 95
# Each is a file, or a directory, or both.
CORE = "core runtime/ring runtime/pool runtime/keys runtime/numbers runtime/at_hand".split()
TABLE = pathlib.Path(__file__).with_name("coverage.txt")
SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src"


def covered_lines(segments):
    """Whether each line with code was executed."""
    lines = {}
    for (line, _, count, counts, _, gap), (end, column, *_) in zip(segments, segments[1:]):
        if counts and not gap:
            for n in range(line, end + (column > 1)):
                lines[n] = lines.get(n, False) or count > 0
    return lines


def covered_sides(branches):
    """How often each side of each branch was taken, by place and side."""
    sides = {}
    for *place, taken, passed, _, _, _ in branches:
        for side, count in (("true", taken), ("false", passed)):
            key = (*place[:4], side)
            sides[key] = sides.get(key, 0) + count
    return sides


class Source:
    """A file of the core, without its tests."""

    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(SOURCE))
        self.lines = self.path.read_text().split("\n")
        if "mod tests {" in self.lines:
            del self.lines[self.lines.index("mod tests {") :]

    def text(self, line, column, end, last):
        """The condition, on one line."""
        if line == end:
            return self.lines[line - 1][column - 1 : last - 1]
        parts = [self.lines[line - 1][column - 1 :], *self.lines[line : end - 1]]
        return re.sub(r"\s+", " ", " ".join([*parts, self.lines[end - 1][: last - 1]]))

    def function(self, line):
        """What the line is in."""
        before = (re.search(r"\bfn (\w+)", text) for text in reversed(self.lines[:line]))
        return next(found[1] for found in before if found)

    def counts(self, place):
        line = place[0]
        assertion = self.lines[min(line, len(self.lines)) - 1].lstrip().startswith("debug_assert")
        return line <= len(self.lines) and not assertion


def core():
    for name in CORE:
        file = SOURCE / f"{name}.rs"
        if file.exists():
            yield Source(file)
        yield from map(Source, sorted((SOURCE / name).rglob("*.rs")))


def explained():
    """The rows of the table by branch. The reason is on the line after each."""
    lines = [line for line in TABLE.read_text().split("\n") if line and line[0] != "#"]
    rows = {}
    for row, why in zip(lines[::2], lines[1::2], strict=True):
        parts = re.fullmatch(r"(\S+ \w+): (never|seldom) (true|false): (.+)", row)
        if not parts or not why.startswith("\t"):
            sys.exit(f"{TABLE.name}: not a branch and its reason: {row}")
        where, how, side, condition = parts.groups()
        rows[where, side, condition] = how
    return rows


def share(covered):
    """How many of how many, and the per cent."""
    if not covered:
        return f"{'-':>24}"
    hit = sum(map(bool, covered.values()))
    return f"{hit:5} of {len(covered):5} {100 * hit / len(covered):6.1f} %"


def measure(files):
    """Prints the shares; the branches by what the table calls them, with line and count."""
    all_lines, all_sides, branches = {}, {}, {}
    print(f"    {'file':24} {'lines':>24} {'branches':>24}")
    for source in core():
        found = files.get(source.path)
        if not found:
            # No code: types and names alone.
            continue
        lines = {
            (source.name, n): hit
            for n, hit in covered_lines(found["segments"]).items()
            if n <= len(source.lines)
        }
        sides = {
            (source.name, *place): count
            for place, count in covered_sides(found["branches"]).items()
            if source.counts(place)
        }
        print(f"    {source.name:24} {share(lines)} {share(sides)}")
        all_lines.update(lines)
        all_sides.update(sides)
        for (_, *place, side), count in sides.items():
            where = f"{source.name} {source.function(place[0])}"
            branch = (where, side, source.text(*place))
            branches.setdefault(branch, []).append((place[0], count))
    print(f"    {'all':24} {share(all_lines)} {share(all_sides)}")
    return branches, all_lines, all_sides


def main(path):
    exported = json.loads(pathlib.Path(path).read_text())["data"][0]["files"]
    branches, lines, sides = measure({pathlib.Path(f["filename"]): f for f in exported})
    known = explained()
    faults = []
    impossible = 0
    for (where, side, condition), taken in branches.items():
        gaps = [line for line, count in taken if not count]
        how = known.pop((where, side, condition), None)
        impossible += len(gaps) if how == "never" else 0
        for line in gaps:
            row = f"{where.replace(' ', f':{line} ')}: never {side}: {condition}"
            print(f"    {row}")
            if not how:
                faults.append(f"not explained: {row}")
        if how == "never" and not gaps:
            faults.append(f"explained, but taken: {where}: {side}: {condition}")
    faults += [f"explained, but gone: {': '.join(row)}" for row in known]
    taken, possible = sum(map(bool, sides.values())), len(sides) - impossible
    if 100 * taken < FLOOR * possible:
        faults.append(f"fewer than {FLOOR} per cent of the branches")
    print(f"    figures: {100 * sum(lines.values()) / len(lines):.1f} % of {len(lines)} lines, "
          f"{100 * taken / possible:.1f} % of {possible} sides of branches; "
          f"{impossible} sides cannot be taken")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
