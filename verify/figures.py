#!/usr/bin/env python3
"""Keeps what a target of the verification has measured.

usage: figures.py record TARGET COMMAND...
       figures.py check

"record" runs COMMAND and shows what it prints. If it succeeds, "record" writes a row of
docs/VERIFICATION_FIGURES.md. Figures are all that follows "figures: " on a line, the sum
of the C tests, and the sums of the executions, and of the Rust tests and KTAP cases that
have passed. A command that has skipped its work leaves no figures; one that has none to
say is a fault.

"check" fails if the document is not as "record" writes it, or if docs/VERIFICATION.md has
a figure of its own.
"""

import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "benches"))
import report  # noqa: E402  (next to this directory)
from run import markdown  # noqa: E402

DOCUMENT = TOP / "docs/VERIFICATION_FIGURES.md"
METHOD = TOP / "docs/VERIFICATION.md"
TARGETS = re.compile(r"^VERIFY_(?:SHORT|LONG) \+= (.+)$", re.MULTILINE)
SAID = re.compile(r"figures: (.+)|^  (C tests: .+)")
EXECUTIONS = re.compile(r": (\d+) executions\b")
RUST = re.compile(r"^test result: ok\. (\d+) passed; 0 failed")
KTAP = re.compile(r"^ok \d+ (?!.* # SKIP)")
HEAD = """\
# Figures of the verification

Written by the targets that it names; do not edit. [VERIFICATION.md](VERIFICATION.md) says
what each of them does. A row is the last run of its target that passed. The seconds
include what the target had to build. `git rev-parse COMMIT:src` prints the sources that
a commit has: in the last column are the first digits of that.

"""
COLUMNS = ("target", "figures", "seconds", "date", "machine", "library and its sources")
# A setting of a check has as many digits as a result. So a number of four digits or more
# in the method must be found where checks have their settings.
NUMBER = re.compile(r"(?<![\w.^])\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.^,])\d{4,}(?!\w)")
RESULT = re.compile(r"\d (?:stalls|findings|failed|passed|not caught|missed|of \d+ (?:lines|branches))\b"
                    r"|\d per cent covered|\d+ (?:runs )?of \d+ runs")
SETTINGS = ("verify/*.mk", "verify/*.c", "verify/fuzz/*.c", "src/tests/**/*.rs", "c-tests/*.c")


def targets():
    """Every target of the verification, the parts in the order of their files."""
    found = (names for file in sorted((TOP / "verify").glob("*.mk"))
             for names in TARGETS.findall(file.read_text()))
    return list(dict.fromkeys(name for names in found for name in names.split()))


def version():
    return re.search(r"^VERSION := (.+)$", (TOP / "Makefile").read_text(), re.MULTILINE)[1]


def sources():
    """What git calls the tree of src as it is now, committed or not."""
    with tempfile.TemporaryDirectory() as directory:
        environ = {**os.environ, "GIT_INDEX_FILE": f"{directory}/index"}

        def git(*words):
            return subprocess.run(["git", "-C", TOP, *words], env=environ, check=True,
                                  capture_output=True, text=True).stdout.strip()

        try:
            git("add", "src")
            return git("write-tree", "--prefix=src/")[:10]
        except (OSError, subprocess.CalledProcessError):
            return "unknown"


def machine():
    """One line. The rest of the machine does not matter to what is right."""
    processor = re.sub(r"\((R|TM)\)", "", report.of_file("/proc/cpuinfo", "^model name.*: (.*)"))
    compiler = report.said("rustc", "--version").split(" (")[0]
    return (f"{processor}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} processors, "
            f"Linux {report.platform.release().split('-')[0]}, {compiler}")


def watch(command):
    """Runs it and passes on what it prints. Its exit status, and its lines."""
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as child:
        for line in child.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return child.returncode, lines


def figures(lines):
    said = [found[1] or found[2] for found in map(SAID.search, lines) if found]
    runs = [int(found[1]) for found in map(EXECUTIONS.search, lines)
            if found and "figures: " not in found.string]
    rust = sum(int(found[1]) for found in map(RUST.match, lines) if found)
    cases = sum(bool(KTAP.match(line)) for line in lines)
    return [*said, *[f"{len(runs)} tests, {sum(runs):,} executions"] * bool(runs),
            *[f"{rust} Rust tests"] * (rust > 0), *[f"{cases} cases"] * (cases > 0)]


def record(target, command):
    library, begin = sources(), time.monotonic()
    status, lines = watch(command)
    if status != 0:
        return status
    if any("SKIPPED" in line for line in lines):
        return 0
    if not (said := figures(lines)):
        sys.exit(f"{target} has passed, and printed no figures")
    rows = {**read(), f"`{target}`": (
        "; ".join(said), f"{time.monotonic() - begin:.0f}", str(datetime.date.today()),
        machine(), f"{version()}, {library}")}
    new = DOCUMENT.with_suffix(f".{os.getpid()}")
    new.write_text(document(rows))
    new.replace(DOCUMENT)
    return 0


def read():
    """The rows of the document, by their target."""
    lines = DOCUMENT.read_text().splitlines() if DOCUMENT.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in lines if line.startswith("| `")]
    return {target: tuple(rest) for target, *rest in cells}


def document(rows):
    known = [f"`{target}`" for target in targets()]
    known += sorted(rows.keys() - set(known))
    lines = [COLUMNS, *((target, *rows[target]) for target in known if target in rows)]
    missing = [target for target in known if target not in rows]
    return (HEAD + markdown(lines, left=(0, 1, 3, 4, 5)) +
            (f"\nNo run that passed: {', '.join(missing)}.\n" if missing else ""))


def check():
    wrong = []
    if DOCUMENT.read_text() != document(read()):
        wrong.append(f"{DOCUMENT.name} is not as {pathlib.Path(__file__).name} writes it")
    settings = "\n".join(path.read_text() for pattern in SETTINGS for path in TOP.glob(pattern))
    settings = re.sub(r"(?<=\d)_(?=\d)", "", settings)
    for n, line in enumerate(METHOD.read_text().splitlines(), 1):
        strange = [number[0] for number in NUMBER.finditer(line)
                   if not re.search(rf"(?<!\d){number[0].replace(',', '')}(?!\d)", settings)]
        strange += [found[0] for found in RESULT.finditer(line)]
        wrong += [f"{METHOD.name}:{n}: a figure by hand: {text}" for text in strange]
    sys.exit("\n".join(wrong) or 0)


def main(what, *words):
    if what == "record" and len(words) > 1:
        sys.exit(record(words[0], words[1:]))
    if what == "check" and not words:
        return check()
    sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
