"""The wheel inside an asyncio event loop."""

from __future__ import annotations

import asyncio
import contextvars
from types import TracebackType
from typing import Any, Optional, Type, TypeVar

from .events import Clock
from .wheel import Timer, Wheel


Self = TypeVar("Self", bound="AsyncioWheel")


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class AsyncioWheel(Wheel):
    """A wheel whose functions are called by an asyncio event loop.

    The loop watches one descriptor; each time a timer is due, one crossing
    fetches up to `batch` events. What is left waits for the loop's next turn,
    so that other handlers get theirs. Functions run in the context their timer
    was made in; one that raises goes to the loop's exception handler.
    """

    def __init__(
        self,
        loop: Optional[asyncio.AbstractEventLoop] = None,
        *,
        clock: Clock = Clock.MONOTONIC,
        tick: float = 0.0,
        **options: int,
    ) -> None:
        self._loop = asyncio.get_running_loop() if loop is None else loop
        super().__init__(clock=clock, tick=tick, **options)
        self._watched = self.fileno()
        self._loop.add_reader(self._watched, self._ready)

    def close(self) -> None:
        """Leaves the loop and frees the wheel; what is armed is not called."""
        if self._watched >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._watched)
            self._watched = -1
        super().close()

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
        future = self._loop.create_future()
        timer = self.call_later(delay, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    def _ready(self) -> None:
        try:
            self._due.extend(self._events.poll())
            self._call_due()
        finally:
            if self._due:
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self._due:
            self._ready()

    def _context(self) -> Any:
        return contextvars.copy_context()

    def _call(self, timer: Timer) -> None:
        timer.context.run(timer._callback, *timer._args)

    def _failed(self, timer: Timer, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": f"hwheel: exception in {timer!r}", "exception": error, "timer": timer}
        )
