"""The wheel inside an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import math
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Type, TypeVar, Union, overload

from .events import Clock, monotonic
from .loop import clock_of
from .unraisable import name
from .wheel import ABS, Timer, Wheel, nanoseconds


if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

Self = TypeVar("Self", bound="AsyncioWheel")
T = TypeVar("T")


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class _State(enum.Enum):
    CREATED = "created"
    ENTERED = "active"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    EXITED = "finished"


class Timeout:
    """Cancels the task that is in its `async with` when its time has come, and turns
    that into a TimeoutError, as asyncio.timeout(). Made by an `AsyncioWheel`."""

    def __init__(self, wheel: "AsyncioWheel", when: Optional[float]) -> None:
        self._wheel = wheel
        self._when = when
        self._state = _State.CREATED
        self._handle: Union[Timer, asyncio.Handle, None] = None
        self._task: "Optional[asyncio.Task[Any]]" = None
        self._requests = 0

    def __repr__(self) -> str:
        info = ""
        if self._state is _State.ENTERED:
            info = f" when={None if self._when is None else round(self._when, 3)}"
        return f"<{type(self).__name__} [{self._state.value}]{info}>"

    def when(self) -> Optional[float]:
        """The deadline on the wheel's clock, in seconds; None for none."""
        return self._when

    def reschedule(self, when: Optional[float]) -> None:
        """Moves the deadline."""
        if self._state is _State.CREATED:
            raise RuntimeError("Timeout has not been entered")
        if self._state is not _State.ENTERED:
            raise RuntimeError(f"Cannot change state of {self._state.value} Timeout")
        self._arm(when)

    def expired(self) -> bool:
        """Whether the deadline has come within the `async with`."""
        return self._state in (_State.EXPIRING, _State.EXPIRED)

    def _arm(self, when: Optional[float]) -> None:
        handle, wheel = self._handle, self._wheel
        if when is None:
            fresh: Union[Timer, asyncio.Handle, None] = None
        elif when <= wheel._now():
            wheel._events._wheel  # Or the error of a closed wheel.
            fresh = wheel._loop.call_soon(self._expire)
        elif isinstance(handle, Timer):
            handle.arm_at(when)
            fresh = handle
        else:
            fresh = wheel.call_at(when, self._expire)
        if handle is not None and handle is not fresh:
            handle.cancel()
        self._handle, self._when = fresh, when

    async def __aenter__(self) -> "Timeout":
        if self._state is not _State.CREATED:
            raise RuntimeError("Timeout has already been entered")
        task = self._task = self._wheel._current_task("Timeout")
        self._arm(self._when)
        # Python before 3.11 does not count requests to cancel.
        self._requests = task.cancelling() if hasattr(task, "cancelling") else 0
        self._state = _State.ENTERED
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        task, self._task = self._task, None
        assert task is not None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._state is not _State.EXPIRING:
            self._state = _State.EXITED
            return
        self._state = _State.EXPIRED
        left = task.uncancel() if hasattr(task, "uncancel") else 0
        if left > self._requests or value is None:
            return
        if isinstance(value, asyncio.CancelledError):
            raise asyncio.TimeoutError from value
        # An error of the body's clean-up, or errors of a TaskGroup.
        _name_the_timeout(value)
        if sys.version_info >= (3, 11) and isinstance(value, ExceptionGroup):
            for error in value.exceptions:
                _name_the_timeout(error)

    def _expire(self) -> None:
        if self._task is not None and self._state is _State.ENTERED:
            self._task.cancel()
            self._state = _State.EXPIRING
            self._handle = None


def _name_the_timeout(error: BaseException) -> None:
    """Puts a TimeoutError between an error and the cancellation in which it was raised."""
    while error.__context__ is not None:
        if isinstance(error.__context__, asyncio.CancelledError):
            timeout = asyncio.TimeoutError()
            timeout.__context__ = timeout.__cause__ = error.__context__
            error.__context__ = timeout
            return
        error = error.__context__


class AsyncioWheel(Wheel):
    """A wheel whose functions are called by an asyncio event loop.

    The loop watches one descriptor; each time a timer is due, one crossing
    fetches up to `batch` events. What is left waits for the loop's next turn,
    so that other handlers get theirs. Functions run in the context their timer
    was made in; one that raises goes to the loop's exception handler.

    Any thread may arm, cancel and close. Only tasks of its loop may sleep on it. In a
    loop with virtual time, see `loop_factory`, the wheel has the clock of the loop.
    """

    _contexts = True

    def __init__(
        self,
        loop: Optional[asyncio.AbstractEventLoop] = None,
        *,
        clock: Clock = Clock.MONOTONIC,
        tick: float = 0.0,
        levels: int = 0,
        slots: int = 0,
        max_timers: int = 0,
        batch: int = 1024,
    ) -> None:
        loop = asyncio.get_running_loop() if loop is None else loop
        followers = clock_of(loop)
        shape = {"levels": levels, "slots": slots, "max_timers": max_timers, "batch": batch}
        if followers is None:
            super().__init__(clock=clock, tick=tick, **shape)
            loop.add_reader(self.fileno(), self._ready)
        else:
            super().__init__(clock=Clock.MANUAL, tick=tick, start=loop.time(), **shape)
            followers.append(self)
        self._followers = followers
        self._loop = loop
        # The same clock, for less.
        is_cheap = followers is None and clock == Clock.MONOTONIC
        self._now = monotonic if is_cheap else self.time

    def close(self) -> None:
        """Leaves the loop and frees the wheel; what is armed is not called. A `sleep`
        raises ValueError."""
        try:
            # This reference keeps the descriptor open until the loop has left it.
            wheel = self._events._wheel
            watched = self.fileno() if self._followers is None else -1
        except (OSError, ValueError):
            # The child of a fork, whose loop watches for its parent; or closed before.
            super().close()
            return
        self._closed = True
        self._events.close()  # From now on nobody falls asleep.
        sleepers = [timer for timer in [*self._armed.values()] if timer._callback is _wake]
        super().close()
        self._in_loop(self._leave, watched, wheel, sleepers)

    def drain(self) -> List[Timer]:
        """As `Wheel.drain`. A `sleep` raises ValueError."""
        timers = super().drain()
        self._in_loop(self._end, [timer for timer in timers if timer._callback is _wake])
        return [timer for timer in timers if timer._callback is not _wake]

    def _in_loop(self, call: Callable[..., object], *args: Any) -> None:
        """Makes a call in the loop's thread, now if that is this one."""
        try:
            here: Optional[asyncio.AbstractEventLoop] = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            if here is self._loop or not self._loop.is_running():
                call(*args)
            else:
                self._loop.call_soon_threadsafe(call, *args)

    def _leave(self, watched: int, wheel: object, sleepers: List[Timer]) -> None:
        if self._followers is None:
            self._loop.remove_reader(watched)
        elif self in self._followers:
            self._followers.remove(self)
        self._end(sleepers)

    def _end(self, sleepers: List[Timer]) -> None:
        for timer in sleepers:
            future = timer._args[0]
            if not future.done():
                future.set_exception(ValueError("the wheel is closed or drained"))

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    # Arm, in a context of the caller's.

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: Optional[contextvars.Context] = None,
    ) -> Timer:
        """Calls once, `delay` seconds from now, in a context, which is a copy of the current
        one if not given."""
        return self._arm(callback, args, context, nanoseconds(delay), 0)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: Optional[contextvars.Context] = None,
    ) -> Timer:
        """As `call_later`, at `when` on the wheel's clock."""
        return self._arm(callback, args, context, nanoseconds(when), ABS)

    def _arm(
        self,
        callback: Callable[..., object],
        args: "tuple[Any, ...]",
        context: Optional[contextvars.Context],
        time_ns: int,
        flags: int,
    ) -> Timer:
        timer = Timer(self, callback, args)
        if context is not None:
            timer.context = context
        timer._arm(time_ns, flags)
        return timer

    @overload
    async def sleep(self, delay: float) -> None: ...

    @overload
    async def sleep(self, delay: float, result: T) -> T: ...

    async def sleep(self, delay: float, result: Any = None) -> Any:
        """Returns `result` after `delay` seconds, as asyncio.sleep(). Zero or less lets the
        other tasks of the loop run once."""
        if math.isnan(delay):
            raise ValueError("not a time: nan")
        self._current_task("sleep")
        if delay <= 0:
            self._events._wheel  # Or the error of a closed wheel.
            await asyncio.sleep(0)
            return result
        future = self._loop.create_future()
        timer = self.call_later(delay, _wake, future)
        try:
            await future
        finally:
            timer.cancel()
        return result

    def timeout(self, delay: Optional[float]) -> Timeout:
        """`async with wheel.timeout(5):` raises TimeoutError if its body takes longer than
        `delay` seconds, as asyncio.timeout(); None is no limit. With zero or less the body
        ends at its first `await` that waits."""
        return self.timeout_at(None if delay is None else self._now() + delay)

    def timeout_at(self, when: Optional[float]) -> Timeout:
        """As `timeout`, to a deadline on the wheel's clock."""
        if when is not None and math.isnan(when):
            raise ValueError("not a time: nan")
        return Timeout(self, when)

    def _current_task(self, what: str) -> "asyncio.Task[Any]":
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the wheel belongs to another event loop")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError(f"{what} should be used inside a task")
        return task

    # Of a loop with virtual time.

    def _next(self) -> Optional[int]:
        with contextlib.suppress(ValueError):  # Closed; the loop leaves it soon.
            if self._fires():
                return self._events.next_expiry()
        return None

    def _fires(self) -> bool:
        """Whether a timer is armed that is not due never."""
        return any(timer.remaining() != math.inf for timer in [*self._armed.values()])

    def _move(self, now_ns: int) -> None:
        with contextlib.suppress(ValueError):
            while self._events._advance(self._due, now_ns) == self._events.batch:
                pass
        if self._due:
            self._loop.call_soon(self._resume)

    def _ready(self) -> None:
        try:
            with contextlib.suppress(ValueError):  # Closed; the loop leaves it soon.
                if self._followers is None:
                    self._events._poll(self._due)
            self._call_due()
        finally:
            if self._due:
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._due:
            self._ready()

    def _call(self, timer: Timer) -> None:
        timer.context.run(timer._callback, *timer._args)

    def _failed(self, timer: Timer, error: Exception) -> None:
        message = f"hwheel: exception in {name(timer._callback)}"
        self._loop.call_exception_handler(
            {"message": message, "exception": error, "timer": timer}
        )
