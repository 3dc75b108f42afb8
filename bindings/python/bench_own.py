"""Pairs of arming and cancelling a second, with 10,000 other timers pending: asyncio's own
call_later, the wheel one by one, and the wheel with a call for a thousand. The best of
ten rounds."""

import asyncio
import time

import hwheel

PENDING, PAIRS, MANY = 10_000, 20_000, 1000
HOUR = 3600


def rate(way):
    best = 0.0
    for _ in range(10):
        begin = time.perf_counter()
        way()
        best = max(best, PAIRS / (time.perf_counter() - begin))
    return round(best)


async def own():
    loop = asyncio.get_running_loop()
    pending = [loop.call_later(HOUR, print) for _ in range(PENDING)]
    best = 0.0
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(PAIRS):
            loop.call_later(HOUR, print).cancel()
        await asyncio.sleep(0)  # asyncio removes what was cancelled.
        best = max(best, PAIRS / (time.perf_counter() - begin))
    for timer in pending:
        timer.cancel()
    return round(best)


print("own", asyncio.run(own()))
with hwheel.EventWheel() as wheel:
    for cookie in range(PENDING):
        wheel.once(HOUR * hwheel.SEC, cookie)

    def one():
        for cookie in range(PAIRS):
            wheel.delete(wheel.once(HOUR * hwheel.SEC, cookie))

    timers, times = [wheel.setup(0) for _ in range(MANY)], [HOUR * hwheel.SEC] * MANY

    def many():
        for _ in range(PAIRS // MANY):
            wheel.mod_many(timers, times)
            wheel.delete_many(timers)

    print("one", rate(one))
    print("many", rate(many))
