"""Wheel: Python functions, times in seconds."""

import contextlib
import errno
import gc
import math
import re
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import hwheel
from hwheel import MISSED_BURST, MISSED_DELAY, Clock, Wheel


@pytest.fixture
def wheel():
    with Wheel(clock=Clock.MANUAL) as wheel:
        yield wheel


@pytest.fixture
def raised(monkeypatch):
    """What sys.unraisablehook was given."""
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(args.exc_value))
    return raised


def test_calls_come_in_order_and_never_early(wheel):
    log = []
    wheel.call_later(0.003, log.append, "c")
    wheel.call_at(0.001, log.append, "a")
    wheel.call_later(0.002, log.append, "b")
    assert len(wheel) == 3
    assert wheel.advance(0.0009) == 0
    assert wheel.advance(0.002) == 2 and log == ["a", "b"]
    assert wheel.advance(1) == 1 and log == ["a", "b", "c"]
    assert len(wheel) == 0


def test_a_delay_is_not_rounded_down():
    with Wheel(clock=Clock.MANUAL, tick=1e-6) as wheel:
        wheel.call_later(1.5e-6, lambda: None)
        assert wheel.advance(1.2e-6) == 0
        assert wheel.advance(2e-6) == 1


def test_the_time_of_a_timer_reaches_it(wheel):
    missed = []
    for ms in range(1, 2000):
        timer = wheel.call_at(ms / 1000, lambda: None)
        if wheel.advance(ms / 1000) != 1:
            missed.append(ms)
            timer.cancel()
    assert missed == []


def test_a_long_time_is_never(wheel):
    for seconds in 1e10, 1e300, 10**400, math.inf:
        timer = wheel.call_later(seconds, lambda: None)
        assert timer.remaining() == math.inf
    for now in -1, math.nan, math.inf, 10**400:
        with pytest.raises(ValueError):
            wheel.advance(now)


def test_never_and_the_past(wheel):
    log = []
    wheel.advance(10)
    never = wheel.call_later(math.inf, log.append, "never")
    assert never.remaining() == math.inf
    wheel.call_later(0, log.append, "past")
    wheel.call_at(1, log.append, "before")
    wheel.advance(10.001)
    assert sorted(log) == ["before", "past"] and never.pending
    with pytest.raises(ValueError):
        wheel.call_later(math.nan, log.append)
    for negative in (-5, -1e-9, -math.inf):
        with pytest.raises(ValueError):
            wheel.call_later(negative, log.append)
        with pytest.raises(ValueError):
            wheel.call_at(negative, log.append)


def test_cancel(wheel):
    timer = wheel.call_later(0.001, pytest.fail)
    assert timer.pending and timer.remaining() == pytest.approx(0.001)
    assert timer.cancel() and not timer.cancel()
    assert not timer.pending and timer.remaining() is None
    assert wheel.advance(1) == 0
    assert wheel.stats()["live"] == 0


def test_a_timer_is_armed_again_and_again(wheel):
    log = []
    timer = wheel.timer(log.append, 1)
    assert not timer.arm(0.010)
    assert timer.arm(0.020) and wheel.advance(0.010) == 0
    assert timer.arm_at(0.015) and wheel.advance(0.015) == 1
    assert not timer.arm(0.001) and wheel.advance(0.016) == 1
    assert len(wheel) == 0 and wheel.stats()["live"] == 0


def test_a_timer_that_cannot_be_armed_stays_as_it_was():
    with Wheel(clock=Clock.MANUAL, max_timers=2) as wheel:
        log, failed = [], []

        def arm():
            # The place of a timer that is collected and not called yet is free.
            with contextlib.suppress(OSError):
                while True:
                    wheel._events.setup(0)
            for again in collected.arm, collected.arm_at:
                try:
                    again(5)
                except OSError as error:
                    failed.append(error.errno)

        wheel.call_at(0.001, arm)
        collected = wheel.call_at(0.001, log.append, "called")
        wheel.advance(0.001)
        assert failed == 2 * [errno.ENOSPC]
        assert log == ["called"] and not collected.pending


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOSPC])
def test_a_periodic_timer_survives_that_it_cannot_be_armed(wheel, monkeypatch, number):
    log = []
    timer = wheel.call_every(0.001, log.append, 1)

    def fails(*_):
        raise OSError(number, "full")

    monkeypatch.setattr(wheel._events, "every", fails)
    assert timer.arm(0.010) and timer.pending and wheel.advance(0.009) == 0
    assert wheel.advance(0.010) == 1 and wheel.advance(0.011) == 1
    monkeypatch.setattr(wheel._events, "mod", fails)
    with pytest.raises(OSError, match="full"):
        timer.arm(0.010)
    assert timer.pending and wheel.advance(0.012) == 1
    monkeypatch.undo()
    assert timer.cancel() and wheel.stats()["live"] == 0


def test_a_periodic_timer_is_moved_in_a_full_wheel():
    with Wheel(clock=Clock.MANUAL, max_timers=2) as wheel:
        log, moved = [], []
        wheel.call_at(0.001, lambda: moved.append(timer.arm(5)))
        timer = wheel.call_every(0.001, log.append, "early")
        assert wheel.advance(0.001) == 1 and moved == [True]  # The other event was collected.
        wheel._events.setup(0)
        assert timer.arm(6) and wheel.advance(6) == 0
        assert wheel.advance(6.001) == 1 and wheel.advance(6.002) == 1
        assert timer.cancel()


def test_every(wheel):
    missed = []
    timer = wheel.call_every(0.001, lambda: missed.append(timer.missed))
    assert wheel.advance(0.001) == 1
    assert wheel.advance(0.005) == 1 and missed == [0, 3]
    assert timer.arm(0.1) and wheel.advance(0.1) == 0 and wheel.advance(0.105) == 1
    assert timer.cancel() and wheel.advance(1) == 0
    burst = wheel.call_every(0.001, lambda: None, first=0.002, missed=MISSED_BURST)
    assert wheel.advance(1.010) == 9
    assert burst.cancel() and wheel.stats()["live"] == 0
    with pytest.raises(ValueError):
        wheel.call_every(0, lambda: None)
    for neither in 1, 2, MISSED_BURST | MISSED_DELAY:
        with pytest.raises(ValueError):
            wheel.call_every(1, lambda: None, missed=neither)


def test_a_callback_cancels_itself_and_its_siblings(wheel):
    """All three are in one batch; each cancels the two others."""
    log = []

    def fire(me):
        log.append(me)
        for other in range(3):
            timers[other].cancel()

    timers = [wheel.call_later(0.001, fire, n) for n in range(3)]
    assert wheel.advance(1) == 1 and len(log) == 1

    ticks = wheel.call_every(0.001, lambda: ticks.cancel())
    assert wheel.advance(2) == 1 and wheel.stats()["live"] == 0


def test_a_callback_moves_a_sibling_that_is_collected_already(wheel):
    log = []
    timers = []

    def fire(me):
        log.append(me)
        timers[1 - me].arm(1)

    timers += [wheel.call_later(0.001, fire, n) for n in range(2)]
    assert wheel.advance(0.5) == 1
    assert wheel.advance(1.4) == 0
    assert wheel.advance(1.5) == 1 and sorted(log) == [0, 1]


def test_arming_with_no_delay_in_a_callback_waits_for_the_next_tick(wheel):
    timer = wheel.timer(lambda: timer.arm(0))
    timer.arm(0)
    assert wheel.advance(0.001) == 1
    assert wheel.advance(0.002) == 1


def test_polling_in_a_callback_goes_on_with_the_rest(wheel):
    order = []
    wheel.call_later(0.001, lambda: order.append(wheel.advance(0.001)))
    wheel.call_later(0.001, order.append, "other")
    wheel.advance(0.001)
    assert order in ([1, "other"], ["other", 1], ["other", 0])


def test_an_exception_does_not_stop_the_wheel(wheel, raised):
    log = []
    wheel.call_later(0.001, lambda: 1 / 0)
    wheel.call_later(0.002, log.append, "after")
    wheel.call_every(0.003, int, "no number")
    assert wheel.advance(0.003) == 3 and log == ["after"]
    assert [type(e) for e in raised] == [ZeroDivisionError, ValueError]
    assert len(wheel) == 1  # A period that raised goes on.


def test_an_interrupt_leaves_and_nothing_is_lost(wheel, raised):
    log = []

    def interrupt():
        raise KeyboardInterrupt

    wheel.call_later(0.001, interrupt)
    wheel.call_later(0.002, log.append, "after")
    with pytest.raises(KeyboardInterrupt):
        wheel.advance(1)
    assert log == []
    assert wheel.advance(1) == 1 and log == ["after"] and raised == []


def test_a_run_after_an_interrupt_goes_on():
    def interrupt():
        raise KeyboardInterrupt

    with Wheel() as wheel:
        log = []
        wheel.call_later(0, log.append, "before")
        wheel.run()
        wheel.call_later(0, interrupt)
        wheel.call_later(0, log.append, "after")
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            wheel.run()
        stop = threading.Timer(5, wheel.stop)
        stop.start()
        wheel.run()
        stop.cancel()
        assert log == ["before", "after"]


def test_an_interrupt_does_not_keep_another_run_asleep():
    def interrupt():
        raise KeyboardInterrupt

    with Wheel() as wheel:
        log = []
        wheel.call_later(0, interrupt)
        wheel.call_later(0, log.append, "after")
        time.sleep(0.01)
        with pytest.raises(KeyboardInterrupt):
            wheel.poll()
        assert select.select([wheel], [], [], 5)[0] == [wheel]
        wheel.poll()
        assert log == ["after"]


def test_run_until_nothing_is_armed():
    with Wheel() as wheel:
        begin = time.monotonic()
        at = []
        wheel.call_later(0.02, lambda: at.append(time.monotonic() - begin))
        wheel.run()
        assert len(at) == 1 and at[0] >= 0.02


def test_another_thread_arms_and_stops():
    with Wheel() as wheel:
        called = threading.Event()
        wheel.call_later(3600, pytest.fail)
        thread = threading.Thread(target=wheel.run)
        thread.start()
        wheel.call_later(0.001, called.set)
        assert called.wait(30)
        wheel.stop()
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("end", [Wheel.stop, Wheel.drain])
def test_run_ends_when_the_wheel_is_full(end):
    with Wheel(max_timers=1) as wheel:
        wheel.call_later(3600, pytest.fail)
        thread = threading.Thread(target=wheel.run)
        thread.start()
        while not wheel._running or not wheel._running[0]._pipe:
            time.sleep(0.001)
        end(wheel)
        thread.join(30)
        assert not thread.is_alive()


def test_run_goes_on_while_another_thread_drives():
    with Wheel() as wheel:
        called = threading.Event()
        wheel.call_later(0, called.set)
        wheel._events._driver = hwheel.events._Driver()
        thread = threading.Thread(target=wheel.run)
        thread.start()
        assert not called.wait(0.02)
        del wheel._events._driver
        assert called.wait(30)
        thread.join(30)


def test_a_thousand_calls_from_four_threads():
    with Wheel() as wheel:
        calls = []

        def arm(n):
            for i in range(1000):
                wheel.call_later(0.001 * (i % 20), calls.append, (n, i))
                wheel.call_later(60, pytest.fail).cancel()

        threads = [threading.Thread(target=arm, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        while any(t.is_alive() for t in threads):
            wheel.poll()
        wheel.run()
        assert sorted(calls) == [(n, i) for n in range(4) for i in range(1000)]
        assert wheel.stats()["live"] == 0


def test_a_second_driver_is_refused():
    with Wheel(clock=Clock.MANUAL) as wheel:
        timer = wheel.call_later(1, list)
        wheel._events._driver = hwheel.events._Driver()
        for call in lambda: wheel.advance(1), wheel.drain:
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.EBUSY
        assert timer.pending
        del wheel._events._driver
        assert wheel.advance(1) == 1


def test_drain(wheel):
    timers = {wheel.call_later(n, pytest.fail) for n in range(1, 4)}
    assert set(wheel.drain()) == timers
    assert not any(t.pending or t.cancel() for t in timers)
    with pytest.raises(OSError) as caught:
        wheel.call_later(1, pytest.fail)
    assert caught.value.errno == errno.ESHUTDOWN and len(wheel) == 0


def test_a_wheel_that_nobody_holds_is_collected():
    wheel = Wheel()
    wheel.call_later(1, print)
    gone = weakref.ref(wheel._events)
    del wheel
    gc.collect()
    assert gone() is None


def test_run_ends_when_another_thread_cancels_the_last_timer():
    with Wheel() as wheel:
        timer = wheel.call_later(3600, pytest.fail)
        runs = [threading.Thread(target=wheel.run) for _ in range(2)]
        for thread in runs:
            thread.start()
        while len(wheel._running) < 2 or not all(bell._pipe for bell in wheel._running):
            time.sleep(0.001)
        assert timer.cancel()
        for thread in runs:
            thread.join(30)
            assert not thread.is_alive()


class Nameless:
    def __repr__(self):
        raise KeyError

    def __call__(self):
        raise ZeroDivisionError


def test_an_error_of_a_function_without_a_repr(wheel, raised):
    log = []
    wheel.call_later(1, Nameless())
    wheel.call_later(1, log.append, "after")
    assert wheel.advance(1) == 2 and log == ["after"]
    assert [type(e) for e in raised] == [ZeroDivisionError]


class Bang(BaseException):
    pass


# The signal may come while the interpreter forgets the wheel before, where nobody can catch.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_loses_at_most_the_timer_at_hand():
    def bang(*_):
        raise Bang

    before = signal.signal(signal.SIGALRM, bang)
    try:
        for turn in range(600):
            with Wheel(clock=Clock.MANUAL, tick=1e-6) as wheel:
                called = []
                for n in range(50):
                    wheel.call_later(1e-6 * (1 + n // 10), called.append, n)
                with contextlib.suppress(Bang):
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + turn % 150))
                    for now in range(1, 8):
                        wheel.advance(now * 2e-6)
                    time.sleep(0.01)
                wheel.advance(1)
                assert len(called) == len(set(called)) >= 49 and len(wheel) == 0
                assert wheel.stats()["pending"] == 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_is_no_function_is_refused(wheel):
    for callback in None, 5, "name":
        for call in wheel.call_later, wheel.call_at, wheel.call_every:
            with pytest.raises(TypeError, match="not a function"):
                call(1, callback)
        with pytest.raises(TypeError, match="not a function"):
            wheel.timer(callback)
    assert len(wheel) == 0 and wheel.stats()["armed"] == 0


def test_a_wheel_is_made_once(wheel):
    wheel.call_later(1, int)
    with pytest.raises(RuntimeError):
        wheel.__init__()
    assert len(wheel) == 1


def test_the_last_function_of_a_full_batch_may_close_the_wheel():
    for due in 1, 2, 3:
        with Wheel(batch=2) as wheel:
            calls = []
            for _ in range(due - 1):
                wheel.call_later(0, calls.append, 1)
            wheel.call_later(0, wheel.close)
            time.sleep(0.005)
            assert wheel.poll() == due


README = Path(__file__).parent.parent / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_of_the_readme_runs_and_prints(program):
    assert subprocess.check_output([sys.executable, "-c", program], timeout=60)
