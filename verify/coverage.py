#!/usr/bin/env python3
"""Prints how much of the core the tests execute.

usage: coverage.py JSON

JSON is what `llvm-cov export` says. Each branch has two sides, true and false; a side is
covered if any copy of a generic function went there. Left out are the tests in a file and
debug assertions. Prints each side that was not covered. Fails if fewer than FLOOR per cent of
the sides were.
"""

import json
import pathlib
import sys

FLOOR = 95
# Each is a file, or a directory, or both.
CORE = "core runtime/ring runtime/pool runtime/keys runtime/numbers runtime/at_hand".split()
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
    """How often each side of each branch was taken, by line, place and side."""
    sides = {}
    for *place, taken, passed, _, _, _ in branches:
        for side, count in (("true", taken), ("false", passed)):
            key = (*place[:4], side)
            sides[key] = sides.get(key, 0) + count
    return sides


def share(covered):
    """How many of how many, and the per cent."""
    hit = sum(map(bool, covered))
    return f"{hit:5} of {len(covered):5} {100 * hit / len(covered):6.1f} %" if covered else f"{'-':>24}"


def main(path):
    exported = json.loads(pathlib.Path(path).read_text())["data"][0]["files"]
    all_lines, all_sides = [], []
    print(f"    {'file':24} {'lines':>24} {'branches':>24}")
    for found in sorted(exported, key=lambda f: f["filename"]):
        file = pathlib.Path(found["filename"])
        name = str(file.relative_to(SOURCE)) if file.is_relative_to(SOURCE) else ""
        if not any(name == f"{part}.rs" or name.startswith(f"{part}/") for part in CORE):
            continue
        text = file.read_text().split("mod tests {")[0].split("\n")
        lines = [hit for n, hit in covered_lines(found["segments"]).items() if n <= len(text)]
        sides = {
            place: count
            for place, count in covered_sides(found["branches"]).items()
            if place[0] <= len(text) and not text[place[0] - 1].lstrip().startswith("debug_assert")
        }
        print(f"    {name:24} {share(lines)} {share(sides.values())}")
        for (line, column, *_, side), count in sides.items():
            if not count:
                print(f"      never {side}: {line}:{text[line - 1][column - 1:]}")
        all_lines += lines
        all_sides += sides.values()
    print(f"    {'all':24} {share(all_lines)} {share(all_sides)}")
    if 100 * sum(map(bool, all_sides)) < FLOOR * len(all_sides):
        sys.exit(f"fewer than {FLOOR} per cent of the branches")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
