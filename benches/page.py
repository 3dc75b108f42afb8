#!/usr/bin/env python3
"""Write what was measured: page.py FIGURES PAGE PLOTS

In PAGE (docs/PERFORMANCE.md) the tables between two marks are replaced. PLOTS gets six
plots, if matplotlib is installed.
"""

import pathlib
import re
import sys
import textwrap

import limits
import tables
from measured import Side, machine, markdown, median, number, read

# Okabe and Ito's colours, told apart with any kind of colour vision, and markers. The
# library has its colour in every plot, and nothing else has it.
STYLES = {
    "hwheel": ("#000000", "o"), "ratas": ("#D55E00", "d"), "wahern": ("#CC79A7", "v"),
    "libuv": ("#56B4E9", "^"), "libevent": ("#E69F00", "x"), "tokio": ("#009E73", "+"),
    "timerfd": ("#0072B2", "s"), "nothing": ("#999999", "p"),
}
WIDTH = 6.2


def rate(runs, command):
    """Millions of operations a second."""
    ns = median(runs, Side(command))
    return number(1000 / ns) if ns else "?"


def answer(runs):
    """Ten lines that say who should use the library."""
    def of(command, figure="ns", unit=1):
        value = median(runs, Side(command, figure))
        return number(value / unit) if value is not None else "?"

    def timers(program, n):
        return of(f"{program} request {n}", "timers")

    in_timers = {name: of(tables.SERVERS[name], "timers@100") for name in tables.SERVERS}
    whole = of(tables.SERVERS["hwheel"], "request@100")
    two = "pair 100000 2"
    return "\n".join(textwrap.fill(text, 96, subsequent_indent="  ") for text in [
        f"- **Several threads use the same timers: yes.** Two threads do {rate(runs, 'hwheel ' + two)} "
        f"million pairs of cancel and arm a second, one does {rate(runs, 'hwheel pair 100000')}. With "
        f"ratas behind a spin lock two do {rate(runs, 'ratas-spin ' + two)}, one "
        f"{rate(runs, 'ratas-spin pair 100000')}.",
        f"- **A server with one loop, and a heap of libuv or libevent: yes, if it has thousands of "
        f"timers.** With 100,000 connections a request pays {timers('hwheel-prefetch', 100000)} ns "
        f"with a prefetch and {timers('hwheel', 100000)} ns without, instead of "
        f"{timers('libuv', 100000)} ns in libuv's heap, and {timers('libevent-common', 100000)} ns "
        "in libevent's common timeouts.",
        f"- **A server with one loop, and nanoseconds that matter: no.** ratas, a wheel for one "
        f"thread inside your objects, takes {timers('ratas', 100000)} ns. Use this library then for "
        "its handles (a stale one is an error), its sleep without wake-ups, or its bindings.",
        f"- **A timerfd for each connection: yes.** The timerfds take {timers('timerfd', 1000)} ns with 1,000 "
        "connections.",
        f"- **Most servers do not notice.** Of some {whole} ns of processor time that the echo server "
        f"of this page spends on a request, {in_timers['hwheel']} are in timers; with ratas "
        f"{in_timers['ratas']}, with libuv's heap {in_timers['libuv, heap']}.",
        "- **A hundred timers: no.** Use the timers of your event loop.",
        f"- **Memory.** A pending timer takes {of('hwheel memory 1000000', 'bytes')} bytes before its "
        f"wheel is first driven, {of('hwheel memory 1000000', 'driven')} when it is driven, and "
        f"{of('hwheel memory 1000000', 'worn')} after a minute of use; in ratas it takes "
        f"{of('ratas memory 1000000', 'bytes')}. A wheel with one timer takes "
        f"{of('hwheel memory 1', 'bytes', 1000)} kB. Memory follows the number of live timers.",
        "- **Lateness.** Never early. With ticks of 50 us the median is "
        f"{of('hwheel lateness 50', 'p50', 1000)} us, that of a timerfd "
        f"{of('machine lateness 50', 'p50', 1000)}.",
        f"- **Loops over random timers.** One thread pays {of('hwheel pair 100000')} ns to cancel and "
        f"arm one of 100,000, {of('ratas pair 100000')} with ratas, {of('libuv pair 100000')} with "
        "libuv.",
        f"- **Where it loses** stands with each table. {kept_of(limits.rows(), runs)} of the limits that "
        "this project has set itself are kept.",
    ]) + "\n"


def kept_of(rows, runs):
    """How many of the limits are kept."""
    kept = sum(1 for row in rows if (v := row.value(runs)) is not None and row.keeps(v))
    return f"{kept} of {len(rows)}"


def parts(runs):
    """The text of each mark of the page."""
    found = {name: table.text(runs) for name, table in tables.TABLES.items()}
    found["answer"] = answer(runs)
    rows = limits.rows()
    found["limits"] = f"{kept_of(rows, runs)} are kept.\n\n{limits.table(runs)[0]}"
    found["why"] = markdown([("limit", "why"), *((row.what, row.why) for row in rows)], left=(0, 1))
    found["prediction"] = tables.prediction(runs)
    found["machine-prices"] = found.pop("machine")
    found["machine"] = machine()
    return found


def fill(page, runs):
    text = page.read_text(encoding="utf-8")
    for name, part in parts(runs).items():
        text, n = re.subn(rf"(<!-- {name} -->\n).*?(<!-- end -->)",
                          lambda m, p=part: f"{m[1]}\n{p or 'Not measured.'}\n{m[2]}",
                          text, flags=re.DOTALL)
        if n != 1:
            print(f"  {page} has no marks for {name}")
    page.write_text(text, encoding="utf-8")


def style(program):
    """Colour and marker of a program: those of its library."""
    return STYLES[program.removeprefix("server/load ").split("-")[0].split()[0]]


def line(axes, runs, name, program, points, dashed=False):
    points = [(x, median(runs, side)) for x, side in points]
    points = [(x, y) for x, y in points if y is not None]
    if points:
        colour, marker = style(program)
        axes.plot(*zip(*points), color=colour, marker=marker, markersize=5, linewidth=1.5,
                  linestyle="--" if dashed else "-", label=name, clip_on=False, zorder=3)


def legend_outside(axes):
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)


def request(plt, runs):
    """What timers add to a request."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.4))
    for name in ("hwheel", "hwheel, prefetch", "ratas", "ratas, prefetch", "wahern/timeout",
                 "libuv, heap", "libevent, common timeouts", "a timerfd each"):
        program = tables.CONNECTIONS[name]
        line(axes, runs, name, program,
             [(n, Side(f"{program} request {n}", "timers"))
              for n in (1_000, 10_000, 100_000, 1_000_000)], "prefetch" in name)
    axes.set(xscale="log", yscale="log", xlabel="connections", ylabel="nanoseconds",
             title="What timers add to a request: lower is better")
    legend_outside(axes)
    return figure


def bars(axes, rows, label):
    """Horizontal bars: (name, program, value)."""
    rows = [row for row in rows if row[2] is not None]
    axes.barh(range(len(rows)), [value for *_, value in rows], 0.7,
              color=[style(program)[0] for _, program, _ in rows])
    axes.set(yticks=range(len(rows)), yticklabels=[name for name, *_ in rows], xlabel=label)
    axes.invert_yaxis()
    for i, (*_, value) in enumerate(rows):
        axes.annotate(" " + number(value), (value, i), va="center", fontsize=8)
    axes.margins(x=0.15)


def server(plt, runs):
    """Time in timers of a request of the server."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.4))
    both = [(name + ", one loop", program) for name, program in tables.SERVERS.items()]
    both += [(name + ", two loops", program) for name, program in tables.SERVERS_TWO.items()]
    bars(axes, [(name, program, median(runs, Side(program, "timers@100")))
                for name, program in both], "nanoseconds in timers a request, all talk")
    axes.set_title("An echo server: lower is better")
    return figure


def threads(plt, runs):
    """One thread and two on one wheel."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.6))
    rows = []
    for name, program in {"hwheel": "hwheel", **tables.LOCKED, "libevent": "libevent",
                          "tokio": "tokio"}.items():
        for count, text in (("", "one thread"), (" 2", "two")):
            ns = median(runs, Side(f"{program} pair 100000{count}"))
            rows.append((f"{name}: {text}", program, 1000 / ns if ns else None))
    bars(axes, rows, "million pairs of cancel and arm a second, 100,000 timers a thread")
    axes.set_title("Does a second thread help? Higher is better")
    return figure


def lateness(plt, runs):
    """How late timers fire on a real clock."""
    shares = {"min": 0, "p1": 1, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p99": 99}
    figure, axes = plt.subplots(figsize=(WIDTH, 4.2))
    for name, program, command, dashed in (
            ("hwheel, tick of 50 us", "hwheel", "hwheel lateness 50", False),
            ("timerfd, the same ticks", "timerfd", "machine lateness 50", False),
            ("hwheel, tick of 1 ms", "hwheel", "hwheel lateness 1000", True),
            ("libuv", "libuv", "libuv lateness 1", False),
            ("libevent", "libevent", "libevent-common lateness 1", False),
            ("tokio", "tokio", "tokio lateness", False)):
        points = [(share, median(runs, Side(command, q))) for q, share in shares.items()]
        points = [(share, value / 1000) for share, value in points if value is not None]
        if points:
            colour, marker = style(program)
            # The lines of the same ticks lie on each other: one is broad, below the other.
            broad = program == "timerfd"
            axes.plot(*zip(*points), color=colour, marker=marker, markersize=8 if broad else 4,
                      linewidth=4 if broad else 1.5, label=name, clip_on=False,
                      linestyle="--" if dashed else "-", zorder=2 if broad else 3)
    axes.axhline(0, color="#666666", linewidth=0.8)
    axes.set(xlabel="per cent of the timers", ylabel="microseconds late, at most",
             yscale="symlog", title="Lateness on a real clock: below zero is early")
    legend_outside(axes)
    return figure


def loops(plt, runs):
    """What an operation costs in a loop as the number of timers grows."""
    figure, grid = plt.subplots(2, 1, figsize=(WIDTH, 6.4), sharex=True)
    for axes, title, side in (
            (grid[0], "Cancel a random timer and arm it again", lambda p, n: Side(f"{p} pair {n}")),
            (grid[1], "Fire, tick by tick", lambda p, n: Side(f"{p} cycle {n}", "fire"))):
        for name, program in {**tables.OURS, **tables.WHEELS, "libuv": "libuv",
                              "libevent": "libevent", "tokio": "tokio"}.items():
            line(axes, runs, name, program,
                 [(n, side(program, n)) for n in (1_000, 100_000, 1_000_000)])
        axes.set(title=title, xscale="log", yscale="log", ylabel="nanoseconds")
    grid[1].set_xlabel("pending timers")
    legend_outside(grid[1])
    return figure


def prediction(plt, runs):
    """What more processors would bring."""
    cores = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    figure, axes = plt.subplots(figsize=(WIDTH, 4))
    for name, program in tables.KINDS.items():
        values = [tables.predicted(runs, program, n) for n in cores]
        if None not in values:
            colour, marker = style(program)
            axes.plot(cores, values, color=colour, marker=marker, label=name, clip_on=False)
    axes.set(xscale="log", yscale="log", xticks=cores, xticklabels=cores,
             xlabel="threads, each on a processor of its own", ylabel="million pairs a second",
             title="Cancel and arm on more processors: a prediction")
    axes.minorticks_off()
    legend_outside(axes)
    return figure


def draw(runs, directory):
    try:
        import matplotlib
    except ImportError:
        print("  SKIP    plots: no matplotlib; Debian: python3-matplotlib")
        return
    matplotlib.use("svg")
    # A second run with these figures writes the same bytes.
    matplotlib.rcParams.update({
        "svg.hashsalt": "hwheel", "svg.fonttype": "none", "font.size": 10, "axes.grid": True,
        "grid.alpha": 0.3, "axes.axisbelow": True, "font.family": "sans-serif",
        "legend.frameon": False, "legend.fontsize": 9})
    from matplotlib import pyplot as plt

    directory.mkdir(parents=True, exist_ok=True)
    for one in (request, server, threads, lateness, loops, prediction):
        figure = one(plt, runs)
        figure.savefig(directory / f"{one.__name__}.svg", metadata={"Date": None},
                       bbox_inches="tight")
        plt.close(figure)


def main(path, page, directory):
    runs = read(path)
    fill(pathlib.Path(page), runs)
    draw(runs, pathlib.Path(directory))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
