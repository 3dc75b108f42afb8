"""Events per second: by batches of integers, by batches that call a Python
function each, and by one callback of the library for each timer. The best of
thirty rounds, or of as many as five seconds hold; a round is a hundred thousand timers
over a thousand ticks."""

import time

import hwheel
from hwheel._native import ffi, lib

TIMERS = 100_000
TICK = 1_000_000
END = 1000 * TICK
total = 0


def add(cookie):
    global total
    total += cookie


@ffi.callback("hwheel_fn")
def called(_, event):
    add(event.cookie)


def batch(wheel):
    def fire():
        global total
        while True:
            events = wheel.advance(END)
            for _, cookie, _, _, _ in events:
                total += cookie
            if len(events) < wheel.batch:
                return

    for cookie in range(TIMERS):
        wheel.once(cookie % 1000 * TICK, cookie, hwheel.ABS)
    return fire


def function(_):
    timers = hwheel.Wheel(clock=hwheel.Clock.MANUAL)
    for cookie in range(TIMERS):
        timers.call_at(cookie % 1000 / 1000, add, cookie)
    return lambda: timers.advance(END / 1e9)


def callback(wheel):
    for cookie in range(TIMERS):
        lib.hwheel_once(wheel._wheel, cookie % 1000 * TICK, called, cookie, 0, ffi.NULL)
    return lambda: lib.hwheel_advance(wheel._wheel, END, ffi.NULL, 0, ffi.NULL)


def rate(way):
    global total
    total = 0
    with hwheel.EventWheel(clock=hwheel.Clock.MANUAL) as wheel:
        fire = way(wheel)
        begin = time.perf_counter()
        fire()
        seconds = time.perf_counter() - begin
    assert total == TIMERS * (TIMERS - 1) // 2
    return TIMERS / seconds


for way in batch, function, callback:
    best, n, begin = 0.0, 0, time.perf_counter()
    while n < 3 or n < 30 and time.perf_counter() - begin < 5:
        best, n = max(best, rate(way)), n + 1
    print(way.__name__, round(best))
