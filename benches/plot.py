#!/usr/bin/env python3
"""Draw what was measured, with matplotlib: plot.py FIGURES DIRECTORY"""

import pathlib
import sys

import matplotlib

matplotlib.use("svg")
# The same figures make the same file.
matplotlib.rcParams.update({"svg.hashsalt": "hwheel", "svg.fonttype": "none", "font.size": 9,
                            "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True,
                            "font.family": "sans-serif", "legend.frameon": False})
from matplotlib import pyplot as plt  # noqa: E402  (after the choice of what it draws with)

import predict  # noqa: E402
import tables  # noqa: E402
from run import Side, median, read  # noqa: E402

# Okabe and Ito's colours, told apart with any kind of colour vision, and markers.
STYLES = {
    "hwheel": ("#000000", "o"), "hwheel-hand": ("#000000", "s"), "ratas": ("#D55E00", "d"),
    "wahern": ("#CC79A7", "v"), "libuv": ("#56B4E9", "^"), "libevent": ("#E69F00", "x"),
    "tokio": ("#009E73", "+"), "hhwt": ("#0072B2", "<"), "delay_queue": ("#8B4513", ">"),
    "go": ("#0072B2", "*"), "jdk": ("#999999", "p"), "netty": ("#7A5195", "h"),
}
NAMES = {program: name for name, program in tables.EVERY.items()}
SIZES = (1_000, 100_000, 1_000_000, 10_000_000)


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)
    print(f"  {path}")


def lines(axes, runs, programs, work, xs):
    """A line for each program: `work` gives the figure's side for a program and an x."""
    for program in programs:
        points = [(x, median(runs, work(program, x))) for x in xs]
        points = [(x, y) for x, y in points if y is not None]
        if points:
            colour, marker = STYLES[program]
            axes.plot(*zip(*points), color=colour, marker=marker, markersize=4, linewidth=1.3,
                      linestyle="--" if program == "hwheel-hand" else "-", label=NAMES[program])


def by_size(runs, directory):
    """What an operation costs as the number of timers grows."""
    panels = (
        ("Cancel a timer and arm it again", "pair", "ns"),
        ("Re-arm a timer in place", "rearm", "ns"),
        ("Arm a timer", "cycle", "arm"),
        ("Fire a timer, tick by tick", "cycle", "fire"),
    )
    figure, grid = plt.subplots(2, 2, figsize=(10, 7.5), sharex=True)
    for axes, (title, workload, name) in zip(grid.flat, panels):
        lines(axes, runs, STYLES, lambda p, n, w=workload, f=name: Side(f"{p} {w} {n}", f), SIZES)
        axes.set(title=title, xscale="log", yscale="log", ylabel="nanoseconds")
    for axes in grid[1]:
        axes.set_xlabel("pending timers")
    grid[0][0].legend(*grid[0][0].get_legend_handles_labels(), loc="upper left",
                      bbox_to_anchor=(2.25, 1.0))
    figure.suptitle("One thread: lower is better")
    save(figure, directory / "cost.svg")


def threads(runs, directory):
    """One thread and two on one wheel."""
    figure, grid = plt.subplots(1, 2, figsize=(10, 3.8))
    table = next(t for t in tables.TABLES if t.title.startswith("Two threads on one"))
    for axes, n in zip(grid, (1_000, 100_000)):
        names = [name for name, p in table.rows.items() if Side(f"{p} pair {n} 2") in runs]
        if not names:
            continue
        for shift, count in ((-0.2, ""), (0.2, " 2")):
            values = [1000 / (median(runs, Side(f"{table.rows[name]} pair {n}{count}")) or 1e9)
                      for name in names]
            axes.barh([i + shift for i in range(len(names))], values, 0.38,
                      color="#0072B2" if count else "#56B4E9",
                      label="two threads" if count else "one thread")
        axes.set(yticks=range(len(names)), yticklabels=names, xlabel="million pairs a second",
                 title=f"Cancel and arm, {n:,} timers a thread")
        axes.invert_yaxis()
    grid[1].legend()
    figure.suptitle("Does a second thread help? Higher is better")
    figure.tight_layout()
    save(figure, directory / "threads.svg")


def ticks(runs, directory):
    """What the driver pays for threads that exist."""
    counts = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    points = [(n, median(runs, Side(f"hwheel tick 1 {n}"))) for n in counts]
    points = [point for point in points if point[1] is not None]
    if not points:
        return
    figure, axes = plt.subplots(figsize=(5.5, 3.5))
    axes.plot(*zip(*points), color="#000000", marker="o")
    axes.set(xscale="log", xticks=counts, xticklabels=counts, ylim=(0, None),
             xlabel="threads that hold timers", ylabel="nanoseconds",
             title="Arm one timer and pass the tick in which it is due")
    axes.minorticks_off()
    save(figure, directory / "ticks.svg")


def lateness(runs, directory):
    """How late timers fire on a real clock."""
    shares = {"min": 0, "p1": 1, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p99": 99}
    figure, grid = plt.subplots(1, 2, figsize=(10, 3.8))
    for axes, title in zip(grid, ("tick of 50 us", "own tick")):
        table = next(t for t in tables.TABLES if t.title.endswith(title)
                     or t.title.endswith(title + " of each"))
        for name, command in table.rows.items():
            points = [(share, median(runs, Side(command, q))) for q, share in shares.items()]
            points = [(share, value / 1000) for share, value in points if value is not None]
            axes.plot(*(zip(*points) if points else ((), ())), marker="o", markersize=3, label=name)
        axes.axhline(0, color="#000000", linewidth=0.8)
        axes.set(xlabel="per cent of the timers", ylabel="lateness in microseconds, at most",
                 yscale="symlog", title=table.title)
        axes.title.set_size(9)
        axes.legend(fontsize=8)
    figure.suptitle("Lateness of 1,000 timers on a real clock: below zero is early")
    figure.tight_layout()
    save(figure, directory / "lateness.svg")


def server(runs, directory):
    """What a server pays for its timers."""
    figure, grid = plt.subplots(1, 2, figsize=(10, 3.8))
    mixes = [(mix, n) for mix, n in tables.MIXES.items() if n > 0]
    width = 0.8 / len(tables.SERVERS)
    for axes, figure_name, label, unit in (
            (grid[0], "request", "processor time a request, microseconds", 1000),
            (grid[1], "share", "of it in timers, per cent", 1)):
        for k, (name, command) in enumerate(tables.SERVERS.items()):
            values = [median(runs, Side(command, f"{figure_name}@{n}")) or 0 for _, n in mixes]
            axes.bar([i + k * width - 0.4 + width / 2 for i in range(len(mixes))],
                     [value / unit for value in values], width, label=name)
        axes.set(xticks=range(len(mixes)), xticklabels=[mix for mix, _ in mixes],
                 xlabel="connections that talk", ylabel=label)
    grid[0].legend(fontsize=8)
    figure.suptitle("An echo server with an idle timeout and a deadline: lower is better")
    figure.tight_layout()
    save(figure, directory / "server.svg")


def prediction(runs, directory):
    """What more processors would bring."""
    cores = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, program in predict.KINDS.items():
        values = [predict.predicted(runs, program, n) for n in cores]
        if None in values:
            continue
        colour, marker = STYLES[program.split("-")[0]]
        axes.plot(cores, values, color=colour, linestyle="--", label=name)
        measured = [(1, predict.time_of_one(runs, program)),
                    (2, median(runs, Side(f"{program} {predict.WORK} 2")))]
        measured = [(n, 1000 / t) for n, t in measured if t]
        axes.plot(*zip(*measured), color=colour, marker=marker, linestyle="none")
    axes.set(xscale="log", yscale="log", xticks=cores, xticklabels=cores,
             xlabel="threads, each on a processor of its own",
             ylabel="million pairs a second",
             title="Cancel and arm: predicted (lines), measured (marks)")
    axes.minorticks_off()
    axes.legend()
    save(figure, directory / "prediction.svg")


def textbook(runs, directory):
    """Lists, a heap and the wheel."""
    sizes = (100, 1_000, 10_000, 100_000)
    figure, grid = plt.subplots(1, 2, figsize=(10, 3.5))
    table = next(t for t in tables.TABLES if t.title.startswith("Lists"))
    for axes, name, title in ((grid[0], "pair", "Cancel a timer and arm it again"),
                              (grid[1], "tick", "Pass a tick")):
        for row, program in table.rows.items():
            points = [(n, median(runs, Side(f"{program} book {n}", name))) for n in sizes]
            points = [point for point in points if point[1] is not None]
            axes.plot(*(zip(*points) if points else ((), ())), marker="o", markersize=4, label=row)
        axes.set(xscale="log", yscale="log", xlabel="pending timers", ylabel="nanoseconds",
                 title=title)
    grid[0].legend()
    figure.tight_layout()
    save(figure, directory / "textbook.svg")


def main(path, directory):
    runs = read(path)
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for draw in (by_size, threads, ticks, lateness, server, prediction, textbook):
        draw(runs, directory)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
