#!/usr/bin/env python3
"""Write what was measured: report.py FIGURES GENERATED PAGE

GENERATED (docs/FIGURES.md) is written whole. In PAGE (docs/PERFORMANCE.md) only the
table between two marks is replaced.
"""

import os
import pathlib
import platform
import re
import resource
import subprocess
import sys

import limits
import predict
import tables
from run import Side, markdown, median, number, read

PAIR = Side("hwheel pair 100000")
REQUEST = {name: Side(command, "request@100") for name, command in tables.SERVERS.items()}
IN_TIMERS = {name: Side(command, "timers@100") for name, command in tables.SERVERS.items()}
# The first table: what, unit, ours, the other's name, the other's figure.
SUMMARY = (
    ("Two threads, 100,000 timers each on one wheel: cancel and arm", "ns",
     Side("hwheel pair 100000 2"), "ratas behind a spin lock", Side("ratas-spin pair 100000 2")),
    ("One thread, 1,000 timers: cancel and arm", "ns",
     Side("hwheel pair 1000"), "ratas, for one thread only", Side("ratas pair 1000")),
    ("One thread, 100,000 timers: cancel and arm", "ns",
     PAIR, "ratas, for one thread only", Side("ratas pair 100000")),
    ("The same beside a heap", "ns", PAIR, "libuv", Side("libuv pair 100000")),
    ("Refresh the idle timeout of one of 100,000 connections", "ns",
     Side("hwheel refresh 100000"), "libevent, common timeouts", Side("libevent refresh 100000")),
    ("100,000 timers that fire and arm themselves again", "ns",
     Side("hwheel heartbeat 100000"), "ratas, for one thread only", Side("ratas heartbeat 100000")),
    ("A server, all connections talk: time in timers a request", "ns",
     IN_TIMERS["hwheel"], "libuv's heap", IN_TIMERS["libuv, heap"]),
    ("The same, all of the processor time a request", "ns",
     REQUEST["hwheel"], "a timerfd each", REQUEST["a timerfd each"]),
    ("Lateness at a tick of 50 us, median", "ns", Side("hwheel lateness 50", "p50"),
     "a timerfd set to the same ticks", Side("machine lateness 50", "p50")),
    ("Memory of a pending timer, 1,000,000 of them", "bytes",
     Side("hwheel memory 1000000", "bytes"), "ratas", Side("ratas memory 1000000", "bytes")),
)
SAME = 1.1


def verdict(ours, other):
    ratio = max(ours / other, other / ours)
    if ratio < SAME:
        return "about the same"
    return f"hwheel needs {number(ours / other)} times as much" if ours > other else \
        f"hwheel needs {number(ours / other)} of it"


def summary(runs):
    lines = [("work", "hwheel", "beside", "its figure", "verdict")]
    for what, unit, ours, name, other in SUMMARY:
        a, b = median(runs, ours), median(runs, other)
        if a is None or b is None:
            lines.append((what, number(a), name, number(b), "not measured"))
        else:
            lines.append((what, f"{number(a)} {unit}", name, f"{number(b)} {unit}", verdict(a, b)))
    return markdown(lines, left=(0, 2, 4))


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
        ("date", said("date", "+%Y-%m-%d")),
    ]
    return markdown(lines, left=(0, 1))


def figures(runs):
    missed = [row for row in limits.rows() if row.sign != "-" and
              (row.value(runs) is None or not row.keeps(row.value(runs)))]
    texts = [table.text(runs) for table in (*tables.TABLES, *tables.SERVER)]
    body = "\n".join(filter(None, texts))
    return "\n".join([
        "# Figures\n\nWritten by `make bench-all`; do not edit. [PERFORMANCE.md](PERFORMANCE.md) "
        "says how each is\nmeasured and what it means. Every figure is the median of its rounds.\n",
        machine(),
        f"## Limits\n\nThose of `benches/limits.txt`; {len(missed)} missed. A ratio is the median "
        f"of the ratios of each\nround.\n\n{limits.table(runs)[0]}",
        f"## Tables\n\n{body}",
        f"## Prediction\n\nNothing here was measured beyond two threads: "
        f"[PERFORMANCE.md](PERFORMANCE.md#beyond-this-machine)\nhas the model.\n\n"
        f"{predict.table(runs)}"])


def main(path, generated, page):
    runs = read(path)
    pathlib.Path(generated).write_text(figures(runs), encoding="utf-8")
    page = pathlib.Path(page)
    text, found = re.subn(r"(<!-- summary -->\n).*?(<!-- end -->)",
                          lambda m: f"{m[1]}\n{summary(runs)}\n{m[2]}",
                          page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if found != 1:
        sys.exit(f"{page} has no marks for the summary")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
