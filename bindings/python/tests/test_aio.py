"""AsyncioWheel: the wheel inside an event loop."""

import asyncio
import contextvars

from hwheel import AsyncioWheel


def test_sleep_and_calls_in_order():
    async def main():
        loop = asyncio.get_running_loop()
        log = []
        with AsyncioWheel() as wheel:
            begin = loop.time()
            wheel.call_later(0.030, log.append, "late")
            wheel.call_later(0.010, log.append, "early")
            await wheel.sleep(0.020)
            assert loop.time() - begin >= 0.020 and log[0] == "early"
            await wheel.sleep(0.020)
            assert log == ["early", "late"]

    asyncio.run(main())


def test_one_crossing_fetches_many():
    async def main():
        with AsyncioWheel() as wheel:
            crossings = []
            poll = wheel._events.poll

            def counted():
                events = poll()
                crossings.append(len(events))
                return events

            wheel._events.poll = counted
            when = wheel.time() + 0.05
            called = []
            for n in range(1000):
                wheel.call_at(when, called.append, n)
            await wheel.sleep(0.1)
            assert len(called) == 1000 and max(crossings) >= 1000

    asyncio.run(main())


def test_what_does_not_fit_a_batch_comes_in_the_next_turns():
    async def main():
        with AsyncioWheel(batch=8) as wheel:
            called = []
            for n in range(100):
                wheel.call_later(0, called.append, n)
            await wheel.sleep(0.05)
            assert sorted(called) == list(range(100))

    asyncio.run(main())


def test_an_exception_goes_to_the_loop_and_the_wheel_goes_on():
    async def main():
        problems = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        with AsyncioWheel() as wheel:
            timer = wheel.call_later(0.001, lambda: 1 / 0)
            await wheel.sleep(0.01)
        [context] = problems
        assert isinstance(context["exception"], ZeroDivisionError)
        assert context["timer"] is timer

    asyncio.run(main())


def test_an_interrupt_leaves_the_loop_and_nothing_is_lost():
    def interrupt():
        raise KeyboardInterrupt

    loop = asyncio.new_event_loop()
    log = []
    with AsyncioWheel(loop) as wheel:
        wheel.call_later(0, interrupt)
        wheel.call_later(0.002, log.append, "after")
        interrupts = 0
        while not log:
            try:
                loop.run_until_complete(wheel.sleep(0.01))
            except KeyboardInterrupt:
                interrupts += 1
        assert interrupts == 1 and log == ["after"]
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()


def test_calls_run_in_the_context_of_their_making():
    name = contextvars.ContextVar("name", default="")

    async def main():
        with AsyncioWheel() as wheel:
            seen = []
            for value in "ab":
                name.set(value)
                wheel.call_later(0, lambda: seen.append(name.get()))
            name.set("c")
            await wheel.sleep(0.01)
            assert sorted(seen) == ["a", "b"]

    asyncio.run(main())


def test_a_cancelled_sleep_leaves_no_timer():
    async def main():
        with AsyncioWheel() as wheel:
            task = asyncio.ensure_future(wheel.sleep(3600))
            await asyncio.sleep(0)
            assert len(wheel) == 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert len(wheel) == 0

    asyncio.run(main())


def test_a_closed_wheel_is_watched_no_more():
    async def main():
        wheel = AsyncioWheel()
        fileno = wheel.fileno()
        wheel.call_later(0, lambda: None)
        wheel.close()
        assert not asyncio.get_running_loop().remove_reader(fileno)
        await asyncio.sleep(0.01)
        wheel.close()

    asyncio.run(main())
