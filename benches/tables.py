"""What is measured for docs/PERFORMANCE.md: for each cell of a table its program."""

import os
from typing import NamedTuple

from measured import Side, differ, markdown, median, number, spread

# Names of the programs that a stranger understands, in the order of the tables.
OURS = {"hwheel": "hwheel", "hwheel, owned": "hwheel-owned"}
SHARED = {"hwheel": "hwheel"}
WHEELS = {"dates in the object (one thread)": "dates", "ratas (one thread)": "ratas",
          "wahern/timeout (one thread)": "wahern"}
HEAPS = {"libuv": "libuv", "libevent": "libevent-common"}
LANGUAGES = {
    "tokio, reset": "tokio", "tokio-util DelayQueue": "delay_queue",
    "hierarchical_hash_wheel_timer": "hhwt", "Go": "go", "JDK": "jdk", "JDK 25, DelayScheduler": "delay",
    "Netty": "netty",
}
EVERY = {**OURS, **WHEELS, **HEAPS, **LANGUAGES}
LOCKED = {
    "ratas, spin lock": "ratas-spin", "ratas, mutex": "ratas-mutex",
    "wahern/timeout, spin lock": "wahern-spin", "libuv, mutex": "libuv-mutex",
}
LOOP = {"the loop alone": "nothing"}
IN_PLACE = {name: program for name, program in EVERY.items()
            if program not in ("hhwt", "jdk", "delay", "netty")}
# Those that a request is measured with.
CONNECTIONS = {
    "hwheel": "hwheel", "hwheel, prefetch": "hwheel-prefetch", "hwheel, owned": "hwheel-owned",
    "hwheel, owned, prefetch": "hwheel-owned-prefetch", "dates in the object": "dates",
    "dates in the object, prefetch": "dates-prefetch", "ratas": "ratas",
    "ratas, prefetch": "ratas-prefetch", "wahern/timeout": "wahern",
    "wahern/timeout, prefetch": "wahern-prefetch", "libuv, heap": "libuv",
    "libevent, heap": "libevent", "libevent, common timeouts": "libevent-common",
    "a timerfd each": "timerfd", "nothing": "nothing",
}


# Those that several threads are measured with: program and workload.
THREADS = {
    "hwheel": "hwheel pair 1000", "hwheel, a wheel each": "hwheel-each pair 1000",
    "hwheel, an owned wheel each": "hwheel-owned-each pair 1000",
    "hwheel, an owned wheel each, messages": "hwheel-owned-each messages 1000",
    "ratas, spin lock": "ratas-spin pair 1000", "ratas, mutex": "ratas-mutex pair 1000",
    "ratas, a wheel each": "ratas-each pair 1000",
}
# As many as the machine has processors for.
COUNTS = [n for n in (1, 2, 4, 8, 16) if n <= len(os.sched_getaffinity(0))]


class Table(NamedTuple):
    """Programs in rows, their arguments in columns."""

    title: str
    # The unit of a cell, and how to read it.
    note: str
    rows: dict
    # Name of a column: arguments, figure.
    columns: dict
    unit: float = 1.0
    # The row whose multiple is shown in brackets.
    base: str = ""
    # The row from which the difference is shown in brackets.
    less: str = ""
    # Programs with arguments that would take too long.
    leave: tuple = ()

    def side(self, row, column):
        arguments, figure = self.columns[column]
        return Side(f"{self.rows[row]} {arguments}".strip(), figure)

    def sides(self):
        # Column by column: what is compared runs one after the other.
        sides = [self.side(row, column) for column in self.columns for row in self.rows]
        return [side for side in sides if side.command not in self.leave]

    def text(self, runs):
        lines = [("", *self.columns)]
        alike = {column: self.alike(runs, column) for column in self.columns}
        for row in self.rows:
            cells = []
            for column in self.columns:
                value = median(runs, self.side(row, column))
                base = median(runs, self.side(self.base, column)) if self.base else None
                times = f" ({number(value / base)})" if value and base and row != self.base else ""
                cells.append("" if value is None else
                             ("~" if row in alike[column] else "") + number(value / self.unit) +
                             self.plus_minus(runs, row, column) + times +
                             self.difference(runs, row, column))
            if any(cells):
                lines.append((row, *cells))
        if len(lines) == 1:
            return ""
        return f"{self.title}. {self.note}\n\n{markdown(lines)}"


    def plus_minus(self, runs, row, column):
        values = runs[self.side(row, column)]
        return f" ±{number(spread(values) / 2 / self.unit)}" if len(values) > 1 else ""

    def difference(self, runs, row, column):
        sides = [self.side(one, column) for one in (row, self.less)] if self.less else []
        if not sides or row == self.less or any(side not in runs for side in sides):
            return ""
        if not differ(*(runs[side] for side in sides)):
            return " (none)"
        more = median(runs, sides[0]) - median(runs, sides[1])
        return f" ({'+' if more > 0 else ''}{number(more)})"

    def alike(self, runs, column):
        """The rows of which another one has a figure that is as good."""
        there = sorted((row for row in self.rows if self.side(row, column) in runs),
                       key=lambda row: median(runs, self.side(row, column)))
        pairs = [pair for pair in zip(there, there[1:])
                 if (values := [runs[self.side(row, column)] for row in pair])
                 and min(map(len, values)) > 1 and not differ(*values)]
        return {row for pair in pairs for row in pair}


def sizes(workload, *counts, figure="ns"):
    return {f"{n:,}": (f"{workload} {n}", figure) for n in counts}


THOUSAND, MILLION = 1_000, 1_000_000
TIMES = "In brackets: times the figure of hwheel."
LATE = ("min", "p10", "p50", "p90", "p99", "max")

# As many connections as the limit of open files allows, up to these. To open 15,000 takes longer
# than all that is measured.
def server(program, descriptors=1, loops=1):
    return f"server/load {program} 5000 0.6 {descriptors} {loops}"


SERVERS = {
    "nothing": server("nothing"), "hwheel": server("hwheel"),
    "hwheel, prefetch": server("hwheel-prefetch"), "hwheel, owned": server("hwheel-owned"),
    "hwheel, owned, prefetch": server("hwheel-owned-prefetch"),
    "dates in the object": server("dates"), "ratas": server("ratas"),
    "wahern/timeout": server("wahern"), "libuv, heap": server("libuv"),
    "libevent, heap": server("libevent"), "libevent, common timeouts": server("libevent-common"),
    "a timerfd each": server("timerfd", 2),
}
SERVERS_TWO = {
    "nothing": server("nothing", loops=2), "hwheel, one wheel": server("hwheel", loops=2),
    "hwheel, a wheel each": server("hwheel-each", loops=2),
    "hwheel, an owned wheel each": server("hwheel-owned-each", loops=2),
    "ratas, one wheel, spin lock": server("ratas-spin", loops=2),
    "ratas, a wheel each": server("ratas-each", loops=2),
}
MIXES = {"all talk": 100, "a tenth": 10}


# By the name of their mark in the page, in its order.
TABLES = {
    "request": Table(
        "Timers in a request", "Nanoseconds above the same request without timers, by the number "
        "of connections. The last column: with a real read and write in place of the walk.",
        CONNECTIONS, {f"{n:,}": (f"request {n}", "timers")
                      for n in (THOUSAND, 10_000, 100_000, MILLION)} | {
            "100,000, real": ("request-socket 100000", "timers")},
        leave=tuple(f"{p} request {MILLION}" for p in ("timerfd",))),
    "touched": Table(
        "How much of a first-level cache a read and a write replace",
        "Nanoseconds to follow a chain of 256 cache lines, which fill half of the cache, after "
        "each of these.", {"the chain": "machine"},
        {"nothing": ("touched", "nothing"), "a walk over 16 kB": ("touched", "walk@16"),
         "32 kB": ("touched", "walk@32"), "128 kB": ("touched", "walk@128"),
         "a read and a write": ("touched", "request")}),
    "server": Table(
        "An echo server with one loop", "Nanoseconds of the server's processor time, kernel "
        "included, and those of them in timers, by the share of the connections that talk. In "
        "brackets: the difference from the server without timers, \"none\" if it is below the noise.",
        SERVERS, {f"{what}, {mix}": ("", f"{figure}@{n}") for mix, n in MIXES.items()
                  for what, figure in (("a request", "request"), ("in timers", "timers"))},
        less="nothing"),
    "server-two": Table(
        "An echo server with two loops", "As above.",
        SERVERS_TWO, {f"{what}, {mix}": ("", f"{figure}@{n}") for mix, n in MIXES.items()
                      for what, figure in (("a request", "request"), ("in timers", "timers"))},
        less="nothing"),
    "server-idle": Table(
        "The server while nobody talks", "Idle timeouts of ten seconds expire and are armed "
        "again. Lateness in microseconds; below zero is early.",
        SERVERS, {"connections": ("", "connections"), "wake-ups a second": ("", "wakeups@0"),
                  "processor, us a second": ("", "processor@0"),
                  "bytes a connection": ("", "user")}),
    "two": Table(
        "Two threads on one wheel, each with its own timers",
        "Nanoseconds for each operation of both threads together: half of what a thread waits "
        "for its own.",
        {**SHARED, **LOCKED, "libevent": "libevent", "tokio": "tokio",
         "DelayQueue, mutex": "delay_queue", "Go": "go", "JDK": "jdk",
         "JDK 25, DelayScheduler": "delay", "Netty": "netty"}, {
            "cancel and arm, 100,000: one thread": ("pair 100000", "ns"),
            "two": ("pair 100000 2", "ns"),
            "1,000: one": ("pair 1000", "ns"),
            "two ": ("pair 1000 2", "ns")}),
    "threads": Table(
        "Several threads cancel and arm timers. Each thread has 1,000 timers",
        "The columns are numbers of threads. Each figure is the elapsed time in nanoseconds, divided "
        "by the number of operations of all threads. In the row with messages, each thread also drives "
        "its wheel. With every sixteenth operation, it sends a timer to the wheel of another thread.",
        THREADS,
        {f"{n}": (f"{n}", "ns") for n in COUNTS}),
    "ticks": Table(
        "A tick in which one timer is due", "Nanoseconds to arm it and pass the tick, by the "
        "number of threads that hold timers.", SHARED,
        {f"{n}": (f"tick 1 {n}", "ns") for n in (1, 16, 256)}),
    "lines": Table(
        "Cache lines that an operation writes",
        "\"Own\" are lines that only its own thread uses; \"others\", lines that the other "
        "threads' operations also use; \"driver\", lines that the thread that advances time "
        "also uses.",
        {"hwheel": "lines hwheel", "ratas, spin lock": "lines ratas-spin",
         "wahern/timeout, spin lock": "lines wahern-spin", "libuv, spin lock": "lines libuv-spin"},
        {f"{what}: {who}": ("", f"{turn}_{who}")
         for turn, what in (("arm", "arm"), ("rearm", "re-arm"), ("cancel", "cancel"))
         for who in ("own", "driver", "others")} | {"fire: others": ("", "fire_others")}),
    "memory": Table(
        "Memory", "Bytes of a pending timer, without the caller's handle or object. A page of "
        "2 MiB is counted whole.",
        EVERY, {"one of 100,000": ("memory 100000", "bytes"),
                "of 1,000,000": ("memory 1000000", "bytes"),
                "driven": ("memory 1000000", "driven"),
                "after a minute of use": ("memory 1000000", "worn"),
                "a wheel with one": ("memory 1", "bytes")}),
    "lateness": Table(
        "Lateness of 1,000 timers within a second", "Microseconds after the deadline; below zero "
        "is early. hwheel and the first timerfd have ticks of 50 us, the others their own.",
        {"timerfd, the same ticks": "machine lateness 50",
         "hwheel, descriptor": "hwheel lateness 50",
         "hwheel, own thread": "hwheel lateness-thread 50",
         "timerfd, no ticks": "machine lateness 0", "hwheel, tick of 1 ms": "hwheel lateness 1000",
         "libuv": "libuv lateness 1", "libevent": "libevent-common lateness 1",
         "tokio": "tokio lateness", "Go": "go lateness", "JDK": "jdk lateness",
         "JDK 25, DelayScheduler": "delay lateness",
         "Netty": "netty lateness"},
        {q: ("", q) for q in LATE}, 1000.0),
    "pair": Table(
        "Cancel a random timer and arm it again", f"Nanoseconds a pair. {TIMES}",
        {**EVERY, **LOOP}, sizes("pair", THOUSAND, 100_000, MILLION), base="hwheel"),
    "rearm": Table(
        "Re-arm a random timer in place", f"Nanoseconds. {TIMES}", {**IN_PLACE, **LOOP},
        sizes("rearm", THOUSAND, 100_000, MILLION), base="hwheel"),
    "cycle": Table(
        "Arm all timers, and fire them tick by tick", f"Nanoseconds a timer. {TIMES}",
        {**OURS, **WHEELS, "libuv": "libuv", "libevent": "libevent", "tokio, reset": "tokio"},
        {f"{what}, {n:,}": (f"cycle {n}", what) for what in ("arm", "fire")
         for n in (THOUSAND, 100_000, MILLION)}, base="hwheel"),
    "others": Table(
        "Other loops", f"Nanoseconds. {TIMES}", {**OURS, **WHEELS, **HEAPS}, {
            "refresh one of 100,000": ("refresh 100000", "ns"),
            "fire and re-arm, 100,000": ("heartbeat 100000", "ns"),
            "sixteen in a call, 1,000,000": ("batch 1000000", "ns")}, base="hwheel"),
    "machine": Table("The machine's own prices", "Nanoseconds.", {"the machine": "machine"}, {
        "compare-exchange of one line": ("exchange 1", "ns"),
        "of one of 100,000 lines": ("exchange 100000", "ns"),
        "plain update of one of 100,000": ("update 100000", "ns"),
        "clock": ("clock", "ns"),
        "a line that two threads write": ("contended 2", "ns")}),
}


# What more processors would bring, predicted from what one operation shares.
#
# An operation of a thread takes t nanoseconds if nobody else is there, and it writes w
# lines that operations of other threads write as well. Such a line is at one processor
# at a time and takes c nanoseconds to move. So n threads need at least t / n, and at
# least w * c, for each operation of all.
CORES = (1, 2, 8, 64, 256)
# Name: the program that is timed, and the one whose lines are counted.
KINDS = {
    "hwheel": "hwheel",
    "ratas, spin lock": "ratas-spin",
    "wahern/timeout, spin lock": "wahern-spin",
    "libuv, spin lock": "libuv-spin",
}
# Cancel and arm, 1,000 timers a thread.
WORK, PARTS = "pair 1000", ("cancel", "arm")


def time_of_one(runs, program):
    return median(runs, Side(f"{program} {WORK}"))


def shared(runs, program):
    """The lines that one operation writes and other threads use."""
    parts = [median(runs, Side(f"lines {program}", f"{part}_others")) for part in PARTS]
    return None if None in parts else sum(parts)


def predicted(runs, program, cores):
    """Millions of operations a second."""
    t, w = time_of_one(runs, program), shared(runs, program)
    c = median(runs, Side("machine contended 2"))
    if None in (t, w, c):
        return None
    return 1000 / (t if cores == 1 else max(t / cores, w * c))


def prediction(runs):
    lines = [("cancel and arm, millions a second", "lines shared", "one thread, measured",
              "two, measured", *(f"{n}, predicted" for n in CORES[1:]))]
    for name, program in KINDS.items():
        two = median(runs, Side(f"{program} {WORK} 2"))
        one = time_of_one(runs, program)
        lines.append((name, number(shared(runs, program)), number(1000 / one) if one else "",
                      number(1000 / two) if two else "",
                      *(number(predicted(runs, program, n)) for n in CORES[1:])))
    return markdown(lines)
