#!/usr/bin/env python3
"""Compares the probes of a library with the document that describes them.

usage: probes.py DOCUMENT PROBED PLAIN

Every probe of the document's table is in PROBED, with as many arguments, no
other is, and each is a nop. PLAIN has none. Prints what is wrong, and ends with
status 1 if anything is.
"""

import pathlib
import re
import subprocess
import sys

NOTE = re.compile(r"Provider: (\w+)\s+Name: (\w+)\s+"
                  r"Location: 0x([0-9a-f]+), .*\s+Arguments: (.*)")


def run(*command):
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def described(document):
    """The number of arguments of each probe, by its name."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", document.read_text(), re.MULTILINE)
    return {name: len(arguments.split(",")) for name, arguments in rows}


def first_instruction(library, address):
    """What is at an address."""
    code = run("objdump", "-d", "--no-show-raw-insn", f"--start-address={address:#x}",
               f"--stop-address={address + 4:#x}", library)
    return re.search(rf"^ *{address:x}:\s+(\w+)", code, re.MULTILINE)[1]


def main(document, probed, plain):
    """Runs every comparison."""
    want = described(pathlib.Path(document))
    notes = NOTE.findall(run("readelf", "-nW", probed))
    wrong = [f"{plain} has probes"] if "stapsdt" in run("readelf", "-SW", plain) else []
    for name in sorted(want.keys() ^ {note[1] for note in notes}):
        wrong.append(f"{name} is in one of {document} and {probed} only")
    for provider, name, address, arguments in notes:
        if provider != "hwheel":
            wrong.append(f"{name} has the provider {provider}")
        if len(arguments.split()) != want.get(name):
            wrong.append(f"{name} has the arguments {arguments}")
        if (code := first_instruction(probed, int(address, 16))) != "nop":
            wrong.append(f"{name} is no nop, but {code}")
    print(f"    {len(want)} probes in {len(notes)} places")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong or not want else 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
