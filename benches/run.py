#!/usr/bin/env python3
"""Run the benchmark programs and compare their figures.

    run.py [--programs DIR] [--rounds N] [--peers] [--only REGEX] [--prefer] FILE
    run.py --table FILE
    run.py --check FILE

The first form runs every program once a round, so that what is compared is
measured at nearly the same time, writes one line of JSON for each figure to
FILE, and prints the other two forms' output. The second prints the table of
the medians, the third the limits. Its status is 1 if one is not met.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from fractions import Fraction
from typing import NamedTuple

SIZES = (1_000, 100_000, 1_000_000)
BOOK_SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
# No run takes longer than this on an idle machine by far.
TIME_LIMIT = 30

THREAD_SAFE = ("libevent", "tokio", "go", "jdk", "netty")
LOCKED = ("libuv", "delay_queue")
DRIVEN = ("libuv", "libevent", "tokio", "delay_queue", "hhwt")
ALL_PEERS = DRIVEN + ("go", "jdk", "netty")
IN_PLACE = ("libuv", "libevent", "tokio", "delay_queue", "go")


class Job(NamedTuple):
    """One run of a program, whose figures are filed under a workload."""

    workload: str
    n: int
    threads: int
    impl: str
    command: tuple
    once: bool = False


class Key(NamedTuple):
    """What a median is of."""

    workload: str
    figure: str
    n: int
    threads: int
    impl: str


def ours():
    """The machine's yardsticks and the library."""

    def machine(workload, n, *command):
        return Job(workload, n, 1, "machine", ("machine", *command))

    def hwheel(workload, n=1, threads=1, once=False, program=None):
        command = ("hwheel", program or workload, n, threads)
        return Job(workload, n, threads, "hwheel", command, once)

    yield machine("C", 1, "exchange", 1)
    yield hwheel("rearm")
    yield hwheel("pair")
    yield hwheel("idle")
    for n in SIZES + (10_000_000,):
        if n in SIZES:
            yield machine("C", n, "exchange", n)
            yield machine("padded", n, "padded", n)
            yield machine("update", n, "update", n)
        yield hwheel("W1a", n)
        yield hwheel("W1b", n)
    yield hwheel("W2", 100_000)
    yield hwheel("W3", 1_000_000)
    yield hwheel("W3same", 1_000_000)
    yield hwheel("W3worn", 1_000_000)
    for threads in (1, 2):
        yield hwheel("W4churn", 100_000, threads)
        yield hwheel("W4constant", 100_000, threads)
    yield hwheel("W4cross", 1, 2)
    yield machine("W5", 1, "W5")
    for tick_us in (50, 1000):
        yield machine(f"W5 {tick_us} us", 1, "W5", tick_us)
        yield Job(f"W5 {tick_us} us", 1, 1, "hwheel, descriptor", ("hwheel", "W5fd", tick_us))
        yield Job(f"W5 {tick_us} us", 1, 1, "hwheel, thread", ("hwheel", "W5thread", tick_us))
    yield hwheel("W6", 1_000_000)
    yield hwheel("W6growth", once=True)
    yield hwheel("W7", once=True)
    yield machine("clock", 1, "clock")
    for n in (1, 100_000):
        yield hwheel("W8delay", n)
        yield hwheel("W8coarse", n)
        yield hwheel("W8at", n)


def peers():
    """What a user would pick instead, and what the textbook starts from."""

    def peer(impl, workload, n=1, threads=1):
        return Job(workload, n, threads, impl, (impl, workload, n, threads))

    for n in SIZES:
        for impl in ALL_PEERS:
            yield peer(impl, "W1a", n)
        yield Job("W1a", n, 1, "tokio, dropped", ("tokio", "W1drop", n))
        for impl in IN_PLACE:
            yield peer(impl, "W1b", n)
    for impl in ALL_PEERS:
        yield peer(impl, "W2", 100_000)
        yield peer(impl, "W3", 1_000_000)
        yield peer(impl, "W6", 1_000_000)
    for impl in THREAD_SAFE + LOCKED:
        for threads in (1, 2):
            yield peer(impl, "W4churn", 100_000, threads)
            yield peer(impl, "W4constant", 100_000, threads)
    for impl in THREAD_SAFE + ("libuv",):
        yield peer(impl, "W5")
    for n in BOOK_SIZES:
        for impl, most in (("unsorted", 1_000_000), ("sorted", 10_000), ("heap", 1_000_000)):
            if n <= most:
                yield Job("W9", n, 1, impl, ("textbook", impl, "W9", n))
        yield Job("W9", n, 1, "hwheel", ("hwheel", "W9", n))


UNITS = {"bytes": "bytes", "wakeups": "wake-ups", "cpu_us": "us"}


def preferred():
    """In a new process: before what else the machine does, by weight, since a
    real-time policy would starve the helper threads of some peers. The
    scheduler weighs sessions first, then the processes in each."""
    os.setsid()
    with open("/proc/self/autogroup", "w", encoding="ascii") as autogroup:
        autogroup.write("-20")


def run(job, programs, preexec):
    """One run's figures by name, or None and why there are none."""
    program, *arguments = (str(word) for word in job.command)
    path = os.path.abspath(os.path.join(programs, program))
    if not os.path.exists(path):
        return None, "not built"
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True,
                              timeout=TIME_LIMIT, check=False, preexec_fn=preexec)
    except subprocess.TimeoutExpired:
        return None, f"longer than {TIME_LIMIT} s"
    if done.returncode != 0:
        return None, f"status {done.returncode}: {done.stderr.strip()[-200:]}"
    lines = (line.split() for line in done.stdout.splitlines())
    return {name: float(value) for name, value in lines}, None


def progress(text, stay=False):
    clear = "\r\033[K" if sys.stderr.isatty() else ""
    print(clear + text, end="\n" if stay else "", file=sys.stderr, flush=True)


def measure(jobs, programs, rounds, preexec, out):
    """All runs, round by round; what there is by then is in the file `out`."""
    runs, dropped = {}, set()
    start = time.monotonic()
    for turn in range(rounds):
        if not sys.stderr.isatty():
            progress(f"  round {turn + 1} of {rounds}", stay=True)
        for number, job in enumerate(jobs, 1):
            if job in dropped or (job.once and turn > 0):
                continue
            if sys.stderr.isatty():
                progress(f"  round {turn + 1} of {rounds}, {number} of {len(jobs)}: "
                         f"{job.impl} {job.workload} {job.n:,} x {job.threads}")
            figures, why = run(job, programs, preexec)
            if figures is None:
                dropped.add(job)
                progress(f"  SKIP    {job.impl} {job.workload} {job.n:,}: {why}", stay=True)
                continue
            for name, value in figures.items():
                key = Key(job.workload, name, job.n, job.threads, job.impl)
                runs.setdefault(key, []).append(value)
        write(runs, out)
    progress(f"  {len(runs)} figures in {time.monotonic() - start:.0f} s", stay=True)


def write(runs, path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        for key, values in runs.items():
            record = key._asdict()
            record["median"] = statistics.median(values)
            record["unit"] = UNITS.get(key.figure, "ns")
            record["runs"] = values
            out.write(json.dumps(record) + "\n")


def read(path):
    """The medians of a file, by key."""
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return {Key(*(r[name] for name in Key._fields)): r["median"] for r in records}


def number(value):
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def print_table(title, rows, columns, cell):
    """Markdown that is readable as it is."""
    lines = [[title, *(name for name, _ in columns)]]
    for row in rows:
        cells = [cell(row, column) for _, column in columns]
        if any(cells):
            lines.append([row, *cells])
    if len(lines) == 1:
        return
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(widths)])
    for line in lines:
        texts = (t.rjust(w) if i else t.ljust(w) for i, (t, w) in enumerate(zip(line, widths)))
        print("| " + " | ".join(texts) + " |")
    print()


def tables(medians):
    """Every figure; in brackets, how many times hwheel's it is."""
    impls = list(dict.fromkeys(key.impl for key in medians))

    def show(title, columns, unit=1.0):
        """Columns are (name, (workload, figure, n, threads))."""

        def cell(impl, column):
            value = medians.get(Key(*column, impl))
            base = medians.get(Key(*column, "hwheel"))
            if value is None:
                return ""
            times = f" ({value / base:.1f})" if base and impl != "hwheel" else ""
            return number(value / unit) + times

        print_table(title, impls, columns, cell)

    def by_size(workload, figure="ns"):
        sizes = sorted({key.n for key in medians if key[:2] == (workload, figure)})
        return [(f"{n:,}", (workload, figure, n, 1)) for n in sizes]

    show("The machine, ns", [
        *((f"C({n:,})", ("C", "ns", n, 1)) for n in (1, *SIZES)),
        *((f"padded({n:,})", ("padded", "ns", n, 1)) for n in SIZES[1:]),
        *((f"update({n:,})", ("update", "ns", n, 1)) for n in SIZES[1:]),
        ("clock", ("clock", "ns", 1, 1))])
    show("One timer, ns", [
        ("re-arm later", ("rearm", "ns", 1, 1)), ("cancel + arm", ("pair", "ns", 1, 1)),
        ("idle advance", ("idle", "ns", 1, 1))])
    show("W8 re-arm, ns", [
        (f"{how} ({n:,})", (f"W8{what}", "ns", n, 1)) for n in (1, 100_000)
        for how, what in (("by delay", "delay"), ("coarse", "coarse"), ("by time", "at"))])
    show("W1a cancel + arm, ns", by_size("W1a"))
    show("W1b re-arm, ns", by_size("W1b"))
    show("W2, W3, ns", [
        ("W2 refresh", ("W2", "ns", 100_000, 1)), ("W3 arm", ("W3", "arm", 1_000_000, 1)),
        ("W3 fire", ("W3", "fire", 1_000_000, 1)),
        ("one tick: arm", ("W3same", "arm", 1_000_000, 1)),
        ("fire", ("W3same", "fire", 1_000_000, 1)),
        ("worn: fire", ("W3worn", "fire", 1_000_000, 1))])
    show("W4, ns each of all threads", [
        *((f"{name} {t} thr.", (f"W4{name}", "ns", 100_000, t))
          for name in ("churn", "constant") for t in (1, 2)),
        ("cross, 2", ("W4cross", "ns", 1, 2))])
    for workload, title in (("W5 50 us", "W5 tick 50 us, us late"),
                            ("W5 1000 us", "W5 tick 1 ms, us late"),
                            ("W5", "W5 own tick, us late")):
        show(title, [(q, (workload, q, 1, 1)) for q in
                     ("min", "p10", "p50", "p90", "p99", "p999", "max")], 1000.0)
    show("W6, W7", [
        ("bytes a timer", ("W6", "bytes", 1_000_000, 1)),
        ("growth, bytes", ("W6growth", "bytes", 1, 1)),
        ("wake-ups in 10 s", ("W7", "wakeups", 1, 1)), ("CPU us in 10 s", ("W7", "cpu_us", 1, 1))])
    show("W9 cancel + arm, ns", by_size("W9", "pair"))
    show("W9 a tick, ns", by_size("W9", "tick"))


def check(medians):
    """Print every limit; whether all that were measured are met."""
    lines, missed = [], 0

    def ours_of(workload, figure="ns", n=1, threads=1, impl="hwheel"):
        return medians.get(Key(workload, figure, n, threads, impl))

    def fastest(impls, workload, figure="ns", n=1, threads=1):
        values = [(medians[Key(workload, figure, n, threads, impl)], impl) for impl in impls
                  if Key(workload, figure, n, threads, impl) in medians]
        return min(values, default=(None, "no peer"))

    def limit(what, value, base, bound, at_least=False, against=""):
        nonlocal missed
        wanted = f"{'>=' if at_least else '<='} {bound}"
        if value is None or base is None:
            lines.append((what, "", wanted, "not measured"))
            return
        ratio = value / base
        met = ratio >= bound if at_least else ratio <= bound
        missed += not met
        shown = f"{ratio:,.0f}" if base == 1 and ratio > 1000 else f"{ratio:.3g}"
        lines.append((what + against, shown, wanted, "met" if met else "NOT met"))

    def against_peer(what, value, impls, bound, **where):
        base, impl = fastest(impls, **where)
        limit(what, value, base, bound, against=f" ({impl})")

    hot = ours_of("C", impl="machine")
    limit("re-arm later, one hot timer, of C", ours_of("rearm"), hot, 1.5)
    limit("cancel + arm, one hot timer, of C", ours_of("pair"), hot, 2.4)
    for workload, bound in (("W1b", 1.5), ("W1a", 2.2)):
        for n in SIZES[1:]:
            limit(f"{workload} n = {n:,}, of C(n)", ours_of(workload, n=n),
                  ours_of("C", n=n, impl="machine"), bound)
    limit("W2, of C(100,000)", ours_of("W2", n=100_000),
          ours_of("C", n=100_000, impl="machine"), 1.3)
    limit("advance with nothing due, of C", ours_of("idle"), hot, 1)
    for figure, bound in (("fire", Fraction(1, 8)), ("arm", Fraction(1, 2))):
        against_peer(f"W3 {figure}, of the fastest peer", ours_of("W3", figure, 1_000_000),
                     ALL_PEERS, bound, workload="W3", figure=figure, n=1_000_000)
    # Resetting tokio's Sleep in place serves the purpose, so it counts here.
    for n, bound in ((100_000, Fraction(1, 8)), (1_000_000, Fraction(1, 6))):
        against_peer(f"W1a n = {n:,}, of the fastest peer", ours_of("W1a", n=n),
                     ALL_PEERS, bound, workload="W1a", n=n)
    against_peer("W4 churn, two threads, of the fastest thread-safe peer",
                 ours_of("W4churn", n=100_000, threads=2), THREAD_SAFE, Fraction(1, 15),
                 workload="W4churn", n=100_000, threads=2)
    for impl in ("descriptor", "thread"):
        for q, bound in (("p50", 1.15), ("p99", 1.5)):
            value = ours_of("W5 50 us", q, impl=f"hwheel, {impl}")
            limit(f"W5 {q}, {impl}, tick 50 us, of a raw timerfd", value,
                  ours_of("W5", q, impl="machine"), bound)
            limit(f"W5 {q}, {impl}, of a timerfd set to the same ticks", value,
                  ours_of("W5 50 us", q, impl="machine"), bound)
        limit(f"W5 minimum, {impl}, ns: never early",
              ours_of("W5 50 us", "min", impl=f"hwheel, {impl}"), 1, 0, at_least=True)
    for name in ("churn", "constant"):
        limit(f"W4 {name}, operations a second, two threads of one",
              ours_of(f"W4{name}", n=100_000), ours_of(f"W4{name}", n=100_000, threads=2),
              1.9, at_least=True)
    limit("W6 bytes a timer, of a million", ours_of("W6", "bytes", 1_000_000), 1, 72)
    limit("W6 growth in 600 simulated seconds, bytes", ours_of("W6growth", "bytes"), 1, 1 << 20)
    limit("W7 wake-ups in ten seconds", ours_of("W7", "wakeups"), 1, 0)
    rows = {line[0]: line[1:] for line in lines}
    print_table("limit", rows, [("ratio", 0), ("wanted", 1), ("", 2)],
                lambda row, column: rows[row][column])
    return missed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="build/bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="peers and textbook too")
    parser.add_argument("--only", default="", metavar="REGEX", help="of 'IMPL WORKLOAD N'")
    parser.add_argument("--prefer", action="store_true",
                        help="before other processes, for a shared machine (root)")
    parser.add_argument("--table", action="store_true", help="print the table of FILE")
    parser.add_argument("--check", action="store_true", help="print the limits of FILE")
    parser.add_argument("file", metavar="FILE")
    options = parser.parse_args()

    if not options.table and not options.check:
        jobs = [*ours(), *(peers() if options.peers else ())]
        jobs = [j for j in jobs if re.search(options.only, f"{j.impl} {j.workload} {j.n}")]
        # Alike beside alike, so that what is compared runs close in time.
        jobs.sort(key=lambda job: (job.workload, job.n, job.threads))
        preexec = preferred if options.prefer else None
        measure(jobs, options.programs, options.rounds, preexec, options.file)
    medians = read(options.file)
    if not options.check:
        tables(medians)
    if not options.table:
        met = check(medians)
        if options.check and not met:
            sys.exit(1)


if __name__ == "__main__":
    main()
