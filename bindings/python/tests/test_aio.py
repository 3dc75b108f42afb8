"""AsyncioWheel: the wheel inside an event loop."""

import asyncio
import contextvars
import threading
import time

import pytest

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


def test_a_context_may_be_given():
    variable = contextvars.ContextVar("variable", default="none")

    async def main():
        with AsyncioWheel() as wheel:
            context, seen = contextvars.copy_context(), []
            context.run(variable.set, "given")
            variable.set("current")
            wheel.call_later(0.001, lambda: seen.append(variable.get()), context=context)
            wheel.call_at(wheel.time(), lambda: seen.append(variable.get()), context=context)
            wheel.call_later(0.001, lambda: seen.append(variable.get()))
            await wheel.sleep(0.02)
            assert sorted(seen) == ["current", "given", "given"]

    asyncio.run(main())


def test_one_crossing_fetches_many():
    async def main():
        with AsyncioWheel() as wheel:
            crossings = []
            drive = wheel._events._drive

            def counted(*call):
                count = drive(*call)
                crossings.append(count)
                return count

            wheel._events._drive = counted
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


def test_a_timeout_ends_its_body():
    async def main():
        async with AsyncioWheel() as wheel:
            begin = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(0.02) as timeout:
                    await asyncio.sleep(60)
            assert timeout.expired() and 0.02 <= time.monotonic() - begin < 30
            await asyncio.sleep(0)  # The task is not cancelled any more.

            async with wheel.timeout(60) as timeout:
                await wheel.sleep(0.001)
            assert not timeout.expired() and len(wheel) == 0

            async with wheel.timeout(None) as timeout:
                assert timeout.when() is None
                timeout.reschedule(wheel.time() + 60)
                assert len(wheel) == 1
                timeout.reschedule(None)
                assert len(wheel) == 0
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout_at(0):
                    await asyncio.sleep(60)
            with pytest.raises(KeyError):
                async with wheel.timeout(60):
                    raise KeyError
            assert len(wheel) == 0

    asyncio.run(main())


def test_timeouts_nest():
    async def main():
        async with AsyncioWheel() as wheel:
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(0.01) as outer:
                    async with wheel.timeout(60) as inner:
                        await asyncio.sleep(60)
            assert outer.expired() and not inner.expired()
            async with wheel.timeout(60) as outer:
                with pytest.raises(asyncio.TimeoutError):
                    async with wheel.timeout(0.01) as inner:
                        await asyncio.sleep(60)
            assert inner.expired() and not outer.expired()

    asyncio.run(main())


def test_a_cancelled_body_is_no_timeout():
    async def main():
        async with AsyncioWheel() as wheel:

            async def body():
                async with wheel.timeout(60):
                    await asyncio.sleep(60)

            task = asyncio.ensure_future(body())
            await asyncio.sleep(0)
            assert len(wheel) == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(wheel) == 0

    asyncio.run(main())


@pytest.mark.parametrize("delay", [0, -1, -1e9, float("-inf")])
def test_a_time_that_has_passed_is_over_at_once(delay):
    async def main():
        async with AsyncioWheel() as wheel:
            for make in wheel.timeout, wheel.timeout_at:
                with pytest.raises(asyncio.TimeoutError):
                    async with make(delay) as timeout:
                        await asyncio.sleep(0)
                        pytest.fail("it is not over")
                assert timeout.expired()
            # A body that does not wait is not interrupted.
            async with wheel.timeout(delay):
                pass
            turns = []
            asyncio.get_running_loop().call_soon(turns.append, "another")
            assert await wheel.sleep(delay, "result") == "result"
            assert turns == ["another"] and len(wheel) == 0
            # A timeout that is moved there is over, too.
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(60) as timeout:
                    timeout.reschedule(wheel.time() + min(delay, 0))
                    await asyncio.sleep(0)
            assert len(wheel) == 0

    asyncio.run(main())


def test_a_timeout_is_moved_to_and_fro():
    async def main():
        async with AsyncioWheel() as wheel:
            async with wheel.timeout(0) as timeout:
                timeout.reschedule(wheel.time() + 60)
                await asyncio.sleep(0)
                timeout.reschedule(0)
                timeout.reschedule(None)
                await asyncio.sleep(0)
                assert timeout.when() is None and len(wheel) == 0
            small = AsyncioWheel(max_timers=1)
            async with small, small.timeout(None) as first:
                small.call_later(60, print)
                with pytest.raises(OSError):
                    first.reschedule(small.time() + 60)
                assert first.when() is None
                second = small.timeout(60)
                with pytest.raises(OSError):
                    await second.__aenter__()
                assert repr(second) == "<Timeout [created]>"

    asyncio.run(main())


def test_a_timeout_says_what_it_is():
    async def main():
        async with AsyncioWheel() as wheel:
            timeout = wheel.timeout_at(wheel.time() + 1000)
            assert repr(timeout) == "<Timeout [created]>"
            with pytest.raises(RuntimeError, match="has not been entered"):
                timeout.reschedule(1)
            async with timeout:
                assert repr(timeout) == f"<Timeout [active] when={round(timeout.when(), 3)}>"
                with pytest.raises(RuntimeError, match="already been entered"):
                    await timeout.__aenter__()
            assert repr(timeout) == "<Timeout [finished]>"
            with pytest.raises(RuntimeError, match="state of finished"):
                timeout.reschedule(1)
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(0) as timeout:
                    try:
                        await asyncio.sleep(0)
                    finally:
                        assert repr(timeout) == "<Timeout [expiring]>"
            assert repr(timeout) == "<Timeout [expired]>"

    asyncio.run(main())


def test_outside_of_a_task():
    async def main():
        async with AsyncioWheel() as wheel:
            loop, seen = asyncio.get_running_loop(), []

            def outside():
                for call in wheel.timeout(1).__aenter__(), wheel.sleep(1):
                    try:
                        call.send(None)
                    except RuntimeError as error:
                        seen.append(str(error))

            loop.call_soon(outside)
            await asyncio.sleep(0)
            assert seen == [f"{what} should be used inside a task" for what in ("Timeout", "sleep")]

    asyncio.run(main())


def test_a_timeout_is_entered_once():
    async def main():
        async with AsyncioWheel() as wheel:
            timeout = wheel.timeout(60)
            with pytest.raises(RuntimeError):
                timeout.reschedule(1)
            async with timeout:
                with pytest.raises(RuntimeError):
                    await timeout.__aenter__()
            with pytest.raises(RuntimeError):
                timeout.reschedule(1)
            with pytest.raises(RuntimeError):
                await timeout.__aenter__()

    asyncio.run(main())


def test_negative_durations():
    async def main():
        async with AsyncioWheel() as wheel:
            nan = float("nan")
            for bad in -1, -1e-9, nan:
                for call in (
                    lambda: wheel.call_later(bad, print),
                    lambda: wheel.call_at(bad, print),
                    lambda: wheel.call_every(bad, print),
                ):
                    with pytest.raises(ValueError):
                        call()
            for call in wheel.timeout, wheel.timeout_at, wheel.sleep:
                with pytest.raises(ValueError):
                    await call(nan)
            assert len(wheel) == 0
        with pytest.raises(ValueError):
            AsyncioWheel(tick=-1)
        with pytest.raises(TypeError):
            AsyncioWheel(ticks=1)

    asyncio.run(main())


def test_loops_in_threads_and_arms_from_another():
    done = []

    async def main():
        async with AsyncioWheel() as wheel:
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            threading.Thread(
                target=lambda: wheel.call_later(0.01, future.set_result, threading.get_ident())
            ).start()
            assert await future != threading.get_ident()
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(0.005):
                    await wheel.sleep(60)
            await asyncio.gather(*(wheel.sleep(n % 10 / 1000) for n in range(200)))
            done.append(loop)

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(done)) == 4


def test_a_wheel_belongs_to_its_loop():
    async def use(wheel):
        with pytest.raises(RuntimeError, match="another event loop"):
            await wheel.sleep(0)
        with pytest.raises(RuntimeError, match="another event loop"):
            async with wheel.timeout(1):
                pass

    async def main():
        async with AsyncioWheel() as wheel:
            thread = threading.Thread(target=lambda: asyncio.run(use(wheel)))
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.001)
            assert len(wheel) == 0

    asyncio.run(main())


@pytest.mark.parametrize("where", ["here", "in a thread"])
def test_close_ends_those_that_sleep(where):
    async def main():
        wheel = AsyncioWheel()
        fileno = wheel.fileno()
        tasks = [asyncio.ensure_future(wheel.sleep(60)) for _ in range(3)]
        await asyncio.sleep(0)
        if where == "here":
            wheel.close()
        else:
            threading.Thread(target=wheel.close).start()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(result, ValueError) and "closed" in str(result)
        assert not asyncio.get_running_loop().remove_reader(fileno)

    asyncio.run(main())


def test_drain_ends_those_that_sleep():
    async def main():
        async with AsyncioWheel() as wheel:
            timer = wheel.call_later(60, pytest.fail)
            task = asyncio.ensure_future(wheel.sleep(60))
            await asyncio.sleep(0)
            assert wheel.drain() == [timer]
            with pytest.raises(ValueError, match="drained"):
                await asyncio.wait_for(task, 30)

    asyncio.run(main())


def test_a_sleep_that_begins_while_a_thread_closes():
    async def main():
        wheel = AsyncioWheel()
        close = wheel._events.close
        closing, asleep = threading.Event(), threading.Event()

        def late():
            closing.set()
            assert asleep.wait(30)
            close()

        wheel._events.close = late
        thread = threading.Thread(target=wheel.close)
        thread.start()
        assert closing.wait(30)
        task = asyncio.ensure_future(wheel.sleep(60))
        await asyncio.sleep(0)
        asleep.set()
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(task, 10)
        thread.join(30)

    asyncio.run(main())


class Nameless:
    def __repr__(self):
        raise KeyError

    def __call__(self):
        raise ZeroDivisionError


def test_an_error_of_a_function_without_a_repr():
    async def main():
        seen = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        with AsyncioWheel() as wheel:
            wheel.call_later(0, Nameless())
            await wheel.sleep(0.02)
        assert [type(error) for error in seen] == [ZeroDivisionError]

    asyncio.run(main())
