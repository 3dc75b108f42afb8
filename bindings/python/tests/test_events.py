"""EventWheel: integers in, batches of events out."""

import concurrent.futures
import errno
import os
import sys
import time

import pytest

import hwheel
from hwheel import ABS, IF_PENDING, MISSED_BURST, NEVER, REDUCE, Clock, EventWheel

MS = 1_000_000


@pytest.fixture
def wheel():
    with EventWheel(clock=Clock.MANUAL) as wheel:
        yield wheel


def fails_with(code, call, *args):
    with pytest.raises(OSError) as caught:
        call(*args)
    assert caught.value.errno == code


def test_version():
    assert [int(n) for n in hwheel.version().split(".")] >= [0, 1, 0]


def test_an_event_tells_timer_cookie_and_deadline(wheel):
    timer = wheel.once(5 * MS, 2**64 - 1)
    assert wheel.advance(5 * MS - 1) == []
    assert wheel.advance(5 * MS) == [(timer, 2**64 - 1, 5 * MS, 0, 0)]
    assert wheel.advance(6 * MS) == []


def test_a_full_batch_means_there_may_be_more():
    with EventWheel(clock=Clock.MANUAL, batch=4) as wheel:
        for cookie in range(10):
            wheel.once(cookie * MS, cookie, ABS)
        batches = [[e[1] for e in wheel.advance(20 * MS)] for _ in range(4)]
    assert [len(b) for b in batches] == [4, 4, 2, 0]
    assert sum(batches, []) == list(range(10))


def test_periods_that_were_missed_are_counted_or_fired(wheel):
    skipping = wheel.every(MS, MS, 1)
    assert [(e[1], e[3]) for e in wheel.advance(10 * MS)] == [(1, 9)]
    assert wheel.delete(skipping)
    wheel.every(11 * MS, MS, 2, ABS | MISSED_BURST)
    assert [(e[1], e[3]) for e in wheel.advance(20 * MS)] == [(2, 0)] * 10


def test_a_reusable_timer(wheel):
    timer = wheel.setup(7)
    assert not wheel.pending(timer) and wheel.remaining(timer) is None
    assert not wheel.mod(timer, MS, IF_PENDING)
    assert not wheel.mod(timer, 10 * MS)
    assert wheel.remaining(timer) == 10 * MS
    assert wheel.mod(timer, 20 * MS, REDUCE)
    assert wheel.remaining(timer) == 10 * MS
    assert wheel.mod(timer, 3 * MS, ABS | IF_PENDING)
    assert [e[1] for e in wheel.advance(3 * MS)] == [7]
    assert not wheel.mod(timer, NEVER)
    assert wheel.next_expiry() is None
    assert wheel.shutdown(timer)
    fails_with(errno.ESHUTDOWN, wheel.mod, timer, MS)
    assert not wheel.free(timer)
    fails_with(errno.ESTALE, wheel.pending, timer)


def test_errors_carry_their_number(wheel):
    fails_with(errno.ESTALE, wheel.delete, 12345)
    fails_with(errno.EINVAL, wheel.every, MS, 0, 1)
    fails_with(errno.EINVAL, wheel.poll)  # Its clock is manual.
    fails_with(errno.EINVAL, lambda: EventWheel(slots=3))
    with EventWheel(max_timers=1) as small:
        small.once(NEVER, 1)
        fails_with(errno.ENOSPC, small.once, NEVER, 2)
    with pytest.raises(ValueError, match="closed"):
        small.once(MS, 3)
    small.close()


def test_errors_are_in_the_librarys_words(wheel):
    with pytest.raises(OSError, match="the timer no longer exists"):
        wheel.delete(12345)


def test_a_negative_time_is_a_value_error(wheel):
    timer = wheel.setup(1)
    for call in (
        lambda: wheel.once(-1, 1),
        lambda: wheel.every(0, -1, 1),
        lambda: wheel.every(0, 1, 1, slack_ns=-1),
        lambda: wheel.mod(timer, -1),
        lambda: wheel.mod_range(timer, 0, -1),
        lambda: wheel.key_set(7, -1, 1),
        lambda: wheel.key_mod(7, -1),
        lambda: wheel.advance(-1),
        lambda: EventWheel(tick_ns=-1),
    ):
        with pytest.raises(ValueError):
            call()
    fails_with(errno.EINVAL, wheel.once, 2**63, 1)
    assert wheel.stats()["pending"] == 0


def test_pending_timers_are_listed():
    with EventWheel(clock=Clock.MANUAL, batch=2) as wheel:
        for cookie in range(5):
            wheel.once(MS, cookie)
        wheel.key_set(b"key", MS, 5)
        for timer, cookie, _, _, _ in wheel.list():
            assert cookie == 5 if timer == 0 else wheel.delete(timer)
        assert [cookie for _, cookie, _, _, _ in wheel.list()] == [5]


def test_a_range_shares_a_wake_up(wheel):
    timer = wheel.setup(1)
    assert not wheel.mod_range(timer, 100 * MS, 100 * MS)
    assert wheel.advance(99 * MS) == []
    assert len(wheel.advance(200 * MS)) == 1


def test_drain_hands_back_what_is_armed(wheel):
    timers = {wheel.once(MS, 1), wheel.once(NEVER, 2)}
    events = wheel.drain()
    assert {e[0] for e in events} == timers and wheel.drain() == []
    fails_with(errno.ESHUTDOWN, wheel.once, MS, 1)


def test_the_descriptor_wakes_not_early():
    with EventWheel() as wheel:
        begin = wheel.now()
        wheel.once(20 * MS, 1)
        while not (events := wheel.poll()):
            assert wheel.wait(10)
        [event] = events
        assert event[1] == 1 and event[2] >= begin + 20 * MS
        assert wheel.now() >= event[2]
        assert wheel.next_expiry() is None


def test_the_clock_is_the_one_of_time_monotonic():
    with EventWheel() as wheel:
        before = time.monotonic_ns()
        now = wheel.now()
        assert before <= now <= time.monotonic_ns()


@pytest.mark.parametrize("key", [b"session 7", 7])
def test_a_key_that_is_set_again_moves_its_timer(wheel, key):
    assert not wheel.key_set(key, MS, 1)
    assert not wheel.key_set(b"other", MS, 2)
    assert wheel.key_set(key, 2 * MS, 3)
    assert wheel.key_mod(b"other", 3 * MS)
    assert wheel.key_pending(key)
    assert wheel.advance(2 * MS) == [(0, 3, 2 * MS, 0, 0)]
    assert not wheel.key_pending(key)
    assert not wheel.key_mod(key, MS)
    assert not wheel.key_delete(key)
    assert wheel.key_delete(b"other")
    fails_with(errno.EINVAL, wheel.key_set, b"", MS, 1)


def test_stats(wheel):
    wheel.once(MS, 1)
    wheel.advance(MS)
    stats = wheel.stats()
    assert stats["fired"] == 1 and stats["live"] == 0
    assert all(isinstance(n, int) for n in stats.values())
    assert wheel.lateness()[0] == 1 == sum(wheel.lateness())


def test_a_subclass_may_say_another_batch():
    class Big(EventWheel):
        batch = 4096

    with Big(clock=Clock.MANUAL, batch=2) as wheel:
        for n in range(5000):
            wheel.once(0, n)
        assert len(list(wheel.list())) == 5000
        assert [len(wheel.advance(10**6)) for _ in range(2500)] == [2] * 2500


def test_a_wheel_is_made_once():
    with EventWheel(batch=4) as wheel:
        with pytest.raises(RuntimeError):
            wheel.__init__(batch=8)
        assert wheel.batch == 4 and wheel.poll() == []


@pytest.mark.skipif(sys.version_info >= (3, 10), reason="a signal leaves nothing behind")
def test_a_call_that_has_ended_without_giving_the_wheel_back_has_an_heir():
    def ended():
        return sys._getframe()

    with EventWheel(clock=Clock.MANUAL) as wheel:
        wheel._driver = first = hwheel.events._Driver.__new__(hwheel.events._Driver)
        first._frame = ended()
        first._heir = hwheel.events._Driver.__new__(hwheel.events._Driver)
        first._heir._frame = ended()
        wheel.once(1, 7)
        assert [event[1] for event in wheel.advance(10**9)] == [7]
        assert wheel.advance(10**9) == []


def test_the_child_of_a_fork_is_told_so_while_another_thread_drives():
    with EventWheel() as wheel:
        # As if a thread was in the middle of a call.
        wheel._driver = hwheel.events._Driver()
        child = os.fork()
        if child == 0:
            try:
                wheel.poll()
            except OSError as error:
                os._exit(error.errno)
            os._exit(0)
        del wheel._driver
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ESHUTDOWN


def test_flags_and_events_have_names():
    with EventWheel(clock=Clock.MANUAL, tick_ns=1000) as wheel:
        wheel.once(5000, 7, hwheel.Flags.ABS)
        wheel.every(1000, 10000, 8, hwheel.Missed.BURST)
        listed = sorted(hwheel.Event(*event).cookie for event in wheel.list())
        event = hwheel.Event(*wheel.advance(6000)[-1])
        assert listed == [7, 8] and (event.cookie, event.deadline_ns, event.flags) == (7, 5000, 0)
        assert hwheel.Flags(next(wheel.list())[4]) == hwheel.Flags.LISTED
        assert hwheel.ABS is hwheel.Flags.ABS and hwheel.MISSED_DELAY is hwheel.Missed.DELAY


def test_a_key_of_text_is_refused_in_words():
    with EventWheel() as wheel, pytest.raises(TypeError, match="a key is bytes"):
        wheel.key_set("session", hwheel.SEC, 1)


def in_thread(call, *args):
    """The result of a call in another thread, or its exception."""
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        future = threads.submit(call, *args)
        return future.exception() or future.result()


def test_other_threads_than_the_owner_send_and_ask():
    with EventWheel(clock=Clock.MANUAL, owned=True) as wheel:
        timer = wheel.setup(1)
        wheel.mod(timer, hwheel.SEC)
        for call in [
            lambda: wheel.mod(timer, 1), lambda: wheel.once(1, 1), lambda: wheel.delete(timer),
            lambda: wheel.advance(9), wheel.drain, wheel.disown, lambda: wheel.key_set(1, 1, 1),
        ]:
            refused = in_thread(call)
            assert isinstance(refused, PermissionError) and "owns" in str(refused)
        assert in_thread(wheel.own).errno == errno.EBUSY
        assert in_thread(wheel.pending, timer) is True
        assert in_thread(wheel.send, 5, 7) is None
        assert [event[1] for event in wheel.advance(hwheel.MSEC)] == [7]
        wheel.disown()
        with pytest.raises(PermissionError):
            wheel.delete(timer)
        wheel.own()
        assert wheel.delete(timer)
    with EventWheel() as shared, pytest.raises(OSError) as error:
        shared.disown()
    assert error.value.errno == errno.EINVAL


def test_an_owned_wheel_that_another_thread_closes_is_freed_by_its_owner():
    left = hwheel.events._left
    wheel = EventWheel(owned=True)
    assert in_thread(wheel.close) is None and len(left) == 1
    EventWheel().close()
    assert not left
    # And by anybody once the owner's thread has ended: a little after it can be joined.
    wheel = in_thread(lambda: EventWheel(owned=True))
    wheel.close()
    deadline = time.monotonic() + 10
    while left and time.monotonic() < deadline:
        time.sleep(0.001)
        EventWheel().close()
    assert not left
