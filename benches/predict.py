"""What more processors would bring, predicted from what one operation shares.

An operation of a thread takes t nanoseconds if nobody else is there, and it writes w
lines that operations of other threads write as well. Such a line is at one processor
at a time and takes c nanoseconds to move. So n threads need at least t / n, and at
least w * c, for each operation of all.
"""

from run import Side, markdown, median, number

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


def table(runs):
    lines = [("cancel and arm, millions a second", "lines shared", "one thread, measured",
              "two, measured", *(f"{n}, predicted" for n in CORES[1:]))]
    for name, program in KINDS.items():
        two = median(runs, Side(f"{program} {WORK} 2"))
        one = time_of_one(runs, program)
        lines.append((name, number(shared(runs, program)), number(1000 / one) if one else "",
                      number(1000 / two) if two else "",
                      *(number(predicted(runs, program, n)) for n in CORES[1:])))
    return markdown(lines)
