"""Figures that were measured, and the machine: what the other programs share."""

import json
import os
import pathlib
import platform
import re
import resource
import statistics
import subprocess
from typing import NamedTuple


class Side(NamedTuple):
    """A figure of a program."""

    command: str
    figure: str = "ns"


def write(runs, path):
    """One line of JSON for each figure."""
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


def spread(values):
    """Half of the values lie within so much."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def differ(one, other):
    """Whether the medians are further apart than the values of either vary."""
    return (abs(statistics.median(one) - statistics.median(other)) >
            max(spread(one), spread(other)))


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


def said(*command):
    """The first line that a command prints."""
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "not there"
    return out.splitlines()[0].strip()


def of_file(path, pattern):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else "unknown"


def cache(index):
    folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}/"
    return of_file(folder + "size", "(.*)")


def peers():
    """Versions of the languages that are measured, and of tokio."""
    lock = pathlib.Path(__file__).parent / "peers/rust/Cargo.lock"
    yield "tokio " + of_file(lock, '^name = "tokio"\nversion = "(.*)"')
    yield said("go", "version").replace(" version go", " ")
    yield from (said(java, "--version") for java in dict.fromkeys(
        (os.environ.get("JAVA", "java"), os.environ.get("JAVA25", "java"))))


def machine():
    lines = [
        ("machine", ""),
        ("processor", of_file("/proc/cpuinfo", "^model name.*: (.*)")),
        ("processors that the programs may use", str(len(os.sched_getaffinity(0)))),
        ("caches of a processor", f"{cache(0)} and {cache(2)}; {cache(3)} shared"),
        ("guest of a hypervisor", "yes" if "hypervisor" in of_file(
            "/proc/cpuinfo", "^flags.*: (.*)").split() else "no"),
        ("memory", f"{int(of_file('/proc/meminfo', 'MemTotal: *([0-9]+)')) // 1024:,} MiB"),
        ("huge pages", of_file("/sys/kernel/mm/transparent_hugepage/enabled", r"\[(.*)\]")),
        ("open files of a process, at most", f"{resource.getrlimit(resource.RLIMIT_NOFILE)[1]:,}"),
        ("kernel", platform.release()),
        ("compilers", f"{said('cc', '--version')}; {said('rustc', '--version')}"),
        ("peers", "; ".join(peers())),
        ("date", said("date", "+%Y-%m-%d")),
    ]
    return markdown(lines, left=(0, 1))
