#!/usr/bin/env python3
"""Draw the figures of run.py as SVG.

    plot.py FILE DIR

Writes cost.svg (cost against the number of timers), threads.svg (throughput
against threads), lateness.svg (distribution of lateness) and textbook.svg
(lists, heap and wheel) to DIR, each only if FILE has figures for it.
"""

import math
import os
import sys
from html import escape

from run import Key, read

# The same in every drawing. Most colours are Okabe and Ito's, told apart with
# any kind of colour vision; and each line has its own marker besides.
STYLES = {
    "hwheel": ("#000000", "o"),
    "hwheel, descriptor": ("#000000", "o"),
    "hwheel, thread": ("#0072B2", "s"),
    "machine": ("#888888", "x"),
    "libuv": ("#56B4E9", "o"),
    "libevent": ("#E69F00", "x"),
    "tokio": ("#D55E00", "d"),
    "tokio, dropped": ("#D55E00", "p"),
    "delay_queue": ("#8B4513", "v"),
    "hhwt": ("#009E73", "t"),
    "go": ("#0072B2", "d"),
    "jdk": ("#CC79A7", "v"),
    "netty": ("#7A5195", "p"),
    "unsorted": ("#009E73", "t"),
    "sorted": ("#D55E00", "d"),
    "heap": ("#0072B2", "s"),
}
WIDTH, HEIGHT = 460, 330
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 34, 48
LEGEND = 150


def marker(kind, x, y, colour):
    shape = {
        "o": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>',
        "s": f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"/>',
        "d": f'<path d="M{x:.1f} {y - 4:.1f}l4 4-4 4-4-4z"/>',
        "t": f'<path d="M{x:.1f} {y - 4:.1f}l4 7h-8z"/>',
        "v": f'<path d="M{x:.1f} {y + 4:.1f}l4-7h-8z"/>',
        "x": f'<path d="M{x - 3:.1f} {y - 3:.1f}l6 6m0-6l-6 6" stroke-width="2"/>',
        "p": f'<path d="M{x - 4:.1f} {y:.1f}h8m-4-4v8" stroke-width="2"/>',
    }[kind]
    return f'<g fill="{colour}" stroke="{colour}">{shape}</g>'


class Axis:
    """Values to pixels, linear or logarithmic, with round ticks."""

    def __init__(self, label, values, pixels, log=False, low=0):
        self.label, self.log = label, log
        self.start, self.end = pixels
        most = max(values)
        if log:
            self.low = 10 ** math.floor(math.log10(min(values)))
            self.high = 10 ** math.ceil(math.log10(most))
        else:
            power = 10 ** math.floor(math.log10(most))
            tens = most / power
            self.step = power if tens > 4 else power / 2 if tens > 2 else power / 5
            self.low, self.high = low, math.ceil(most / self.step) * self.step

    def at(self, value):
        scale = math.log10 if self.log else float
        part = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
        return self.start + part * (self.end - self.start)

    def ticks(self):
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            return [10 ** e for e in range(first, last + 1)]
        return [i * self.step for i in range(round(self.high / self.step) + 1)]


def text(x, y, words, anchor="middle", size=12, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{more}>'
            f'{escape(words)}</text>')


def short(value):
    for unit, sign in ((1_000_000, "M"), (1_000, "k")):
        if value >= unit:
            return f"{value / unit:g}{sign}"
    return f"{value:g}"


def panel(title, x_axis, y_axis, series, at, x_names=None):
    """One diagram at a place; series are (name, [(x, y)])."""
    middle = (LEFT + WIDTH - RIGHT) / 2
    out = [f'<g transform="translate({at},0)">', text(middle, 20, title, size=14)]
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y + 4, short(tick), "end"))
    for tick in x_names or x_axis.ticks():
        x = x_axis.at(tick)
        out.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eee"/>')
        out.append(text(x, HEIGHT - BOTTOM + 16, x_names[tick] if x_names else short(tick)))
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" '
               f'stroke="#333"/>')
    out.append(text(middle, HEIGHT - 12, x_axis.label))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(text(14, middle, y_axis.label, more=f' transform="rotate(-90 14 {middle})"'))
    for name, points in series:
        colour, kind = STYLES[name]
        places = [(x_axis.at(x), y_axis.at(y)) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        bold = 2.6 if name.startswith("hwheel") else 1.4
        dashed = ' stroke-dasharray="5 3"' if name == "machine" else ""
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" '
                   f'stroke-width="{bold}"{dashed}/>')
        out += [marker(kind, x, y, colour) for x, y in places]
    out.append("</g>")
    return out


def drawing(path, panels, x_axis, y_axis, x_names=None):
    """Panels side by side with one legend. Panels are (title, series)."""
    panels = [(title, series) for title, series in panels if series]
    if not panels:
        return
    found = {name for _, series in panels for name, _ in series}
    points = [point for _, series in panels for _, line in series for point in line]
    x = Axis(values=[p[0] for p in points], pixels=(LEFT, WIDTH - RIGHT), **x_axis)
    y = Axis(values=[p[1] for p in points], pixels=(HEIGHT - BOTTOM, TOP), **y_axis)
    wide = WIDTH * len(panels) + LEGEND
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {HEIGHT}" width="{wide}" '
           f'height="{HEIGHT}" font-family="sans-serif" fill="#222">',
           '<rect width="100%" height="100%" fill="#fff"/>']
    for i, (title, series) in enumerate(panels):
        out += panel(title, x, y, series, i * WIDTH, x_names)
    for i, name in enumerate(name for name in STYLES if name in found):
        top = TOP + 10 + 20 * i
        colour, kind = STYLES[name]
        out.append(marker(kind, wide - LEGEND + 10, top, colour))
        out.append(text(wide - LEGEND + 22, top + 4, name, "start"))
    out.append("</svg>")
    with open(path, "w", encoding="utf-8") as svg:
        svg.write("\n".join(out) + "\n")
    print(f"  {path}")


def lines(medians, workload, figure="ns", along="n", value=lambda median: median):
    """A line for each implementation."""
    found = {}
    for key, median in medians.items():
        if (key.workload, key.figure) == (workload, figure):
            found.setdefault(key.impl, []).append((getattr(key, along), value(median)))
    return [(impl, sorted(points)) for impl, points in found.items()]


def lateness(medians, workload):
    """Quantiles as a distribution, from 1 us up: what is early is drawn there."""
    quantiles = {"min": 0, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p99": 99}
    impls = dict.fromkeys(key.impl for key in medians if key.workload == workload)
    return [(impl, [(max(1.0, medians[Key(workload, q, 1, 1, impl)] / 1000), part)
                    for q, part in quantiles.items()])
            for impl in impls]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    medians = read(sys.argv[1])
    os.makedirs(sys.argv[2], exist_ok=True)

    def path(name):
        return os.path.join(sys.argv[2], name)

    # One timer is not a random one of n.
    machine = [(impl, points[1:]) for impl, points in lines(medians, "C")]
    timers, cost = {"label": "timers", "log": True}, {"label": "ns", "log": True}
    drawing(path("cost.svg"),
            [("W1a: cancel and arm a random timer", lines(medians, "W1a") + machine),
             ("W1b: re-arm it in place", lines(medians, "W1b") + machine)],
            timers, cost)
    drawing(path("threads.svg"),
            [(title, lines(medians, workload, along="threads", value=lambda ns: 1000 / ns))
             for workload, title in
             (("W4churn", "W4: cancel and arm, 100,000 timers a thread"),
              ("W4constant", "W4: arm 30 s and cancel at once"))],
            {"label": "threads", "low": 0.8}, {"label": "million a second", "log": True},
            x_names={1: "1", 2: "2"})
    drawing(path("lateness.svg"),
            [(title, lateness(medians, workload)) for workload, title in
             (("W5 50 us", "W5: tick 50 us"), ("W5 1000 us", "W5: tick 1 ms"),
              ("W5", "W5: peers, and a timerfd without a tick"))],
            {"label": "microseconds late, or less; 1 is early, too", "log": True},
            {"label": "per cent of timers"})
    drawing(path("textbook.svg"),
            [("W9: cancel and arm one", lines(medians, "W9", "pair")),
             ("W9: pass a tick of 1 ms", lines(medians, "W9", "tick"))],
            timers, cost)


if __name__ == "__main__":
    main()
