#!/usr/bin/env python3
"""Write what was measured: page.py FIGURES PAGE PLOTS, or page.py --scaling FIGURES PLOTS

In PAGE (docs/PERFORMANCE.md) the tables between two marks are replaced. PLOTS gets six
plots, if matplotlib is installed. With --scaling it gets one, of the table "threads".
"""

import pathlib
import re
import sys
import textwrap

import limits
import tables
from measured import Side, differ, machine, markdown, median, number, read

# Okabe and Ito's colours, and two more, told apart with any kind of colour vision, and
# markers. The two kinds of wheels of the library are the two blues in every plot, and nothing
# else is blue.
STYLES = {
    "hwheel": ("#0072B2", "o"), "hwheel-owned": ("#56B4E9", "D"), "ratas": ("#D55E00", "d"),
    "dates": ("#999933", "*"), "wahern": ("#CC79A7", "v"), "libuv": ("#000000", "^"),
    "libevent": ("#E69F00", "x"), "tokio": ("#009E73", "+"), "timerfd": ("#882255", "s"),
    "nothing": ("#999999", "p"),
}
WIDTH = 6.2


def rate(runs, command):
    """Millions of operations a second."""
    ns = median(runs, Side(command))
    return number(1000 / ns) if ns else "?"


def verdict(runs, ours, theirs):
    """Whether the first of two figures is the smaller one."""
    if ours not in runs or theirs not in runs:
        return "not measured"
    if not differ(runs[ours], runs[theirs]):
        return "no difference"
    return "yes" if median(runs, ours) < median(runs, theirs) else "no"


def answer(runs):
    """Who should use the library: each verdict follows from the figures behind it."""
    def of(command, figure="ns", unit=1):
        value = median(runs, Side(command, figure))
        return number(value / unit) if value is not None else "?"

    def timers(program, n):
        return of(f"{program} request {n}", "timers")

    def request(program, n):
        return Side(f"{program} request {n}", "timers")

    in_timers = {name: of(tables.SERVERS[name], "timers@100") for name in tables.SERVERS}
    owned, heap = (tables.SERVERS[name] for name in ("hwheel, owned", "libuv, heap"))
    two = "pair 100000 2"
    return "\n".join(textwrap.fill(text, 96, subsequent_indent="  ") for text in [
        "- **Several threads use the same timers: "
        f"{verdict(runs, Side('hwheel ' + two), Side('ratas-spin ' + two))}.** Two threads do "
        f"{rate(runs, 'hwheel ' + two)} million pairs of cancel and arm a second on a shared wheel, "
        f"one does {rate(runs, 'hwheel pair 100000')}. With ratas behind a spin lock two do "
        f"{rate(runs, 'ratas-spin ' + two)}, one {rate(runs, 'ratas-spin pair 100000')}.",
        "- **A loop with thousands of timers, instead of a heap: "
        f"{verdict(runs, request('hwheel-owned', 100000), request('libuv', 100000))}.** With 100,000 "
        f"connections a request pays {timers('hwheel-owned', 100000)} ns in an owned wheel, "
        f"{timers('hwheel-owned-prefetch', 100000)} with a prefetch, and {timers('hwheel', 100000)} in "
        f"a shared one; {timers('libuv', 100000)} in libuv's heap, and "
        f"{timers('libevent-common', 100000)} in libevent's common timeouts.",
        "- **A loop in which nanoseconds matter: "
        f"{verdict(runs, request('hwheel-owned-prefetch', 100000), request('ratas-prefetch', 100000))}"
        ".** Under the same load ratas, a wheel inside your objects, takes "
        f"{timers('ratas', 100000)} ns, {timers('ratas-prefetch', 100000)} with a prefetch. Dates that "
        f"your objects keep take {timers('dates', 100000)}. A wheel of this library also has handles "
        "that are checked, messages of other threads, and bindings.",
        "- **Instead of a timerfd for each connection: "
        f"{verdict(runs, request('hwheel', 1000), request('timerfd', 1000))}.** With 1,000 connections "
        f"a request pays {timers('timerfd', 1000)} ns in timerfds, {timers('hwheel', 1000)} in a shared "
        "wheel.",
        "- **Shorter requests in an echo server than with libuv's heap: "
        f"{verdict(runs, Side(owned, 'request@100'), Side(heap, 'request@100'))}.** Of some "
        f"{of(owned, 'request@100')} ns of processor time, {in_timers['hwheel, owned']} are in timers "
        f"with an owned wheel, {in_timers['hwheel']} with a shared one, {in_timers['ratas']} with "
        f"ratas, and {in_timers['libuv, heap']} with libuv's heap.",
        "- **Memory.** A pending timer of a shared wheel takes "
        f"{of('hwheel memory 1000000', 'bytes')} bytes before the wheel is first driven, "
        f"{of('hwheel memory 1000000', 'driven')} when it is driven, and "
        f"{of('hwheel memory 1000000', 'worn')} after a minute of use; of an owned wheel "
        f"{of('hwheel-owned memory 1000000', 'worn')}, and of ratas "
        f"{of('ratas memory 1000000', 'bytes')}. A wheel with one timer takes "
        f"{of('hwheel memory 1', 'bytes', 1000)} kB. Memory follows the number of live timers.",
        "- **Lateness.** With ticks of 50 us the median is "
        f"{of('hwheel lateness 50', 'p50', 1000)} us, that of a timerfd "
        f"{of('machine lateness 50', 'p50', 1000)}. The earliest of these timers came "
        f"{of('hwheel lateness 50', 'min', 1000)} us after its time.",
        f"- **Loops over random timers.** One thread pays {of('hwheel-owned pair 100000')} ns to cancel "
        f"and arm one of 100,000 in an owned wheel, {of('hwheel pair 100000')} in a shared one, "
        f"{of('ratas pair 100000')} with ratas, {of('libuv pair 100000')} with libuv.",
        f"- {kept_of(limits.rows(), runs)} of the limits that this project has set itself are kept.",
    ]) + "\n"


def note(runs):
    """How to read the tables."""
    fewest = min((len(values) for values in runs.values() if len(values) > 1), default=1)
    return (f"A figure is the median of {fewest} rounds or more. After ± stands half of the range in "
            "which the\nmiddle half of the rounds lies. A figure with ~ does not differ from the next "
            "smaller or the\nnext larger one of its column: the medians are closer than one of the two "
            "ranges is wide.\nFigures that are counted have no ±.\n")


def measured_threads():
    """What the prediction lacks."""
    most = max(tables.COUNTS)
    return "" if most == 16 else (
        f"This machine has processors for {most} threads. No run with 16 is known. "
        "`make bench WHAT=threads`\nmeasures up to as many as a machine has, in three minutes, and "
        "draws build/bench/scaling.svg.\n")


def kept_of(rows, runs):
    """How many of the limits are kept."""
    kept = sum(1 for row in rows if (v := row.value(runs)) is not None and row.keeps(v))
    return f"{kept} of {len(rows)}"


def parts(runs):
    """The text of each mark of the page."""
    found = {name: table.text(runs) for name, table in tables.TABLES.items()}
    found["note"] = note(runs)
    found["answer"] = answer(runs)
    found["threads"] = "\n".join(filter(None, (found["threads"], measured_threads())))
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
    name = program.removeprefix("server/load ").split()[0]
    return STYLES["hwheel-owned" if name.startswith("hwheel-owned") else name.split("-")[0]]


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
    for name in ("hwheel", "hwheel, prefetch", "hwheel, owned", "hwheel, owned, prefetch",
                 "dates in the object", "ratas", "ratas, prefetch", "wahern/timeout", "libuv, heap",
                 "libevent, common timeouts", "a timerfd each"):
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
    for name, program in {**tables.SHARED, **tables.LOCKED, "libevent": "libevent",
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


def scaling(plt, runs):
    """As many threads as the machine has processors for."""
    figure, axes = plt.subplots(figsize=(WIDTH, 4.4))
    for name, program in tables.THREADS.items():
        points = [(n, median(runs, Side(f"{program} {n}"))) for n in tables.COUNTS]
        points = [(n, 1000 / ns) for n, ns in points if ns]
        if points:
            colour, marker = style(program)
            how = "--" if "each" in name else ":" if "mutex" in name else "-"
            axes.plot(*zip(*points), color=colour, marker="x" if "messages" in name else marker,
                      linestyle=how, label=name, clip_on=False)
    axes.set(xscale="log", yscale="log", xticks=tables.COUNTS, xticklabels=tables.COUNTS,
             xlabel="threads", ylabel="million pairs a second",
             title="Cancel and arm by several threads: higher is better")
    axes.minorticks_off()
    legend_outside(axes)
    return figure


PLOTS = (request, server, threads, lateness, loops, prediction)


def draw(runs, directory, plots=PLOTS):
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
    for one in plots:
        figure = one(plt, runs)
        figure.savefig(directory / f"{one.__name__}.svg", metadata={"Date": None},
                       bbox_inches="tight")
        plt.close(figure)


def main(path, page, directory):
    if path == "--scaling":
        draw(read(page), pathlib.Path(directory), (scaling,))
        return
    runs = read(path)
    fill(pathlib.Path(page), runs)
    draw(runs, pathlib.Path(directory))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
