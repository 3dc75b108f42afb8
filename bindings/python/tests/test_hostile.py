"""No call, in any order, from any thread, ends the process."""

import asyncio
import copy
import errno
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from hwheel import AsyncioWheel, Clock, EventWheel, Wheel, events


def every_call(wheel, timer):
    """Every call of a wheel."""
    return [
        lambda: wheel.once(1_000_000, 1),
        lambda: wheel.every(0, 1_000_000, 2),
        lambda: wheel.setup(3),
        lambda: wheel.mod(timer, 1_000_000),
        lambda: wheel.mod_range(timer, 0, 1_000_000),
        lambda: wheel.mod_many([timer], [5]),
        lambda: wheel.delete_many([timer]),
        lambda: wheel.set_period(timer, 0),
        lambda: wheel.pending(timer),
        lambda: wheel.remaining(timer),
        lambda: wheel.delete(timer),
        lambda: wheel.shutdown(timer),
        lambda: wheel.free(timer),
        lambda: wheel.key_set(7, 0, 4),
        lambda: wheel.key_mod(7, 0),
        lambda: wheel.key_pending(7),
        lambda: wheel.key_delete(7),
        wheel.now,
        wheel.next_expiry,
        wheel.stats,
        wheel.poll,
        lambda: wheel.advance(1),
        lambda: list(wheel.list()),
        wheel.fileno,
        lambda: wheel.wait(0),
    ]


def test_one_closes_while_others_use_it():
    for round in range(40):
        wheel = EventWheel()
        failed = []

        def use():
            try:
                while True:
                    for call in every_call(wheel, wheel.setup(1)):
                        try:
                            call()
                        except OSError:
                            pass  # EBUSY, EINVAL or ESTALE.
            except ValueError:
                pass  # The wheel is closed.
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(round % 10 / 1000)
        wheel.close()
        for thread in threads:
            thread.join()
        assert not failed


def test_use_after_close():
    wheel = EventWheel()
    timer = wheel.setup(1)
    wheel.close()
    wheel.close()
    for call in every_call(wheel, timer):
        with pytest.raises(ValueError, match="^the wheel is closed$"):
            call()


@pytest.mark.parametrize("drained", [False, True])
def test_close_wakes_those_that_wait(drained):
    wheel = EventWheel()
    if drained:
        wheel.drain()

    def wait():
        with pytest.raises(ValueError):
            while True:
                wheel.wait()

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.02)
    wheel.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_close_ends_run():
    wheel = Wheel()
    wheel.call_later(3600, print)
    thread = threading.Thread(target=wheel.run)
    thread.start()
    time.sleep(0.02)
    wheel.close()
    thread.join(10)
    assert not thread.is_alive()


def test_a_function_may_close_its_wheel():
    wheel = Wheel()
    wheel.call_later(0, wheel.close)
    wheel.call_later(0, wheel.close)
    wheel.run()
    with pytest.raises(ValueError):
        wheel.call_later(0, print)


def test_the_collector_closes_a_forgotten_wheel():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        wheel = EventWheel()
        wheel.wait(0)
        wheel.once(10**12, 1)
    del wheel
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) < before + 10


# The collector calls the finalizers of a cycle in any order. A wheel in the cycle must outlive
# the last of them.
FINALIZERS = """
import asyncio, gc, hwheel

class Last:
    def __del__(self):
        for use in self.uses:
            try:
                use()
            except (ValueError, OSError):
                pass

def cycle(wheel, *uses):
    last = Last()
    last.uses = [*uses, wheel.close, *uses]
    wheel.last = last

def event_wheel(owned):
    wheel = hwheel.EventWheel(owned=owned)
    wheel.wait(0)
    cycle(wheel, lambda: wheel.once(0, 1), wheel.poll, wheel.stats, wheel.drain, lambda: wheel.wait(0))

def called():
    wheel = hwheel.Wheel()
    cycle(wheel, lambda: wheel.call_later(0, int), wheel.poll, wheel.run)

async def asleep(wheel):
    async with wheel.timeout(60):
        await wheel.sleep(60)

def loop_left():
    loop = hwheel.loop_factory()()
    tasks = [asleep(hwheel.AsyncioWheel(loop)), asyncio.sleep(60)]
    loop.tasks = [loop.create_task(task) for task in tasks]
    loop.call_later(0, loop.stop)
    loop.run_forever()
    return loop
"""


@pytest.mark.parametrize(
    "made", ["event_wheel(False)", "event_wheel(True)", "called()", "loop_left()"])
def test_finalizers_of_a_cycle_use_its_wheel(made):
    for end in f"for _ in range(20):\n    {made}\n    gc.collect()", f"kept = {made}":
        ended = subprocess.run([sys.executable, "-W", "ignore", "-c", f"{FINALIZERS}\n{end}"])
        assert ended.returncode == 0


SUB_INTERPRETERS = r"""
import os, sys
if sys.version_info >= (3, 13):
    import _interpreters
    def make(is_isolated):
        return _interpreters.create("isolated" if is_isolated else "legacy")
else:
    import _xxsubinterpreters as _interpreters
    def make(is_isolated):
        return _interpreters.create(isolated=is_isolated)

def run(is_isolated, program):
    interpreter = make(is_isolated)
    _interpreters.run_string(interpreter, program)
    _interpreters.destroy(interpreter)

def descriptors():
    return len(os.listdir("/proc/self/fd"))

before, (reader, writer) = descriptors(), os.pipe()
for _ in range(5):
    run(False, "import hwheel; w = hwheel.EventWheel(); w.fileno(); w.itself = w")
assert descriptors() == before + 2
if sys.version_info >= (3, 12):
    run(True, f"import os\ntry:\n    import hwheel\nexcept ImportError:\n    os.write({writer}, b'!')")
    assert os.read(reader, 1) == b"!"
"""


def test_sub_interpreters_free_their_wheels():
    pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    subprocess.run([sys.executable, "-W", "ignore", "-c", SUB_INTERPRETERS], check=True, timeout=60)


def test_the_child_of_a_fork():
    wheel, manual = EventWheel(), EventWheel(clock=Clock.MANUAL)
    timer = wheel.setup(1)
    wheel.once(10**12, 1)
    wheel.wait(0)
    child = os.fork()
    if child == 0:
        code = 0
        for each in wheel, manual:
            for call in every_call(each, timer):
                try:
                    call()
                except (OSError, ValueError):
                    continue
                code = 1
            each.close()
            each.close()
        del wheel, manual
        gc.collect()
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    wheel.poll()
    assert not wheel.wait(0.001)
    assert wheel.once(0, 2)


def test_hostile_arguments():
    with EventWheel() as wheel:
        for timer in 0, 1, 12345, 2**63, 2**64 - 1:
            for call in wheel.delete, wheel.free, wheel.shutdown, wheel.pending:
                with pytest.raises(OSError, match="the timer no longer exists"):
                    call(timer)
        for arguments in (-1, 0), (2**64, 0), ("1", 0), (None, 0):
            with pytest.raises((OverflowError, TypeError)):
                wheel.mod(*arguments)
        for key in b"", b"x" * 256, -1, 2**64, "text", None:
            with pytest.raises((OSError, OverflowError, TypeError)):
                wheel.key_set(key, 0, 1)
        with pytest.raises(ValueError):
            wheel.mod_many([1], [1, 2])
        with pytest.raises(ValueError):
            wheel.mod_many([1], [-1])
        with pytest.raises(ValueError):
            wheel.set_period(1, -1)
        with pytest.raises(ValueError):
            wheel.wait(-1)
    for option in {"levels": -1}, {"slots": -1}, {"max_timers": -1}, {"tick_ns": -1}:
        with pytest.raises(ValueError):
            EventWheel(**option)
    with pytest.raises(TypeError):
        EventWheel(ticks=1)
    with pytest.raises(ValueError, match="closed"):
        EventWheel.__new__(EventWheel).now()


def test_what_lies_about_its_length():
    class Words(list):
        def __len__(self):
            return 10**7

    class Number:
        def __len__(self):
            return 10**7

        def __index__(self):
            return 1

    class Name(bytes):
        def __len__(self):
            return 256

    with EventWheel(clock=Clock.MANUAL, batch=2) as wheel:
        timers = [wheel.setup(n) for n in range(3)]
        assert wheel.mod_many(Words(timers), Words([0, 0, 0])) == [0, 0, 0]
        assert wheel.delete_many(Words(timers[:1])) == [1]
        with pytest.raises(TypeError):
            wheel.delete_many(Number())
        assert not wheel.key_set(Name(b"key"), 0, 1) and wheel.key_delete(b"key")
        with pytest.raises(AttributeError):
            wheel.batch = 1_000_000
        assert len(wheel.advance(1_000_000)) == wheel.batch == 2


@pytest.mark.parametrize("number", [Decimal("1.5"), Fraction(3, 2), 1.5, "1", None])
def test_numbers_are_not_cut(number):
    with EventWheel(clock=Clock.MANUAL) as wheel:
        timer = wheel.setup(1)
        for call in (
            lambda: wheel.once(number, 1),
            lambda: wheel.once(1, number),
            lambda: wheel.once(1, 1, number),
            lambda: wheel.every(1, number, 1),
            lambda: wheel.setup(number),
            lambda: wheel.mod(number, 1),
            lambda: wheel.mod(timer, number),
            lambda: wheel.mod_range(timer, 1, number),
            lambda: wheel.mod_many([timer], [number]),
            lambda: wheel.mod_many([number], [1]),
            lambda: wheel.mod_many([timer], [1], number),
            lambda: wheel.delete_many([number]),
            lambda: wheel.set_period(timer, number),
            lambda: wheel.pending(number),
            lambda: wheel.remaining(number),
            lambda: wheel.key_set(number, 1, 1),
            lambda: wheel.key_set(1, number, 1),
            lambda: wheel.key_set(1, 1, number),
            lambda: wheel.advance(number),
        ):
            with pytest.raises(TypeError):
                call()
        assert list(wheel.list()) == []
    for option in "clock", "tick_ns", "levels", "slots", "max_timers", "start_ns", "batch":
        with pytest.raises(TypeError):
            EventWheel(**{option: number})


@pytest.mark.parametrize("kind", [EventWheel, Wheel, AsyncioWheel])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_wheel_is_not_copied(kind, copied):
    async def main():
        with kind() as wheel, pytest.raises(TypeError, match="neither copied nor pickled"):
            copied(wheel)

    asyncio.run(main())


def test_a_signal_may_close_while_a_wait_begins(monkeypatch):
    wheel = EventWheel()
    pipe = os.pipe

    def interrupted():
        wheel.close()
        return pipe()

    monkeypatch.setattr(os, "pipe", interrupted)
    with pytest.raises(ValueError, match="closed"):
        wheel.wait(10)


def test_an_event_without_memory_comes_with_the_next_call(monkeypatch):
    class Full:
        size = events._EVENT.size

        def iter_unpack(self, _):
            raise MemoryError

    with EventWheel(clock=Clock.MANUAL) as wheel:
        wheel.once(0, 7)
        with monkeypatch.context() as patch:
            patch.setattr(events, "_EVENT", Full())
            with pytest.raises(MemoryError):
                wheel.advance(1_000_000)
        assert [cookie for _, cookie, *_ in wheel.advance(1_000_000)] == [7]
        assert wheel.advance(1_000_000) == []


def test_no_memory_is_read_that_is_free():
    program = (
        "import hwheel\n"
        "with hwheel.EventWheel(clock=hwheel.Clock.MANUAL) as wheel:\n"
        "    assert not any(wheel.lateness()), wheel.lateness()"
    )
    # The C library fills what is freed.
    fill = {"MALLOC_PERTURB_": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **fill}, check=True)


def test_a_loop_that_closes_before_its_wheel():
    async def main():
        return AsyncioWheel()

    wheel = asyncio.run(main())
    wheel.close()
    wheel.close()


def test_the_child_of_a_fork_leaves_its_parents_loop_alone():
    loop = asyncio.new_event_loop()
    with AsyncioWheel(loop) as wheel:
        child = os.fork()
        if child == 0:
            wheel.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        loop.run_until_complete(asyncio.wait_for(wheel.sleep(0.01), 30))
    loop.close()


def test_async_with():
    async def main():
        async with AsyncioWheel() as wheel:
            await wheel.sleep(0.001)
        with pytest.raises(ValueError):
            await wheel.sleep(0.001)

    asyncio.run(main())


def test_a_child_that_returns_from_a_function_calls_no_other():
    with Wheel() as wheel:
        parent, children, called = os.getpid(), [], []
        wheel.call_later(0, lambda: children.append(os.fork()))
        for i in range(5):
            wheel.call_later(0, called.append, i)
        time.sleep(0.01)
        try:
            wheel.run()
        except OSError as error:
            if os.getpid() == parent:
                raise
            os._exit(0 if error.errno == errno.ESHUTDOWN and not called else 1)
        if os.getpid() != parent:
            os._exit(2)
        assert called == [*range(5)]
        assert os.waitpid(children[0], 0)[1] == 0
