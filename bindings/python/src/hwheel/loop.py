"""Event loops whose timers are in a wheel."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
import itertools
import selectors
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Protocol, Type

from ._native import ffi, lib
from .events import NEVER, Clock, EventTuple, EventWheel, check, monotonic
from .wheel import nanoseconds


_U64 = ffi.typeof("uint64_t *")
_ABS = int(lib.HWHEEL_ABS)
_FAR = 9e9  # seconds; 2^63 ns are a little more


class Follower(Protocol):
    """A wheel whose clock a loop with virtual time moves."""

    def _next(self) -> Optional[int]: ...

    def _move(self, now_ns: int) -> None: ...


class _Handle(asyncio.TimerHandle):
    __slots__ = ("_cookie", "_timer")

    _cookie: int
    _timer: int


def _caller(handle: Any) -> None:
    """In debug mode a handle keeps the line of its making, which is the caller's."""
    del handle._source_traceback[-1]


class _Timers:
    """The timers of a loop. Among the bases of a class it precedes the loop's own class.

    While the loop runs, its thread owns the wheel. At other times nobody does, and a call takes
    it for a moment: a loop may be made in one thread, and run in another."""

    _is_exact = False
    """Whether times are not rounded up by a nanosecond."""

    def __init__(self, *args: Any, wheel: EventWheel) -> None:
        self._timers = wheel
        self._cookies = itertools.count(1)
        self._armed: Dict[int, _Handle] = {}
        self._due: List[EventTuple] = []
        super().__init__(*args)

    def run_forever(self) -> None:
        loop: Any = super()
        wheel = self._timers.__dict__.get("_wheel")  # None once the loop is closed.
        owns = wheel is not None and not loop.is_running() and lib.hwheel_own(wheel) == 0
        try:
            loop.run_forever()
        finally:
            if owns:
                lib.hwheel_disown(wheel)

    def time(self) -> float:
        return monotonic()

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Optional[contextvars.Context] = None,
    ) -> asyncio.TimerHandle:
        if delay is None:
            raise TypeError("delay must not be None")
        handle = self.call_at(self.time() + delay, callback, *args, context=context)
        if handle._source_traceback:  # type: ignore[attr-defined]
            _caller(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Optional[contextvars.Context] = None,
    ) -> asyncio.TimerHandle:
        if when is None:
            raise TypeError("when cannot be None")
        self._check(callback)
        has_passed = when <= self.time()
        if has_passed:
            time_ns = 0
        elif self._is_exact or not when < _FAR:
            time_ns = nanoseconds(when)
        else:  # Cheaper, and never early.
            time_ns = int(when * 1e9) + 1
        handle = _Handle(when, callback, args, self, context)  # type: ignore[arg-type]
        if handle._source_traceback:  # type: ignore[attr-defined]
            _caller(handle)
        handle._cookie = 0
        if has_passed:
            self._run_soon(handle)
            return handle
        cookie = handle._cookie = next(self._cookies)
        self._armed[cookie] = handle
        try:
            out = ffi.new(_U64)
            numbers = time_ns, ffi.NULL, cookie, _ABS, out
            if lib.hwheel_once(self._timers._wheel, *numbers) < 0:
                check(self._timers._mine(lib.hwheel_once, *numbers))
            handle._timer = out[0]
        except BaseException:
            self._armed.pop(cookie, None)
            raise
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # It may be of the loop's own timers.
        cookie = getattr(handle, "_cookie", 0)
        if self._armed.pop(cookie, None) is not None:
            # The child of a fork has only the handle to cancel.
            delete, timer = lib.hwheel_timer_delete, handle._timer  # type: ignore[attr-defined]
            if delete(self._timers._wheel, timer) < 0:
                self._timers._mine(delete, timer)

    def _fetch(self) -> None:
        """Fetches what is due."""
        while self._timers._poll(self._due) == self._timers.batch:
            pass

    def _release(self, ready: "Deque[asyncio.Handle]") -> None:
        """Moves the handles of the events that were fetched, in the order of their times:
        a wheel keeps no order within a tick."""
        due, armed = self._due, self._armed
        if len(due) > 1:
            due.sort(key=lambda event: armed[event[1]]._when if event[1] in armed else 0)  # type: ignore[attr-defined]
        cookies = [event[1] for event in due]
        # One step, which no signal interrupts: each handle is moved once.
        ready.extend(filter(None, map(armed.pop, cookies, itertools.repeat(None))))
        due.clear()

    def _check(self, callback: Callable[..., object]) -> None:
        """The checks of the loop's own call_at."""
        raise NotImplementedError

    def _run_soon(self, handle: asyncio.TimerHandle) -> None:
        """For a time that has passed: after those that are ready now."""
        raise NotImplementedError


class _OnAsyncio(_Timers):
    """On a selector loop of asyncio. What is due joins what is ready in that turn of the
    loop in which it is due, as asyncio's own timers do."""

    _ready: "Deque[asyncio.Handle]"
    _stopping: bool
    _timer_cancelled_count: int
    _selector: selectors.BaseSelector

    def __init__(self, *args: Any, wheel: EventWheel, is_virtual: bool) -> None:
        super().__init__(*args, wheel=wheel)
        # The time of virtual time.
        self._now_ns: Optional[int] = 0 if is_virtual else None
        self._is_exact = is_virtual
        self._followers: List[Follower] = []
        self._elsewhere = 0
        loop: Any = self
        self._alarm = asyncio.Handle(self._fetch, (), loop, None)
        if not is_virtual:
            self._selector.register(wheel.fileno(), selectors.EVENT_READ, (self._alarm, None))
        wheel.disown()

    def close(self) -> None:
        loop: Any = super()
        loop.close()
        self._armed.clear()
        self._due.clear()
        self._timers.close()

    def time(self) -> float:
        return monotonic() if self._now_ns is None else self._now_ns / 1e9

    def _check(self, callback: Callable[..., object]) -> None:
        loop: Any = self
        loop._check_closed()
        if loop._debug:
            loop._check_thread()
            loop._check_callback(callback, "call_at")

    def _run_soon(self, handle: asyncio.TimerHandle) -> None:
        # The timers of asyncio do just that.
        loop: Any = self
        heapq.heappush(loop._scheduled, handle)
        handle._scheduled = True  # type: ignore[attr-defined]

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if handle._scheduled:  # type: ignore[attr-defined]
            self._timer_cancelled_count += 1
        else:
            super()._timer_handle_cancelled(handle)

    def _add_callback(self, handle: asyncio.Handle) -> None:
        if handle is self._alarm:
            self._fetch()
            self._release(self._ready)
        else:
            loop: Any = super()
            loop._add_callback(handle)

    def _run_once(self) -> None:
        if self._due:  # An interrupt has left them.
            self._release(self._ready)
        if self._now_ns is not None and not self._ready and not self._stopping:
            self._skip()
        loop: Any = super()
        loop._run_once()

    # Virtual time.

    def run_in_executor(
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        loop: Any = super()
        future: "asyncio.Future[Any]" = loop.run_in_executor(executor, func, *args)
        self._elsewhere += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._elsewhere -= 1

    def _skip(self) -> None:
        """Moves the clock to the next expiry, if everything waits for it."""
        loop: Any = self
        loop._process_events(self._selector.select(0))
        scheduled = loop._scheduled  # Those of them that had passed.
        # Until something is due: the next expiry may be the time of a cancelled timer. In
        # between nobody reads the clock.
        while not self._ready and not scheduled and not self._elsewhere:
            wheels: List[Follower] = [self, *self._followers]
            times = [time for wheel in wheels if (time := wheel._next()) is not None]
            if not times:
                return
            now_ns = self._now_ns = max(min(times), self._now_ns or 0)
            for wheel in wheels:
                wheel._move(now_ns)

    def _next(self) -> Optional[int]:
        # Not once those that are left never fire.
        fires = any(nanoseconds(handle._when) < NEVER for handle in self._armed.values())  # type: ignore[attr-defined]
        return self._timers.next_expiry() if fires else None

    def _move(self, now_ns: int) -> None:
        while self._timers._advance(self._due, now_ns) == self._timers.batch:
            pass
        self._release(self._ready)


class _OnOther(_Timers):
    """On any other loop, which watches the descriptor of the wheel."""

    def __init__(self, *args: Any, wheel: EventWheel) -> None:
        super().__init__(*args, wheel=wheel)
        self._expired: "Deque[asyncio.Handle]" = deque()
        loop: Any = self
        self._descriptor = wheel.fileno()
        loop.add_reader(self._descriptor, self._run_due)
        wheel.disown()

    def close(self) -> None:
        loop: Any = super()
        if not loop.is_running() and not loop.is_closed():
            loop.remove_reader(self._descriptor)
        loop.close()
        self._armed.clear()
        self._expired.clear()
        self._timers.close()

    def _check(self, callback: Callable[..., object]) -> None:
        loop: Any = self
        if loop.is_closed():
            raise RuntimeError("Event loop is closed")

    def _run_soon(self, handle: asyncio.TimerHandle) -> None:
        self._expired.append(handle)
        loop: Any = self
        loop.call_soon(self._run_due)

    def _run_due(self) -> None:
        expired = self._expired
        try:
            self._fetch()
            self._release(expired)
            while expired:
                handle = expired.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            if expired or self._due:  # What leaves the loop, such as KeyboardInterrupt.
                loop: Any = self
                loop.call_soon(self._run_due)


@functools.lru_cache(maxsize=None)
def _class(base: Any) -> Any:
    on = _OnAsyncio if issubclass(base, asyncio.SelectorEventLoop) else _OnOther
    return type(base.__name__, (on, base), {"__module__": __name__})


def _make(
    base: Any, tick_ns: int, is_virtual: bool, *args: Any
) -> asyncio.AbstractEventLoop:
    kind = _class(base)
    clock = Clock.MANUAL if is_virtual else Clock.MONOTONIC
    wheel = EventWheel(clock=clock, tick_ns=tick_ns, owned=True)
    more = {"is_virtual": is_virtual} if issubclass(kind, _OnAsyncio) else {}
    try:
        loop: asyncio.AbstractEventLoop = kind(*args, wheel=wheel, **more)
    except BaseException:
        wheel.close()
        raise
    return loop


def loop_factory(
    base: Type[asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop,
    *,
    tick: float = 0.0,
    virtual_time: bool = False,
) -> Callable[..., asyncio.AbstractEventLoop]:
    """A factory of event loops, each with a wheel for its `call_later` and `call_at`, and
    so for asyncio's own `sleep`, `timeout` and `wait_for`:

        asyncio.run(main(), loop_factory=hwheel.loop_factory())

    `base` is the class of the loop: asyncio's, or one such as `uvloop.Loop`. `tick` is in
    seconds, a millisecond by default.

    With `virtual_time`, which only asyncio's loops have, time passes only when everything
    waits: then the clock of the loop jumps to the next timer. A test of an hour takes
    milliseconds. The clock begins at 0, and its ticks are a microsecond by default. It
    stands still while `run_in_executor` or `to_thread` works. An `AsyncioWheel` in such a
    loop has the same clock.
    """
    if virtual_time and not issubclass(base, asyncio.SelectorEventLoop):
        raise ValueError("virtual time needs a loop of asyncio")
    tick_ns = nanoseconds(tick)
    if not tick_ns and virtual_time:
        tick_ns = 1000
    return functools.partial(_make, base, tick_ns, virtual_time)


def clock_of(loop: asyncio.AbstractEventLoop) -> Optional[List[Follower]]:
    """The list of those that follow the clock of a loop, if its time is virtual."""
    if isinstance(loop, _OnAsyncio) and loop._now_ns is not None:
        return loop._followers
    return None
