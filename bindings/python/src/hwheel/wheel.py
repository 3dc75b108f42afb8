"""The wheel that calls Python functions, with times in seconds."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import itertools
import math
import os
import sys
import weakref
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, NoReturn, Optional, Type, TypeVar

from ._native import lib
from .events import NEVER, Bell, Clock, EventTuple, EventWheel, Missed
from .unraisable import unraisable

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

ABS, IF_PENDING = int(lib.HWHEEL_ABS), int(lib.HWHEEL_IF_PENDING)

# Where a signal's function may raise: before Python 3.10 also before a variable has what a call
# has returned.
_SIGNALS_AT_EACH_STEP = sys.version_info < (3, 10)

_LONGEST = (1 << 63) / 1e9  # seconds


def _scaled(seconds: float) -> float:
    """Seconds in nanoseconds, not rounded. But 0.067 is no binary number: what only the
    error of the float keeps from being whole is whole."""
    ns = seconds * 1e9
    whole = round(ns)
    return whole if abs(ns - whole) <= 2 * math.ulp(ns) else ns


def nanoseconds(seconds: float) -> int:
    """Seconds in nanoseconds, rounded up: a timer may be late, never early. A negative
    number, or none at all, is a ValueError."""
    if not seconds >= 0:
        raise ValueError(f"not a time: {seconds}")
    if seconds >= _LONGEST:
        return NEVER
    return math.ceil(_scaled(seconds))


class Timer:
    """A function and when to call it. Made by a `Wheel`. One thread at a time
    arms or cancels it."""

    # Each arming has a cookie of its own. So an event that was already
    # collected when its timer was cancelled or moved finds nobody.
    __slots__ = ("_args", "_callback", "_cookie", "_flags", "_handle", "_period_ns", "_wheel",
                 "context", "missed")

    def __init__(
        self, wheel: "Wheel", callback: Callable[..., object], args: "tuple[Any, ...]"
    ) -> None:
        if not callable(callback):
            raise TypeError(f"not a function: {callback!r}")
        self._wheel = wheel
        self._callback = callback
        self._args = args
        self._cookie = 0
        self._handle = 0
        self._period_ns = 0
        self._flags = 0
        self.context: Any = contextvars.copy_context() if wheel._contexts else None
        self.missed = 0
        """Periods left out before the call that runs now or ran last."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._callback!r}{' armed' if self.pending else ''}>"

    @property
    def pending(self) -> bool:
        """Whether it is armed: its call is still to come."""
        return self._cookie in self._wheel._armed

    def remaining(self) -> Optional[float]:
        """Seconds to its deadline, None if it is not armed, inf for never."""
        if not self.pending:
            return None
        try:
            left = self._wheel._events.remaining(self._handle)
        except OSError:
            left = 0  # Due, and collected, but not called yet.
        return math.inf if left == NEVER else (left or 0) / 1e9

    def arm(self, delay: float) -> bool:
        """Arms it, or moves it, to `delay` seconds from now. True if it was
        armed and will not fire at its old deadline."""
        return self._arm(nanoseconds(delay), 0)

    def arm_at(self, deadline: float) -> bool:
        """As `arm`, to a deadline on the wheel's clock."""
        return self._arm(nanoseconds(deadline), ABS)

    def cancel(self) -> bool:
        """True if it was armed and will not fire; of a periodic timer, not
        again."""
        was_armed = self._disarm()
        if was_armed:
            self._wheel._nothing_left()
        return was_armed

    def _disarm(self) -> bool:
        if self._wheel._armed.pop(self._cookie, None) is None:
            return False
        self._forget(self._handle)
        return True

    def _arm(self, time_ns: int, flags: int) -> bool:
        wheel = self._wheel
        events = wheel._events
        last, old = self._cookie, self._handle
        if last in wheel._armed and not self._period_ns:
            try:
                if events.mod(old, time_ns, flags | IF_PENDING):
                    return True
            except OSError:
                pass  # Collected already. What else is wrong, arming will tell.
        cookie = self._cookie = next(wheel._cookies)
        wheel._armed[cookie] = self
        try:
            # The old timer ends once there is a new one: what fails changes nothing.
            if self._period_ns:
                handle = events.every(time_ns, self._period_ns, cookie, self._flags | flags)
            else:
                handle = events.once(time_ns, cookie, flags)
        except BaseException as error:
            wheel._armed.pop(cookie, None)
            if self._cookie == cookie:
                self._cookie = last
            if self._moved(error, time_ns, flags):
                return True
            wheel._nothing_left()
            raise
        if self._cookie == cookie:  # Or it has fired, and its function has armed it again.
            self._handle = handle
        was_armed = wheel._armed.pop(last, None) is not None
        if was_armed:
            self._forget(old)
        if cookie not in wheel._armed:
            self._forget(handle)  # Fired in another thread already, and cancelled there.
        return was_armed

    def _moved(self, error: BaseException, time_ns: int, flags: int) -> bool:
        """Moves a periodic timer for which a full wheel has no second one."""
        wheel, cookie = self._wheel, self._cookie
        if not (isinstance(error, OSError) and self._period_ns and cookie in wheel._armed):
            return False
        collected = [event for event in [*wheel._due] if event[1] == cookie]
        try:
            if not wheel._events.mod(self._handle, time_ns, flags | IF_PENDING):
                return False
        except OSError:
            return False
        for event in collected:  # They are of the old time.
            with contextlib.suppress(ValueError):
                wheel._due.remove(event)
        return True

    def _forget(self, handle: int) -> None:
        # The library has forgotten a timer that was collected already.
        lib.hwheel_timer_delete(self._wheel._events._wheel, handle)


# By their ids: a subclass need not be hashable.
_wheels: "weakref.WeakValueDictionary[int, Wheel]" = weakref.WeakValueDictionary()


def _in_child() -> None:
    """What the parent has collected, the parent calls: also if a function forks, and the
    child returns from it."""
    for wheel in [*_wheels.values()]:
        wheel._due.clear()


os.register_at_fork(after_in_child=_in_child)

Self = TypeVar("Self", bound="Wheel")


class Wheel:
    """A timing wheel that calls Python functions.

    The options are those of `EventWheel`, with `tick` and `start` in seconds.
    Functions are called by the thread that drives the wheel, with `run`,
    `poll` or `advance`. Any thread may arm and cancel.

    A function that raises does not stop the wheel: the exception goes to
    `sys.unraisablehook`. One that is no `Exception`, such as
    KeyboardInterrupt, leaves through the driving call, and the next call goes
    on with the timers that were due after it.
    """

    def __init__(
        self,
        *,
        clock: Clock = Clock.MONOTONIC,
        tick: float = 0.0,
        start: float = 0.0,
        levels: int = 0,
        slots: int = 0,
        max_timers: int = 0,
        batch: int = 1024,
    ) -> None:
        if "_events" in self.__dict__:
            raise RuntimeError("a wheel is made once")
        self._events = EventWheel(
            clock=clock, tick_ns=nanoseconds(tick), start_ns=nanoseconds(start), levels=levels,
            slots=slots, max_timers=max_timers, batch=batch,
        )
        self._cookies = itertools.count(1)
        self._armed: Dict[int, Timer] = {}
        self._due: Deque[EventTuple] = deque()
        self._running: List[Bell] = []  # One for each run.
        self._closed = False
        _wheels[id(self)] = self

    def close(self) -> None:
        """Frees the wheel; what is armed is not called. Any thread may call it at any
        time; `run` then returns."""
        self._closed = True
        self._events.close()
        self._armed.clear()
        self._due.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a wheel is neither copied nor pickled")

    def __len__(self) -> int:
        """How many timers are armed."""
        return len(self._armed)

    def time(self) -> float:
        """The time on the wheel's clock, in seconds."""
        return self._events.now() / 1e9

    def stats(self) -> Dict[str, int]:
        """What the wheel has done so far, by the names of hwheel_stats."""
        return self._events.stats()

    # Arm.

    def call_later(self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts]) -> Timer:
        """Calls once, `delay` seconds from now."""
        timer = Timer(self, callback, args)
        timer._arm(nanoseconds(delay), 0)
        return timer

    def call_at(self, when: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts]) -> Timer:
        """Calls once, at `when` on the wheel's clock."""
        timer = Timer(self, callback, args)
        timer._arm(nanoseconds(when), ABS)
        return timer

    def call_every(
        self,
        period: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        first: Optional[float] = None,
        missed: int = Missed.SKIP,
    ) -> Timer:
        """Calls every `period` seconds, from `first` seconds from now, which
        is `period` if not given. `missed` is what to do with periods that have
        passed as well: `Missed.SKIP` leaves them out and counts them in `Timer.missed`,
        `Missed.BURST` calls for each, `Missed.DELAY` starts the rhythm anew."""
        if period <= 0:
            raise ValueError("period must be above 0")
        if missed not in (Missed.SKIP, Missed.BURST, Missed.DELAY):
            raise ValueError(f"not a way to treat what was missed: {missed}")
        timer = Timer(self, callback, args)
        timer._period_ns = nanoseconds(period)
        timer._flags = int(missed)
        timer._arm(nanoseconds(period if first is None else first), 0)
        return timer

    def timer(self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts]) -> Timer:
        """A timer that is not armed; `Timer.arm` arms it again and again."""
        return Timer(self, callback, args)

    # Drive.

    def fileno(self) -> int:
        """A descriptor that is readable when a timer is due; call `poll`."""
        return self._events.fileno()

    def poll(self) -> int:
        """Calls what is due by now. Returns how many calls were made."""
        return self._drive(self._events._poll)

    def advance(self, now: float) -> int:
        """As `poll`, for a manual clock that is moved to `now` seconds."""
        if not 0 <= now < _LONGEST:
            raise ValueError(f"not a time: {now}")
        now_ns = int(_scaled(now))
        return self._drive(lambda due: self._events._advance(due, now_ns))

    def run(self) -> None:
        """Sleeps and polls until nothing is armed, or `stop` or `close` is called."""
        bell = Bell()
        self._running.append(bell)
        try:
            while self._armed and not bell.rung:
                # First what an exception has left behind: the descriptor does not show it.
                try:
                    self.poll()
                except OSError as error:
                    if error.errno != errno.EBUSY:  # Another thread drives for now.
                        raise
                if self._armed and not bell.rung:
                    self._events._wait(None, bell)
        except ValueError:
            if not self._closed:
                raise
        finally:
            self._running.remove(bell)
            self._nothing_left()

    def _nothing_left(self) -> None:
        """Wakes a `run` of another thread if nothing is armed any more. The run that ends
        passes it on."""
        if self._running and not self._armed:
            self._nudge()

    def _nudge(self) -> None:
        """Makes the descriptor readable, by an event that is of no timer."""
        with contextlib.suppress(OSError, ValueError):
            self._events.once(0, 0)

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._events._wheel  # Or the error of a closed wheel.
        for bell in [*self._running]:
            bell.ring()

    def drain(self) -> List[Timer]:
        """Shuts the wheel down. Returns the timers that were armed; they are
        not called. `run` returns."""
        while self._events.drain():
            pass
        timers = list(self._armed.values())
        self._armed.clear()
        self.stop()
        return timers

    def _drive(self, fetch: Callable[[Deque[EventTuple]], int]) -> int:
        calls = self._call_due()
        while True:
            count = fetch(self._due)
            calls += self._call_due()
            if count < self._events.batch or self._closed:
                return calls

    def _call_due(self) -> int:
        due, armed, calls = self._due, self._armed, 0
        event: Optional[EventTuple] = None
        taken: Iterator[EventTuple] = iter(due.popleft, None)
        hand: Dict[None, EventTuple] = {}
        if _SIGNALS_AT_EACH_STEP:  # What is taken is in the hand in the same step.
            taken = map(hand.setdefault, itertools.repeat(None), taken)
        try:
            for event in taken:
                _, cookie, _, missed, _ = event
                timer = armed.get(cookie)
                if timer is not None and not timer._period_ns:
                    timer = armed.pop(cookie, None)
                event = None
                if hand:
                    hand.clear()
                if timer is None:
                    continue  # Cancelled or moved since it was collected, or just now.
                timer.missed = missed
                calls += 1
                try:
                    self._call(timer)
                except Exception as error:
                    self._failed(timer, error)
        except IndexError:
            pass  # That was the last one, or another thread has taken it.
        except BaseException:
            if hand:  # From a signal: it was not called yet.
                due.extendleft(hand.values())
            elif event is not None:
                due.appendleft(event)
            if due:
                self._nudge()  # The descriptor does not show what is left.
            raise
        return calls

    # What a wheel inside an event loop overrides.

    _contexts = False

    def _call(self, timer: Timer) -> None:
        timer._callback(*timer._args)

    def _failed(self, timer: Timer, error: Exception) -> None:
        unraisable(timer._callback, error)
