"""Timers by the million: a lock-free timing wheel.

* `Wheel` calls Python functions, with times in seconds as in asyncio.
* `AsyncioWheel` does so inside an asyncio event loop.
* `loop_factory` makes event loops whose own timers are in a wheel.
* `EventWheel` hands out integers in batches, with times in nanoseconds. It is the fast
  way, and the other two use it.

Errors are `OSError` in the library's words, with its `errno`: ESTALE the timer no longer
exists, ENOSPC too many timers, EBUSY another thread drives, ESHUTDOWN drained or a
forked child, EINVAL a bad argument, EPERM (a `PermissionError`) another thread owns the
wheel. A negative time and a closed wheel are a ValueError.
"""

from .aio import AsyncioWheel, Timeout
from .events import (
    ABS,
    IF_PENDING,
    MISSED_BURST,
    MISSED_DELAY,
    MSEC,
    NEVER,
    REDUCE,
    SEC,
    USEC,
    Clock,
    Event,
    EventWheel,
    Flags,
    Missed,
    version,
)
from .loop import loop_factory
from .wheel import Timer, Wheel

__all__ = [
    "ABS",
    "IF_PENDING",
    "MISSED_BURST",
    "MISSED_DELAY",
    "MSEC",
    "NEVER",
    "REDUCE",
    "SEC",
    "USEC",
    "AsyncioWheel",
    "Clock",
    "Event",
    "EventWheel",
    "Flags",
    "Missed",
    "Timeout",
    "Timer",
    "Wheel",
    "loop_factory",
    "version",
]
