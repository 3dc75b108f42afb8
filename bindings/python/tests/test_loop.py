"""Event loops of loop_factory: asyncio's and uvloop's, and virtual time."""

import asyncio
import gc
import os
import socket
import sys
import threading
import time
import weakref

import pytest

import hwheel
from hwheel import AsyncioWheel, loop_factory

try:
    import uvloop
except ImportError:
    uvloop = None

HOUR = 3600


def run(main, factory):
    """What asyncio.run does, for every version of Python."""
    loop = factory()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


bases = [asyncio.SelectorEventLoop]
if uvloop:
    bases.append(uvloop.Loop)
each_loop = pytest.mark.parametrize("base", bases)


def test_uvloop_is_tested_too():
    if not uvloop:
        pytest.skip("no uvloop: pip install uvloop")


@each_loop
def test_calls_come_in_the_order_of_their_times_and_none_early(base):
    async def main():
        loop = asyncio.get_running_loop()
        begin, seen = loop.time(), []
        # Times within a tick, in no order; two thousand do not fit a batch.
        whens = [begin + 0.2 + n * 7919 % 2000 / 1e6 for n in range(2000)]
        for when in whens:
            loop.call_at(when, lambda when=when: seen.append((when, loop.time())))
        cancelled = [loop.call_later(0.01, pytest.fail) for _ in range(100)]
        for handle in cancelled:
            handle.cancel()
        await asyncio.sleep(0.25)
        assert [when for when, _ in seen] == sorted(whens)
        assert all(now >= when for when, now in seen)
        assert not loop._armed and loop._timers.stats()["live"] == 0

    run(main, loop_factory(base))


@each_loop
def test_a_clock_that_is_frozen_later_stops_no_timer(base, monkeypatch):
    async def main():
        loop = asyncio.get_running_loop()
        wheel = AsyncioWheel()
        real, begin = time.perf_counter, time.perf_counter()
        frozen = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: frozen)
        # As freezegun does: each module that has the function itself.
        for module in [*sys.modules.values()]:
            if module.__name__.startswith("hwheel"):
                assert not [name for name, value in vars(module).items() if value is clock]
        await asyncio.sleep(0.02)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(60), 0.02)
        await wheel.sleep(0.02)
        with pytest.raises(asyncio.TimeoutError):
            async with wheel.timeout(0.02):
                await asyncio.sleep(60)
        assert 0.08 <= real() - begin < 30 and loop.time() != frozen
        wheel.close()

    clock = time.monotonic
    run(main, loop_factory(base))


def test_virtual_time_stands_still_while_nothing_is_pending():
    async def main():
        loop = asyncio.get_running_loop()
        wheel = AsyncioWheel()
        never = loop.create_task(asyncio.sleep(float("inf")))
        wheel.call_later(float("inf"), pytest.fail)
        await asyncio.wait_for(asyncio.sleep(1), HOUR)
        wheel.call_later(HOUR, pytest.fail).cancel()
        async with wheel.timeout(2 * HOUR):
            await wheel.sleep(1)
        reply, answer = loop.create_future(), threading.Timer(
            0.1, lambda: loop.call_soon_threadsafe(reply.set_result, "answer"))
        answer.start()
        assert await reply == "answer"
        answer.join()
        assert loop.time() == wheel.time() == 2
        # Nor does anybody see the time of a cancelled timer on the way.
        for hours in 1, 2, 3:
            loop.call_later(hours * HOUR, pytest.fail).cancel()
        seen = []
        loop.call_later(10 * HOUR, lambda: seen.append(loop.time()))
        await wheel.sleep(11 * HOUR)
        assert seen == [2 + 10 * HOUR] and loop.time() == 2 + 11 * HOUR
        never.cancel()
        wheel.close()

    run(main, loop_factory(virtual_time=True))


@each_loop
def test_a_time_that_has_passed_comes_with_the_next_turn(base):
    async def main():
        loop, seen = asyncio.get_running_loop(), []
        for delay in 0, -1, -1e9:
            loop.call_later(delay, seen.append, delay)
        loop.call_at(loop.time(), seen.append, "now")
        cancelled = loop.call_later(0, pytest.fail)
        cancelled.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(seen) == 4 and not loop._armed

    run(main, loop_factory(base))


@each_loop
def test_asyncio_sleeps_and_times_out_on_it(base):
    async def main():
        loop = asyncio.get_running_loop()
        begin = loop.time()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(60), 0.02)
        await asyncio.gather(*(asyncio.sleep(n % 10 / 1000) for n in range(1000)))
        assert 0.029 <= loop.time() - begin < 30
        async with AsyncioWheel() as wheel:
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(0.01):
                    await asyncio.sleep(60)
        assert not loop._armed

    run(main, loop_factory(base, tick=0.0005))


@each_loop
def test_an_error_goes_to_the_loop_and_the_others_follow(base):
    async def main():
        loop, errors, seen = asyncio.get_running_loop(), [], []
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        when = loop.time() + 0.005
        loop.call_at(when, lambda: 1 / 0)
        loop.call_at(when, seen.append, 1)
        await asyncio.sleep(0.02)
        assert [type(error) for error in errors] == [ZeroDivisionError] and seen == [1]

    run(main, loop_factory(base))


@each_loop
def test_an_interrupt_loses_none(base):
    def interrupt():
        raise KeyboardInterrupt

    loop, seen = loop_factory(base)(), []
    when = loop.time() + 0.005
    for n in range(10):
        loop.call_at(when, interrupt if n % 3 == 0 else lambda n=n: seen.append(n))
    interrupts = 0
    while len(seen) < 6:
        try:
            loop.run_until_complete(asyncio.sleep(0.01))
        except KeyboardInterrupt:
            interrupts += 1
    # uvloop raises one for those of a turn.
    assert 1 <= interrupts <= 4 and sorted(seen) == [1, 2, 4, 5, 7, 8]
    loop.run_until_complete(asyncio.sleep(0.02))
    loop.close()


@each_loop
def test_bad_arguments_change_nothing(base):
    loop = loop_factory(base)()
    for call in loop.call_later, loop.call_at:
        with pytest.raises(TypeError):
            call(None, print)
        with pytest.raises(ValueError):
            call(float("nan"), print)
        with pytest.raises(TypeError):
            call("1", print)
    assert loop._timers.stats()["live"] == 0 and not loop._armed
    never = loop.call_later(1e300, print)
    never.cancel()
    for _ in range(2):
        loop.close()
    for call in loop.call_later, loop.call_at:
        for delay in 0, 1e12:
            with pytest.raises(RuntimeError, match="closed"):
                call(delay, print)
    with pytest.raises(TypeError):
        loop_factory(base, ticks=1)
    for tick in -1, float("nan"):
        with pytest.raises(ValueError):
            loop_factory(base, tick=tick)
    with pytest.raises(OSError):
        loop_factory(base, tick=1e6)()


@each_loop
def test_a_handle_outlives_its_loop(base):
    loop = loop_factory(base)()
    handle = loop.call_later(60, print)
    loop.close()
    handle.cancel()
    handle.cancel()
    assert handle.cancelled()
    loop = loop_factory(base)()
    handle = loop.call_later(60, print)
    child = os.fork()
    if child == 0:
        handle.cancel()
        os._exit(0 if handle.cancelled() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(loop._armed) == 1
    loop.close()


def test_a_loop_is_collected():
    loop = loop_factory()()
    loop.call_later(60, print)
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None


def test_debug_mode_names_the_line_and_the_thread():
    loop = loop_factory()()
    loop.set_debug(True)
    for delay in 0, 60:
        for call in loop.call_later, loop.call_at:
            assert call(delay, print)._source_traceback[-1].name == sys._getframe().f_code.co_name
    seen = []

    async def main():
        thread = threading.Thread(target=lambda: seen.append(
            pytest.raises(RuntimeError, loop.call_later, 60, print)))
        thread.start()
        thread.join(30)

    loop.run_until_complete(main())
    assert len(seen) == 1
    with pytest.raises(TypeError):
        loop.call_later(60, None)
    loop.close()


# Virtual time.


def test_an_hour_passes_in_no_time():
    async def main():
        loop = asyncio.get_running_loop()
        assert loop.time() == 0
        begin, seen = time.monotonic(), []
        loop.call_later(HOUR, seen.append, "call")
        await asyncio.gather(*(asyncio.sleep(n / 8) for n in range(100)))
        assert loop.time() == 99 / 8
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(loop.create_future(), 2 * HOUR)
        assert seen == ["call"] and loop.time() == 99 / 8 + 2 * HOUR
        await asyncio.sleep(100 * 365 * 24 * HOUR)
        assert time.monotonic() - begin < 30

    run(main, loop_factory(virtual_time=True))


def test_time_stands_still_while_something_runs():
    async def main():
        loop = asyncio.get_running_loop()
        moved = loop.call_later(0.001, lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        assert loop.time() == 0 and not moved.cancelled()
        # A thread that the loop waits for, and a socket that is readable.
        loop.call_later(1, lambda: None)
        assert await loop.run_in_executor(None, lambda: time.sleep(0.05) or 7) == 7
        assert loop.time() == 0
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            there.send(b"x")
            assert await asyncio.wait_for(loop.sock_recv(here, 1), 1) == b"x"
        assert loop.time() == 0
        await asyncio.sleep(0.5)
        assert loop.time() == 0.5

    run(main, loop_factory(virtual_time=True))


def test_a_wheel_in_virtual_time_has_the_clock_of_its_loop():
    async def main():
        loop, seen = asyncio.get_running_loop(), []
        await asyncio.sleep(5)
        async with AsyncioWheel() as wheel, AsyncioWheel(tick=1) as coarse:
            assert wheel.time() == coarse.time() == 5
            wheel.call_every(HOUR, lambda: seen.append(loop.time()))
            with pytest.raises(asyncio.TimeoutError):
                async with wheel.timeout(2.5 * HOUR):
                    await wheel.sleep(3 * HOUR)
            assert seen == [5 + HOUR, 5 + 2 * HOUR] and loop.time() == 5 + 2.5 * HOUR
            for n in range(3000):  # More than a batch.
                wheel.call_later(1, seen.append, n)
            await coarse.sleep(0.5)
            await wheel.sleep(2)
            assert len(seen) == 3002
            assert wheel.time() == coarse.time() == loop.time()
        assert not loop._followers
        await asyncio.sleep(HOUR)
        # One that is closed in another thread.
        wheel = AsyncioWheel()
        wheel.call_later(1, pytest.fail)
        await loop.run_in_executor(None, wheel.close)
        await asyncio.sleep(HOUR)

    run(main, loop_factory(virtual_time=True))


def test_virtual_time_with_nothing_to_wait_for_waits_for_threads():
    async def main():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        threading.Timer(0.02, loop.call_soon_threadsafe, (future.set_result, 1)).start()
        never = loop.call_later(float("inf"), pytest.fail)
        assert await future == 1 and loop.time() == 0
        never.cancel()

    run(main, loop_factory(virtual_time=True))


def test_virtual_time_is_for_loops_of_asyncio():
    class Other(asyncio.AbstractEventLoop):
        pass

    with pytest.raises(ValueError):
        loop_factory(Other, virtual_time=True)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.Runner came with Python 3.11")
def test_a_runner_takes_the_factory():
    with asyncio.Runner(loop_factory=hwheel.loop_factory(virtual_time=True)) as runner:
        runner.run(asyncio.sleep(HOUR))
        assert runner.get_loop().time() == HOUR


def test_a_loop_may_be_made_in_one_thread_and_run_in_another():
    loop, seen = hwheel.loop_factory()(), []
    try:
        loop.call_later(60, seen.append, "never").cancel()
        assert loop._timers.stats()["pending"] == 0
        loop.call_later(0.01, seen.append, "made before")
        loop.call_later(0.02, loop.stop)
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        thread.join(30)
        assert seen == ["made before"]
        loop.run_until_complete(asyncio.sleep(0.01))
    finally:
        loop.close()
    assert not hwheel.events._left


def test_a_timer_of_another_thread_is_refused_while_the_loop_runs():
    async def main():
        loop = asyncio.get_running_loop()
        kept = loop.call_later(60, print)
        with pytest.raises(PermissionError, match="another thread owns the wheel"):
            await loop.run_in_executor(None, loop.call_later, 1, print)
        assert list(loop._armed.values()) == [kept]
        kept.cancel()

    loop = hwheel.loop_factory()()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
