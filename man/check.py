#!/usr/bin/env python3
"""Compares the manual pages with the header, the export map and the source.

usage: check.py HEADER MAP GENERATED

GENERATED is a directory with pages fresh from generate.py. Prints what is
wrong, and ends with status 1 if anything is.
"""

import pathlib
import re
import sys


def main():
    """Runs every comparison."""
    header, exports, fresh = map(pathlib.Path, sys.argv[1:])
    here = pathlib.Path(__file__).parent
    text = header.read_text()
    exported = set(re.findall(r"^\t(hwheel_\w+);", exports.read_text(), re.M))
    overview = (here / "hwheel.7").read_text()
    wrong = []

    for name in sorted(exported ^ {page.stem for page in fresh.glob("*.3")}):
        wrong.append(f"{name} is in one of {header} and {exports} only")

    table = re.search(r"^function\t.*?^\.TE", overview, re.M | re.S).group()
    listed = re.findall(r"^(hwheel_\w+)\t", table, re.M)
    for name in sorted(exported ^ set(listed)):
        wrong.append(f"hwheel.7: the thread table and {exports} differ: {name}")
    if len(listed) != len(set(listed)):
        wrong.append("hwheel.7: the thread table lists a function twice")

    errors = re.search(r"^\.SH ERRORS.*?^\.SH", overview, re.M | re.S).group()
    told = set(re.findall(r"\\-(E[A-Z0-9]+)", errors))
    used = set(re.findall(r"(?<=-)E[A-Z0-9]+\b", text))
    for name in sorted(told ^ used):
        wrong.append(f"hwheel.7: ERRORS and {header} differ: {name}")

    example = (here.parent / "examples" / "hello.c").read_text()
    if example.replace("\\", "\\e").expandtabs() not in overview:
        wrong.append("hwheel.7: the program is not examples/hello.c")

    for page in sorted([*here.glob("*.[17]"), *fresh.glob("*.3")]):
        for name in re.findall(r"^\.[BI]R (hwheel_\w+) \(3\)",
                               page.read_text(), re.M):
            if name not in exported:
                wrong.append(f"{page.name} refers to {name}, which is none")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    main()
