"""Timers by the million: a lock-free timing wheel.

* `Wheel` calls Python functions, with times in seconds as in asyncio.
* `AsyncioWheel` does so inside an asyncio event loop.
* `EventWheel` hands over integers in batches, with times in nanoseconds. It is
  the fast way, and what the other two are made of.

Errors are `OSError` with the library's `errno`: ESTALE no such timer, ENOSPC
too many timers, EBUSY another thread drives, ESHUTDOWN drained or a forked
child, EINVAL a bad argument or a closed wheel.
"""

from .aio import AsyncioWheel
from .events import (
    ABSTIME,
    MISSED_BURST,
    MISSED_DELAY,
    NEVER,
    Clock,
    Event,
    EventWheel,
    version,
)
from .wheel import Timer, Wheel

__all__ = [
    "ABSTIME",
    "MISSED_BURST",
    "MISSED_DELAY",
    "NEVER",
    "AsyncioWheel",
    "Clock",
    "Event",
    "EventWheel",
    "Timer",
    "Wheel",
    "version",
]
