"""The wheel as the C library has it: integer cookies in, batches of events out."""

from __future__ import annotations

import enum
import errno
import os
import select
import struct
import sys
import threading
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar, Union

from ._native import ffi, lib

NEVER: int = lib.HWHEEL_NEVER
"""A delay or deadline that never comes."""
ABSTIME: int = lib.HWHEEL_ABSTIME
"""Arm flag: the time is a deadline on the wheel's clock, not a delay."""
MISSED_BURST: int = lib.HWHEEL_MISSED_BURST
"""Periodic flag: missed periods are fired one by one until caught up."""
MISSED_DELAY: int = lib.HWHEEL_MISSED_DELAY
"""Periodic flag: after a miss the next period is counted from now."""

Event = Tuple[int, int, int, int, int]
"""timer, cookie, deadline_ns, missed, flags"""

Key = Union[bytes, int]
"""1 to 255 bytes, or an integer from 0 to 2^64 - 1."""

_EVENT = struct.Struct("=QQQII")
_OPTIONS = ffi.typeof("struct hwheel_options *")
_STATS = ffi.typeof("struct hwheel_stats *")
_WHEEL = ffi.typeof("struct hwheel **")
_U64 = ffi.typeof("uint64_t *")
_NULL = ffi.NULL

assert _EVENT.size == ffi.sizeof("struct hwheel_event")


class Clock(enum.IntEnum):
    """What a wheel counts."""

    MONOTONIC = lib.HWHEEL_CLOCK_MONOTONIC
    BOOTTIME = lib.HWHEEL_CLOCK_BOOTTIME
    REALTIME = lib.HWHEEL_CLOCK_REALTIME
    MANUAL = lib.HWHEEL_CLOCK_MANUAL


def version() -> str:
    """The version of the library that is linked."""
    text: str = ffi.string(lib.hwheel_version_string()).decode()
    return text


def error(result: int) -> OSError:
    """The exception for a negative result of the library."""
    return OSError(-result, os.strerror(-result))


def check(result: int) -> int:
    """A result of the library, or an exception if it is negative."""
    if result < 0:
        raise error(result)
    return result


def _bytes(key: Key) -> bytes:
    return key.to_bytes(8, sys.byteorder) if isinstance(key, int) else key


Self = TypeVar("Self", bound="EventWheel")


class EventWheel:
    """A timing wheel whose timers come due as events.

    Options left at 0 take the library's defaults: ticks of a millisecond, four
    levels of 256 slots. `batch` is how many events one `poll` takes at most.

    Any thread may arm and cancel. One thread at a time drives; another gets
    EBUSY. `close` is for when no other thread uses the wheel.
    """

    def __init__(
        self,
        *,
        clock: Clock = Clock.MONOTONIC,
        tick_ns: int = 0,
        levels: int = 0,
        slots: int = 0,
        max_timers: int = 0,
        start_ns: int = 0,
        batch: int = 1024,
    ) -> None:
        if batch < 1:
            raise ValueError("batch must be at least 1")
        options = ffi.new(_OPTIONS)
        options.size = ffi.sizeof(options[0])
        options.clock = clock
        options.tick_ns = tick_ns
        options.levels = levels
        options.slots = slots
        options.max_timers = max_timers
        options.start_ns = start_ns
        wheel = ffi.new(_WHEEL)
        check(lib.hwheel_create(options, 0, wheel))
        self._wheel = ffi.gc(wheel[0], lib.hwheel_destroy)
        self.batch = batch
        self._events = ffi.new("struct hwheel_event[]", batch)
        self._view = memoryview(ffi.buffer(self._events))
        self._driving = threading.Lock()
        self._waiting: Optional[select.poll] = None

    def close(self) -> None:
        """Frees the wheel; armed timers do not fire. Does nothing the second
        time."""
        # Destroyed with the last reference: a call that another thread is in
        # holds one.
        self._wheel = _NULL

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    # Time.

    def now(self) -> int:
        """The time on the wheel's clock, in nanoseconds."""
        out = ffi.new(_U64)
        check(lib.hwheel_now(self._wheel, out))
        return int(out[0])

    def next_expiry(self) -> Optional[int]:
        """When the wheel wants to be driven next, None if nothing is armed."""
        out = ffi.new(_U64)
        return int(out[0]) if check(lib.hwheel_next_expiry(self._wheel, out)) else None

    # One call: a timer that frees itself when it has fired.

    def after(self, delay_ns: int, cookie: int) -> int:
        """Fires once after a delay. Returns the timer."""
        out = ffi.new(_U64)
        result = lib.hwheel_after(self._wheel, delay_ns, _NULL, cookie, 0, out)
        if result < 0:
            raise error(result)
        return int(out[0])

    def at(self, deadline_ns: int, cookie: int) -> int:
        """Fires once at a deadline on the wheel's clock. Returns the timer."""
        out = ffi.new(_U64)
        result = lib.hwheel_at(self._wheel, deadline_ns, _NULL, cookie, 0, out)
        if result < 0:
            raise error(result)
        return int(out[0])

    def every(self, first_ns: int, period_ns: int, cookie: int, flags: int = 0) -> int:
        """Fires again and again. `flags`: ABSTIME, MISSED_BURST, MISSED_DELAY.
        Returns the timer."""
        out = ffi.new(_U64)
        check(lib.hwheel_every(self._wheel, first_ns, period_ns, _NULL, cookie, flags, out))
        return int(out[0])

    # A timer to arm again and again.

    def setup(self, cookie: int) -> int:
        """Makes a timer that is not armed and lives until `free`."""
        out = ffi.new(_U64)
        check(lib.hwheel_setup(self._wheel, _NULL, cookie, 0, out))
        return int(out[0])

    def mod(self, timer: int, time_ns: int, flags: int = 0) -> bool:
        """Arms or moves a timer. True if it was armed. `flags`: ABSTIME."""
        return check(lib.hwheel_mod(self._wheel, timer, time_ns, flags)) == 1

    def reduce(self, timer: int, time_ns: int, flags: int = 0) -> bool:
        """As `mod`, but only to an earlier deadline."""
        return check(lib.hwheel_reduce(self._wheel, timer, time_ns, flags)) == 1

    def mod_pending(self, timer: int, time_ns: int, flags: int = 0) -> bool:
        """As `mod`, but only if the timer is armed."""
        return check(lib.hwheel_mod_pending(self._wheel, timer, time_ns, flags)) == 1

    def delete(self, timer: int) -> bool:
        """Cancels a timer. True if it was armed and will not fire."""
        return check(lib.hwheel_delete(self._wheel, timer)) == 1

    def shutdown(self, timer: int) -> bool:
        """As `delete`, and arming it again is ESHUTDOWN."""
        return check(lib.hwheel_shutdown(self._wheel, timer)) == 1

    def free(self, timer: int) -> bool:
        """As `delete`, and the timer is no more."""
        return check(lib.hwheel_free(self._wheel, timer)) == 1

    def pending(self, timer: int) -> bool:
        """Whether a timer is armed."""
        return check(lib.hwheel_pending(self._wheel, timer)) == 1

    def remaining(self, timer: int) -> Optional[int]:
        """Nanoseconds to the deadline, None if the timer is not armed."""
        out = ffi.new(_U64)
        return int(out[0]) if check(lib.hwheel_remaining(self._wheel, timer, out)) else None

    # Timers by name: 1 to 255 bytes, or an unsigned integer. They fire once, and
    # the timer of their event is 0.

    def key_set(self, key: Key, time_ns: int, cookie: int, flags: int = 0) -> bool:
        """Gives a key a timer. True if its pending timer was replaced. `flags`:
        ABSTIME."""
        name = _bytes(key)
        set_ = lib.hwheel_key_set
        return check(set_(self._wheel, name, len(name), time_ns, _NULL, cookie, flags)) == 1

    def key_move(self, key: Key, time_ns: int, flags: int = 0) -> bool:
        """Moves the pending timer of a key, which keeps its cookie. False if it
        has none."""
        name = _bytes(key)
        return check(lib.hwheel_key_move(self._wheel, name, len(name), time_ns, flags)) == 1

    def key_delete(self, key: Key) -> bool:
        """Cancels the pending timer of a key. False if it has none."""
        name = _bytes(key)
        return check(lib.hwheel_key_delete(self._wheel, name, len(name))) == 1

    def key_pending(self, key: Key) -> bool:
        """Whether a key has a pending timer."""
        name = _bytes(key)
        return check(lib.hwheel_key_pending(self._wheel, name, len(name))) == 1

    # Drive.

    def fileno(self) -> int:
        """A descriptor that is readable when a timer is due. Not to be read."""
        return check(lib.hwheel_fd(self._wheel))

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Blocks until a timer is due, or for `timeout` seconds. True if one
        is due."""
        if self._waiting is None:
            waiting = select.poll()
            waiting.register(self.fileno(), select.POLLIN)
            self._waiting = waiting
        return bool(self._waiting.poll(None if timeout is None else timeout * 1000))

    def poll(self) -> List[Event]:
        """The events that are due by now: one crossing into the library. As
        many as `batch` mean that there may be more."""
        return self._drive(lambda: lib.hwheel_poll(self._wheel, self._events, self.batch))

    def advance(self, now_ns: int) -> List[Event]:
        """As `poll`, for a manual clock that is moved to `now_ns`."""
        return self._drive(
            lambda: lib.hwheel_advance(self._wheel, now_ns, self._events, self.batch)
        )

    def drain(self) -> List[Event]:
        """Shuts the wheel down and hands back armed timers. An empty list means
        that there are no more."""
        return self._drive(lambda: lib.hwheel_drain(self._wheel, self._events, self.batch))

    def _drive(self, call: Callable[[], int]) -> List[Event]:
        # The library lets one thread in at a time; the events must also be
        # out of the buffer before the next comes.
        if not self._driving.acquire(blocking=False):
            raise error(-errno.EBUSY)
        try:
            count = check(call())
            return list(_EVENT.iter_unpack(self._view[: count * _EVENT.size]))
        finally:
            self._driving.release()

    def stats(self) -> Dict[str, int]:
        """What the wheel has done so far, by the names of hwheel_stats."""
        stats = self._stats()
        names = (name for name, field in _STATS.item.fields if field.type.kind == "primitive")
        return {name: getattr(stats, name) for name in names if name not in ("size", "reserved")}

    def lateness(self) -> List[int]:
        """How many timers fired how late: [0] not at all, [i] from 2^(i-1) ns to
        below 2^i ns."""
        return list(self._stats().lateness)

    def _stats(self) -> Any:
        stats = ffi.new(_STATS)
        stats.size = ffi.sizeof(stats[0])
        check(lib.hwheel_get_stats(self._wheel, stats))
        return stats
