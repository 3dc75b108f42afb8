"""Pairs of cancelling and arming a second, with 10,000 timers pending: the oldest is
cancelled and another armed, a hundred in a turn of the event loop. asyncio's own
call_later, that of AsyncioWheel, the wheel one by one, and the wheel with a call for a
thousand, while the event loop drives it. It counts the processor time of the process: the
best of ten rounds."""

import asyncio
import time

import hwheel

PENDING, PAIRS, MANY, TURN = 10_000, 20_000, 1000, 100


def delay(i):
    """One to two hours in seconds, and another for each timer."""
    return 3600 + i * 7919 % PENDING * 0.36


async def ring(name, pair):
    for i in range(PENDING):
        pair(i)
    best = 0.0
    for _ in range(10):
        begin = time.process_time()
        for i in range(PAIRS):
            pair(i % PENDING)
            if i % TURN == 0:
                await asyncio.sleep(0)
        best = max(best, PAIRS / (time.process_time() - begin))
    print(name, round(best))


def by(call_later):
    """Cancels and arms in a ring of timers of one kind."""
    timers = [None] * PENDING

    def pair(i):
        if timers[i] is not None:
            timers[i].cancel()
        timers[i] = call_later(delay(i), print)

    return pair


async def main():
    await ring("own", by(asyncio.get_running_loop().call_later))
    async with hwheel.AsyncioWheel() as wheel:
        await ring("form", by(wheel.call_later))

    with hwheel.EventWheel() as wheel:
        asyncio.get_running_loop().add_reader(wheel.fileno(), wheel.poll)
        handles = [0] * PENDING
        times = [round(delay(i) * 1e9) for i in range(PENDING)]

        def one(i):
            if handles[i]:
                wheel.delete(handles[i])
            handles[i] = wheel.once(times[i], i)

        await ring("one", one)
        timers = [wheel.setup(0) for _ in range(MANY)]

        def many(i):
            if i % MANY == 0:
                wheel.delete_many(timers)
                wheel.mod_many(timers, times[:MANY])

        await ring("many", many)
        asyncio.get_running_loop().remove_reader(wheel.fileno())


asyncio.run(main())
