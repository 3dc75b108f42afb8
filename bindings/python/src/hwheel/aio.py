"""The wheel inside an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Any, Callable, List, Optional, Type, TypeVar

from .events import Clock
from .unraisable import name
from .wheel import Timer, Wheel, nanoseconds


Self = TypeVar("Self", bound="AsyncioWheel")


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Timeout:
    """Cancels the task that is in its `async with` when its time has come, and turns
    that into a TimeoutError, as asyncio.timeout(). Made by an `AsyncioWheel`."""

    def __init__(self, wheel: "AsyncioWheel", when: Optional[float]) -> None:
        self._wheel = wheel
        self._when = when
        self._timer: Optional[Timer] = None
        self._task: "Optional[asyncio.Task[Any]]" = None
        self._requests = 0
        self._expired = False

    def when(self) -> Optional[float]:
        """The deadline on the wheel's clock, in seconds; None for none."""
        return self._when

    def reschedule(self, when: Optional[float]) -> None:
        """Moves the deadline."""
        if self._timer is None or self._task is None or self._expired:
            raise RuntimeError("the timeout is not entered, or over")
        if when is None:
            self._timer.cancel()
        else:
            self._timer.arm_at(when)
        self._when = when

    def expired(self) -> bool:
        """Whether the deadline has come within the `async with`."""
        return self._expired

    async def __aenter__(self) -> "Timeout":
        if self._timer is not None:
            raise RuntimeError("a timeout is entered once")
        task = self._wheel._current_task()
        self._timer = self._wheel.timer(self._expire)
        if self._when is not None:
            self._timer.arm_at(self._when)
        # Python before 3.11 does not count requests to cancel.
        self._requests = task.cancelling() if hasattr(task, "cancelling") else 0
        self._task = task
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        task, self._task = self._task, None
        assert task is not None and self._timer is not None
        self._timer.cancel()
        if not self._expired:
            return
        left = task.uncancel() if hasattr(task, "uncancel") else 0
        if left <= self._requests and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise asyncio.TimeoutError from value

    def _expire(self) -> None:
        if self._task is not None:
            self._expired = True
            self._task.cancel()


class AsyncioWheel(Wheel):
    """A wheel whose functions are called by an asyncio event loop.

    The loop watches one descriptor; each time a timer is due, one crossing
    fetches up to `batch` events. What is left waits for the loop's next turn,
    so that other handlers get theirs. Functions run in the context their timer
    was made in; one that raises goes to the loop's exception handler.

    Any thread may arm, cancel and close. Only tasks of its loop may sleep on it.
    """

    _contexts = True

    def __init__(
        self,
        loop: Optional[asyncio.AbstractEventLoop] = None,
        *,
        clock: Clock = Clock.MONOTONIC,
        tick: float = 0.0,
        **options: int,
    ) -> None:
        loop = asyncio.get_running_loop() if loop is None else loop
        super().__init__(clock=clock, tick=tick, **options)
        self._loop = loop
        self._loop.add_reader(self.fileno(), self._ready)

    def close(self) -> None:
        """Leaves the loop and frees the wheel; what is armed is not called. A `sleep`
        raises ValueError."""
        try:
            # This reference keeps the descriptor open until the loop has left it.
            watched, wheel = self.fileno(), self._events._wheel
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
        self._loop.remove_reader(watched)
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

    async def sleep(self, delay: float) -> None:
        """Returns after `delay` seconds."""
        self._current_task()
        future = self._loop.create_future()
        timer = self.call_later(delay, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    def timeout(self, delay: Optional[float]) -> Timeout:
        """`async with wheel.timeout(5):` raises TimeoutError if its body takes longer than
        `delay` seconds, as asyncio.timeout(); None is no limit."""
        if delay is None:
            return Timeout(self, None)
        nanoseconds(delay)
        return Timeout(self, self.time() + delay)

    def timeout_at(self, when: Optional[float]) -> Timeout:
        """As `timeout`, to a deadline on the wheel's clock."""
        if when is not None:
            nanoseconds(when)
        return Timeout(self, when)

    def _current_task(self) -> "asyncio.Task[Any]":
        task = asyncio.current_task()
        if task is None or asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the wheel belongs to another event loop")
        return task

    def _ready(self) -> None:
        try:
            with contextlib.suppress(ValueError):  # Closed; the loop leaves it soon.
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
