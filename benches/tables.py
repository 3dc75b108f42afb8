"""The tables of docs/FIGURES.md: for each cell the program that prints it."""

from typing import NamedTuple

from run import Side, markdown, median, number

# Names of the programs that a stranger understands, in the order of the tables.
OURS = {"hwheel": "hwheel", "hwheel, handle at hand": "hwheel-hand"}
WHEELS = {"ratas (one thread)": "ratas", "wahern/timeout (one thread)": "wahern"}
OTHERS = {
    "libuv": "libuv", "libevent": "libevent", "tokio, reset": "tokio",
    "tokio-util DelayQueue": "delay_queue", "hierarchical_hash_wheel_timer": "hhwt",
    "Go": "go", "JDK": "jdk", "Netty": "netty",
}
LOCKED = {
    "ratas, spin lock": "ratas-spin", "ratas, mutex": "ratas-mutex",
    "wahern/timeout, spin lock": "wahern-spin", "wahern/timeout, mutex": "wahern-mutex",
    "libuv, spin lock": "libuv-spin", "libuv, mutex": "libuv-mutex",
}
LOOP = {"the loop alone": "nothing"}
EVERY = {**OURS, **WHEELS, **OTHERS}
IN_PLACE = {name: program for name, program in EVERY.items()
            if program not in ("hhwt", "jdk", "netty")}


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
        for row in self.rows:
            cells = []
            for column in self.columns:
                value = median(runs, self.side(row, column))
                base = median(runs, self.side(self.base, column)) if self.base else None
                times = f" ({number(value / base)})" if value and base and row != self.base else ""
                cells.append("" if value is None else number(value / self.unit) + times)
            if any(cells):
                lines.append((row, *cells))
        if len(lines) == 1:
            return ""
        return f"### {self.title}\n\n{self.note}\n\n{markdown(lines)}"


def sizes(workload, *counts, figure="ns"):
    return {f"{n:,}": (f"{workload} {n}", figure) for n in counts}


THOUSAND, MILLION = 1_000, 1_000_000
TIMES = "In brackets: times the figure of hwheel."

TABLES = [
    Table("The machine's own prices", "Nanoseconds.", {"the machine": "machine"}, {
        "compare-exchange of one line": ("exchange 1", "ns"),
        "compare-exchange of one of 100,000 lines": ("exchange 100000", "ns"),
        "compare-exchange of one of 1,000,000": ("exchange 1000000", "ns"),
        "plain update of one of 100,000": ("update 100000", "ns"),
        "plain update of one of 1,000,000": ("update 1000000", "ns"),
        "clock": ("clock", "ns"),
        "a line that two threads write": ("contended 2", "ns")}),
    Table("Cancel a random timer and arm it again",
          f"Nanoseconds a pair, by the number of timers. {TIMES}", {**EVERY, **LOOP},
          sizes("pair", THOUSAND, 100_000, MILLION), base="hwheel"),
    Table("Re-arm a random timer in place",
          f"Nanoseconds, by the number of timers. {TIMES}", {**IN_PLACE, **LOOP},
          sizes("rearm", THOUSAND, 100_000, MILLION), base="hwheel"),
    Table("Re-arm sixteen random timers in one call", "Nanoseconds a timer.", OURS,
          sizes("batch", THOUSAND, 100_000, MILLION)),
    Table("Refresh the idle timeout of one of 100,000 connections",
          f"Nanoseconds. {TIMES}", {**EVERY, **LOOP}, sizes("refresh", 100_000), base="hwheel"),
    Table("Arm timers that exist", f"Nanoseconds, by the number of timers. {TIMES}",
          {"hwheel": "hwheel", **WHEELS, **OTHERS},
          sizes("cycle", THOUSAND, 100_000, MILLION, figure="arm"), base="hwheel"),
    Table("Fire all timers, tick by tick, with their callbacks",
          f"Nanoseconds a timer, the ticks included. {TIMES}",
          {"hwheel": "hwheel", **WHEELS, **OTHERS},
          sizes("cycle", THOUSAND, 100_000, MILLION, figure="fire"),
          base="hwheel"),
    Table("Timers that fire and arm themselves again in the callback",
          "Nanoseconds a timer fired, the ticks included. Random: delays of up to a second, "
          "and one in ten is moved before it fires. First in, first out: each waits for one "
          f"second. {TIMES}", {"hwheel": "hwheel", **WHEELS, "libuv": "libuv",
                               "libevent": "libevent"}, {
              "random, 1,000": ("heartbeat 1000", "ns"),
              "random, 100,000": ("heartbeat 100000", "ns"),
              "random, 1,000,000": ("heartbeat 1000000", "ns"),
              "first in, first out, 100,000": ("fifo 100000", "ns")}, base="hwheel"),
    Table("Ten million timers", f"Nanoseconds. {TIMES}", {"hwheel": "hwheel", **WHEELS}, {
        "cancel and arm": ("pair 10000000", "ns"), "re-arm": ("rearm 10000000", "ns"),
        "arm": ("cycle 10000000", "arm"), "fire": ("cycle 10000000", "fire")}, base="hwheel"),
    Table("A wheel worn by five million random moves",
          "Nanoseconds, 100,000 timers; the last column 1,000,000.",
          {"hwheel": "hwheel", **WHEELS}, {
              "re-arm": ("rearm 100000 1 5000000", "ns"),
              "cancel and arm": ("pair 100000 1 5000000", "ns"),
              "refresh": ("refresh 100000 1 5000000", "ns"),
              "fire": ("cycle 100000 1 5000000", "fire"),
              "fire and re-arm": ("heartbeat 100000 1 5000000", "ns"),
              "fire, 1,000,000": ("cycle 1000000 1 5000000", "fire")}, base="hwheel"),
    Table("Two threads on one wheel, each with its own timers",
          "Nanoseconds for each operation of both threads together: half of what a thread "
          f"waits for its own. {TIMES}",
          {"hwheel": "hwheel", **LOCKED, "libevent": "libevent", "tokio": "tokio",
           "DelayQueue, mutex": "delay_queue", "Go": "go", "JDK": "jdk", "Netty": "netty"}, {
              "cancel and arm, 100,000: one thread": ("pair 100000", "ns"),
              "two": ("pair 100000 2", "ns"),
              "1,000: one": ("pair 1000", "ns"),
              "two ": ("pair 1000 2", "ns"),
              "arm for 30 s and cancel: one": ("constant 100000", "ns"),
              "two  ": ("constant 100000 2", "ns")}, base="hwheel"),
    Table("One thread arms, the other cancels", "Nanoseconds a timer.", {"hwheel": "ours"},
          {"made, armed, handed over, cancelled": ("cross", "ns")}),
    Table("A tick with one timer due, beside threads that hold timers",
          "Nanoseconds to arm a timer and pass the tick, by the number of threads.",
          {"hwheel": "hwheel"},
          {str(n): (f"tick 1 {n}", "ns") for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)}),
    Table("Passing time", "", {"hwheel": "hwheel"}, {
        "a tick with nothing due, ns": ("idle", "ns"),
        "2^60 ticks with nothing due, 16 threads, us": ("leap 1 16", "us")}),
    Table("Cache lines that an operation writes",
          "Counted from a trace of all accesses, in which two threads work on timers of their "
          "own and a third advances time; for a fire by the timer. \"Others\" are lines that the "
          "other threads' operations also use: they limit how far the work can be spread. "
          "\"Driver\" are lines that the thread that advances time also uses.",
          {"hwheel": "lines hwheel", "ratas, spin lock": "lines ratas-spin",
           "wahern/timeout, spin lock": "lines wahern-spin", "libuv, spin lock": "lines libuv-spin"},
          {f"{what}: {who}": ("", f"{turn}_{who}")
           for turn, what in (("arm", "arm"), ("rearm", "re-arm"), ("cancel", "cancel"))
           for who in ("own", "driver", "others")} | {"fire: others": ("", "fire_others")}),
    Table("Re-arm by a delay or by a time", "Nanoseconds, one timer on the monotonic clock.",
          {"hwheel": "ours"}, {
              "by a delay (reads the clock)": ("by-delay", "ns"),
              "by a time": ("by-time", "ns")}),
    Table("Memory", "Bytes of a pending timer, without the caller's handle or object. A page of "
          "2 MiB is counted whole.",
          {"hwheel": "hwheel", **WHEELS, **OTHERS}, {
              "one of 100,000": ("memory 100000", "bytes"),
              "of 1,000,000": ("memory 1000000", "bytes")}),
    Table("A wheel with one timer", "Bytes resident.", {"hwheel": "hwheel"},
          {"bytes": ("memory 1", "bytes")}),
    Table("Growth", "100,000 timers a second are armed for 300 s and cancelled, for 600 "
          "seconds of a manual clock.", {"hwheel": "ours"},
          {"bytes more than after the first second": ("growth", "bytes")}),
    Table("Lateness of 1,000 timers within a second, tick of 50 us",
          "Microseconds after the deadline; below zero is early. The raw timerfd is set to the "
          "same ticks.",
          {"raw timerfd": "machine lateness 50", "hwheel, descriptor": "hwheel lateness 50",
           "hwheel, own thread": "hwheel lateness-thread 50"},
          {q: ("", q) for q in ("min", "p10", "p50", "p90", "p99", "max")}, 1000.0),
    Table("Lateness of 1,000 timers within a second, own tick of each",
          "Microseconds after the deadline; below zero is early. A raw timerfd is set to each "
          "deadline in turn; the tick of hwheel is 1 ms.",
          {"raw timerfd": "machine lateness 0", "hwheel, descriptor": "hwheel lateness 1000",
           "hwheel, own thread": "hwheel lateness-thread 1000", "libuv": "libuv lateness 1",
           "libevent": "libevent lateness 1", "tokio": "tokio lateness", "Go": "go lateness",
           "JDK": "jdk lateness", "Netty": "netty lateness"},
          {q: ("", q) for q in ("min", "p10", "p50", "p90", "p99", "max")}, 1000.0),
    Table("Ten seconds with one timer a minute away", "", {"hwheel": "ours"}, {
        "wake-ups": ("sleeping", "wakeups"),
        "processor time, us": ("sleeping", "cpu_us")}),
    Table("Lists, a heap and the wheel: cancel and arm",
          "Nanoseconds a pair, by the number of timers.",
          {"unsorted list": "unsorted", "sorted list": "sorted", "binary heap": "heap",
           "hwheel": "hwheel"}, sizes("book", 100, 1_000, 10_000, 100_000, figure="pair"),
          leave=("sorted book 100000",)),
    Table("Lists, a heap and the wheel: pass a tick",
          "Nanoseconds a tick after 1,000 pairs, by the number of timers.",
          {"unsorted list": "unsorted", "sorted list": "sorted", "binary heap": "heap",
           "hwheel": "hwheel"}, sizes("book", 100, 1_000, 10_000, 100_000, figure="tick"),
          leave=("sorted book 100000",)),
]

# As many connections as the limit of open files allows, up to 50,000.
SERVERS = {name: f"server/load {program} 50000 2 {descriptors}" for name, program, descriptors in (
    ("no timers", "none", 1), ("hwheel", "hwheel", 1), ("libuv, heap", "libuv", 1),
    ("libevent, heap", "libevent", 1), ("libevent, common timeouts", "libevent-common", 1),
    ("a timerfd each", "timerfd", 2))}
MIXES = {"all": 100, "half": 50, "a tenth": 10, "a hundredth": 1, "none": 0}


def by_mix(figure, *without):
    return {f"{mix} talk": ("", f"{figure}@{n}") for mix, n in MIXES.items() if mix not in without}


SERVER = [
    Table("Server: processor time a request",
          "Microseconds of the server, kernel included, by the share of the connections that "
          "talk. A request is a read, a write, a deadline armed and cancelled, and an idle "
          "timeout refreshed. In brackets: times the figure without timers.",
          SERVERS, by_mix("request", "none"), 1000.0, "no timers"),
    Table("Server: share of its processor time in timers",
          "Per cent, sampled from the other core.", SERVERS, by_mix("share", "none")),
    Table("Server: time in timers a request",
          f"Nanoseconds: the share of the processor time. {TIMES}", SERVERS,
          by_mix("timers", "none"), base="hwheel"),
    Table("Server: requests a second",
          "64 under way at any time. The load generator needs more time for a request than "
          "the server.", SERVERS, by_mix("requests", "none")),
    Table("Server: nobody talks", "Idle timeouts of ten seconds expire and are armed again.",
          SERVERS, {
              "connections": ("", "connections"),
              "expired a second": ("", "expired@0"),
              "wake-ups a second": ("", "wakeups@0"),
              "processor time, us a second": ("", "processor@0")}),
    Table("Server: lateness of idle timeouts",
          "Microseconds after the deadline; below zero is early.", SERVERS, {
              f"{what}, {mix}": ("", f"{figure}@{n}")
              for mix, n in (("nobody talks", 0), ("a tenth talk", 10))
              for what, figure in (("least", "least"), ("median", "p50"), ("p99", "p99"))}, 1000.0),
    Table("Server: memory of a connection",
          "Bytes. The kernel's memory is that of both ends of the connection.", SERVERS, {
              "of the server": ("", "user"), "of the kernel": ("", "kernel")}),
]
