"""The wheel as the C library has it: integer cookies in, batches of events out."""

from __future__ import annotations

import enum
import errno
import functools
import os
import select
import struct
import sys
import time
import weakref
from operator import index
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ._native import ffi, lib

NEVER: int = lib.HWHEEL_NEVER
"""A time that never comes."""
USEC: int = lib.HWHEEL_USEC
MSEC: int = lib.HWHEEL_MSEC
SEC: int = lib.HWHEEL_SEC
"""Nanoseconds in a microsecond, a millisecond and a second."""


class Flags(enum.IntFlag):
    """How a time is meant, and what an event is of. `|` joins them."""

    ABS = lib.HWHEEL_ABS
    """The time is a point on the wheel's clock, not a delay."""
    REDUCE = lib.HWHEEL_REDUCE
    """Of `mod`: only to an earlier time."""
    IF_PENDING = lib.HWHEEL_IF_PENDING
    """Of `mod`: only if the timer is pending."""
    DRAINED = lib.HWHEEL_EVENT_DRAINED
    """Of an event: `drain` has handed it back."""
    LISTED = lib.HWHEEL_EVENT_LISTED
    """Of an event: `list` shows it."""


class Missed(enum.IntFlag):
    """What to do with periods that have passed as well. For `every` it is one of the flags."""

    SKIP = 0
    """Leaves them out, and counts them."""
    BURST = lib.HWHEEL_MISSED_BURST
    """Fires for each of them, one after another, until caught up."""
    DELAY = lib.HWHEEL_MISSED_DELAY
    """Starts the rhythm anew."""


ABS, REDUCE, IF_PENDING = Flags.ABS, Flags.REDUCE, Flags.IF_PENDING
MISSED_BURST, MISSED_DELAY = Missed.BURST, Missed.DELAY


class Event(NamedTuple):
    """An event by name: `Event(*event).deadline_ns`. The wheel hands out plain tuples in this
    order, which cost half."""

    timer: int
    cookie: int
    deadline_ns: int
    missed: int
    flags: int


EventTuple = Tuple[int, int, int, int, int]

Key = Union[bytes, int]
"""1 to 255 bytes, or an integer from 0 to 2^64 - 1."""

_EVENT = struct.Struct("=QQQII")
_OPTIONS = ffi.typeof("struct hwheel_options *")
_STATS = ffi.typeof("struct hwheel_stats *")
_WHEEL = ffi.typeof("struct hwheel **")
_U64 = ffi.typeof("uint64_t *")
_NULL = ffi.NULL
_LONGEST = 2**31 - 1  # milliseconds of poll(2)

monotonic: Callable[[], float] = functools.partial(time.monotonic)
"""The clock as it is when this is imported. A frozen clock of tests that is put in the place
of `time.monotonic` later on must not be mixed with the clock of the library."""

assert _EVENT.size == ffi.sizeof("struct hwheel_event")


class Clock(enum.IntEnum):
    """The clock of a wheel."""

    MONOTONIC = lib.HWHEEL_CLOCK_MONOTONIC
    BOOTTIME = lib.HWHEEL_CLOCK_BOOTTIME
    REALTIME = lib.HWHEEL_CLOCK_REALTIME
    MANUAL = lib.HWHEEL_CLOCK_MANUAL


def version() -> str:
    """The version of the library that the program runs with."""
    text: str = ffi.string(lib.hwheel_version_string()).decode()
    return text


def error(result: int) -> OSError:
    """The exception for a negative result, in the library's words."""
    return OSError(-result, ffi.string(lib.hwheel_strerror(result)).decode())


def check(result: int) -> int:
    """A result of the library, or an exception if it is negative."""
    if result < 0:
        raise error(result)
    return result


def _time(ns: int) -> int:
    """A time for C; a negative one is a ValueError."""
    ns = index(ns)  # As for each number: cffi would cut a Decimal.
    if ns < 0:
        raise ValueError("a negative time")
    return ns


def _words(numbers: Iterable[int]) -> Any:
    """An array for C. Its length is what it holds, whatever a list says or becomes."""
    return ffi.new("uint64_t[]", [*map(index, numbers)])


def _bytes(key: Key) -> Any:
    """The bytes of a key. A subclass may say another length than it has."""
    if isinstance(key, int):
        key = int.to_bytes(key, 8, sys.byteorder)
    elif isinstance(key, str):
        raise TypeError("a key is bytes or an integer, not a str: encode it")
    return key if type(key) is bytes else ffi.from_buffer(key)


_left: List[Any] = []
"""Owned wheels that were left in another thread than that of their owner."""


def _destroy(wheel: Any) -> None:
    """Frees a wheel, and those that were left and are this thread's or nobody's."""
    if wheel != _NULL:
        _left.append(wheel)
    for _ in range(len(_left)):
        try:
            wheel = _left.pop()
        except IndexError:  # Another thread has it.
            return
        result = lib.hwheel_destroy(wheel)
        if result == -errno.EPERM and lib.hwheel_own(wheel) == 0:
            result = lib.hwheel_destroy(wheel)
        if result == -errno.EPERM:
            _left.insert(0, wheel)


_ends: "Dict[int, weakref.ref[Any]]" = {}


def _counted(wheel: Any, destroy: Callable[[Any], object]) -> Any:
    """A pointer to a wheel that is freed with the last reference to the pointer, which each
    call holds. The collector would free what ffi.gc() makes, while finalizers of other objects
    may still use it."""
    pointer = ffi.cast("struct hwheel *", wheel)
    key = id(pointer)

    def end(_: object, ends: "Dict[int, weakref.ref[Any]]" = _ends) -> None:
        del ends[key]
        destroy(wheel)

    _ends[key] = weakref.ref(pointer, end)
    return pointer


class Bell:
    """Wakes who waits, for good. Makes its pipe for the first of them. It has no lock: a
    signal's function, or an object that is collected, may ring it in the middle."""

    def __init__(self) -> None:
        self._pipe: Dict[str, Tuple[int, int]] = {}
        self._process = os.getpid()
        self._is_gone = False  # A finalizer of another object may come later.
        self.rung = False

    def descriptor(self) -> int:
        if self._is_gone:
            raise ValueError("the wheel is closed")
        if not self._pipe:
            fresh = os.pipe()
            if self._pipe.setdefault("ends", fresh) is not fresh:
                for end in fresh:
                    os.close(end)
        if self.rung:
            os.write(self._pipe["ends"][1], b"!")
        return self._pipe["ends"][0]

    def ring(self) -> None:
        if self.rung:
            return
        self.rung = True
        # The child of a fork has its parent's pipe.
        if self._pipe and self._process == os.getpid():
            os.write(self._pipe["ends"][1], b"!")

    def __del__(self) -> None:
        self._is_gone = True
        for end in self._pipe.pop("ends", ()):
            os.close(end)


class _Driver:
    """The call that drives a wheel. Before Python 3.10 a signal's exception may end a call before
    it has given the wheel back: then the next call is its heir."""

    def __init__(self) -> None:
        self._frame = sys._getframe(1)

    def inherits(self, wheel: "EventWheel") -> bool:
        """Whether the calls that had the wheel have ended; from then on this one has it."""
        driver = wheel._driver
        while isinstance(driver, _Driver) and driver is not self:
            try:
                driver._frame.clear()
            except RuntimeError:  # It runs.
                return False
            driver = driver.__dict__.setdefault("_heir", self)
        wheel._driver = self
        return True


_driver: Callable[[], object] = object if sys.version_info >= (3, 10) else _Driver

Self = TypeVar("Self", bound="EventWheel")


class EventWheel:
    """A timing wheel that hands out batches of events.

    An option of 0 has the library's default: ticks of a millisecond, four levels of
    256 slots. `batch` is the maximum number of events that one `poll` fetches.

    Any thread may make any call at any time, `close` included. One thread at a time
    drives; another gets EBUSY. A negative time is a ValueError, and so is every call
    of a closed wheel.

    With `owned` the thread that makes the wheel owns it, until `disown`. Other threads `send`
    it timers, and may ask; their other calls are a PermissionError.
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
        owned: bool = False,
    ) -> None:
        if "_events" in self.__dict__:
            raise RuntimeError("a wheel is made once")
        if batch < 1:
            raise ValueError("batch must be at least 1")
        options = ffi.new(_OPTIONS)
        options.size = ffi.sizeof(options[0])
        for name, value in {
            "clock": clock, "tick_ns": tick_ns, "levels": levels, "slots": slots,
            "max_timers": max_timers, "start_ns": start_ns,
        }.items():
            if value < 0:
                raise ValueError(f"{name} is negative")
            setattr(options, name, index(value))
        options.owned = bool(owned)
        wheel = ffi.new(_WHEEL)
        check(lib.hwheel_create(options, wheel))
        self._wheel = _counted(wheel[0], _destroy if owned else lib.hwheel_destroy)
        _destroy(_NULL)
        self._events = ffi.new("struct hwheel_event[]", index(batch))
        self._view = memoryview(ffi.buffer(self._events))
        self._room = self._events, len(self._events)  # A subclass may say another `batch`.
        self._counts: List[int] = []  # The result of a call whose events are in the buffer.
        self._bell = Bell()

    @property
    def batch(self) -> int:
        """The maximum number of events that one `poll` fetches."""
        return len(self._events)

    def disown(self) -> None:
        """Gives an owned wheel up, so that another thread can `own` it."""
        check(lib.hwheel_disown(self._wheel))

    def own(self) -> None:
        """Takes an owned wheel that nobody owns, or whose owner has ended; else EBUSY."""
        check(lib.hwheel_own(self._wheel))

    def _mine(self, call: Callable[..., int], *arguments: Any) -> int:
        """The result of a call, for which this thread takes a wheel that nobody owns."""
        wheel = self._wheel
        result = call(wheel, *arguments)
        if result == -errno.EPERM and lib.hwheel_own(wheel) == 0:
            try:
                result = call(wheel, *arguments)
            finally:
                lib.hwheel_disown(wheel)
        return result

    def close(self) -> None:
        """Frees the wheel; pending timers do not fire. A `wait` of another thread ends.
        The second call does nothing. An owned wheel is freed once its owner closes a wheel or
        makes one, or has ended."""
        # Destroyed with the last reference: a call that another thread is in
        # holds one.
        self.__dict__.pop("_wheel", None)
        self._bell.ring()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a wheel is neither copied nor pickled")

    def __getattr__(self, name: str) -> Any:
        if name == "_wheel":
            raise ValueError("the wheel is closed")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
        """The time at which to drive the wheel next; None: nothing to wait for. It is never
        late. It may be early, or a time with nothing pending, after a timer was cancelled or
        moved."""
        out = ffi.new(_U64)
        return int(out[0]) if check(lib.hwheel_next_expiry(self._wheel, out)) else None

    # Timers that free themselves.

    def once(self, time_ns: int, cookie: int, flags: int = 0) -> int:
        """Fires once. `flags`: ABS. Returns the timer."""
        if time_ns < 0:
            raise ValueError("a negative time")
        out = ffi.new(_U64)
        numbers = index(time_ns), _NULL, index(cookie), index(flags)
        result = lib.hwheel_once(self._wheel, *numbers, out)
        if result < 0:
            raise error(result)
        return int(out[0])

    def every(
        self, first_ns: int, period_ns: int, cookie: int, flags: int = 0, slack_ns: int = 0
    ) -> int:
        """Fires again and again, each time up to `slack_ns` late, which shares
        wake-ups. `flags`: ABS, and MISSED_BURST or MISSED_DELAY. Returns the timer."""
        out = ffi.new(_U64)
        times = _time(first_ns), _time(period_ns), _time(slack_ns)
        check(lib.hwheel_every(self._wheel, *times, _NULL, index(cookie), index(flags), out))
        return int(out[0])

    def send(self, time_ns: int, cookie: int, flags: int = 0) -> None:
        """As `once`, from any thread to the owner of the wheel. A message cannot be cancelled."""
        numbers = _time(time_ns), _NULL, index(cookie), index(flags)
        check(lib.hwheel_once(self._wheel, *numbers, _NULL))

    # A timer to arm again and again.

    def setup(self, cookie: int) -> int:
        """Makes a timer that is not pending and lives until `free`."""
        out = ffi.new(_U64)
        check(lib.hwheel_timer_setup(self._wheel, _NULL, index(cookie), out))
        return int(out[0])

    def mod(self, timer: int, time_ns: int, flags: int = 0) -> bool:
        """Arms or moves a timer. True if it was pending. `flags`: ABS, and REDUCE or
        IF_PENDING."""
        mod = lib.hwheel_timer_mod
        return check(mod(self._wheel, index(timer), _time(time_ns), index(flags))) == 1

    def mod_range(self, timer: int, time_ns: int, slack_ns: int, flags: int = 0) -> bool:
        """As `mod`, to any time up to `slack_ns` later, which shares wake-ups. `flags`:
        ABS."""
        mod, times = lib.hwheel_timer_mod_range, (_time(time_ns), _time(slack_ns))
        return check(mod(self._wheel, index(timer), *times, index(flags))) == 1

    def set_period(self, timer: int, period_ns: int) -> None:
        """Makes a timer periodic from the next time that it fires; 0 ends that."""
        check(lib.hwheel_timer_set_period(self._wheel, index(timer), _time(period_ns)))

    def mod_many(
        self, timers: Sequence[int], times_ns: Sequence[int], flags: int = 0
    ) -> List[int]:
        """As `mod` for each timer, with one call of the library. Returns the result of
        each: 1, 0, or the negative errno."""
        times_ns = [*times_ns]
        if min(times_ns, default=0) < 0:
            raise ValueError("a negative time")
        handles, times = _words(timers), _words(times_ns)
        if len(times) != len(handles):
            raise ValueError("not one time for each timer")
        results = ffi.new("int32_t[]", len(handles))
        mod = lib.hwheel_timer_mod_many
        check(mod(self._wheel, handles, times, len(handles), index(flags), results))
        return list(results)

    def delete_many(self, timers: Sequence[int]) -> List[int]:
        """As `delete` for each timer, with one call of the library. Returns the result
        of each: 1, 0, or the negative errno."""
        handles = _words(timers)
        results = ffi.new("int32_t[]", len(handles))
        check(lib.hwheel_timer_delete_many(self._wheel, handles, len(handles), results))
        return list(results)

    def delete(self, timer: int) -> bool:
        """Cancels a timer. True if it was pending and will not fire."""
        return check(lib.hwheel_timer_delete(self._wheel, index(timer))) == 1

    def shutdown(self, timer: int) -> bool:
        """As `delete`, and arming the timer again is ESHUTDOWN."""
        return check(lib.hwheel_timer_shutdown(self._wheel, index(timer))) == 1

    def free(self, timer: int) -> bool:
        """As `delete`, and frees the timer."""
        return check(lib.hwheel_timer_free(self._wheel, index(timer))) == 1

    def pending(self, timer: int) -> bool:
        """Whether a timer is pending."""
        return check(lib.hwheel_timer_pending(self._wheel, index(timer))) == 1

    def remaining(self, timer: int) -> Optional[int]:
        """Nanoseconds until the timer fires, None if it is not pending."""
        out = ffi.new(_U64)
        remaining = lib.hwheel_timer_remaining
        return int(out[0]) if check(remaining(self._wheel, index(timer), out)) else None

    # Timers by key: 1 to 255 bytes, or an unsigned integer. They fire once, and the
    # timer of their event is 0.

    def key_set(self, key: Key, time_ns: int, cookie: int, flags: int = 0) -> bool:
        """Gives a key a timer. True if it replaced a pending timer. `flags`: ABS."""
        name = _bytes(key)
        numbers = _time(time_ns), _NULL, index(cookie), index(flags)
        return check(lib.hwheel_key_set(self._wheel, name, len(name), *numbers)) == 1

    def key_mod(self, key: Key, time_ns: int, flags: int = 0) -> bool:
        """Moves the pending timer of a key, which keeps its cookie. False if the key
        has none."""
        name = _bytes(key)
        mod = lib.hwheel_key_mod
        return check(mod(self._wheel, name, len(name), _time(time_ns), index(flags))) == 1

    def key_delete(self, key: Key) -> bool:
        """Cancels the pending timer of a key. False if the key has none."""
        name = _bytes(key)
        return check(lib.hwheel_key_delete(self._wheel, name, len(name))) == 1

    def key_pending(self, key: Key) -> bool:
        """Whether a key has a pending timer."""
        name = _bytes(key)
        return check(lib.hwheel_key_pending(self._wheel, name, len(name))) == 1

    # Inspect.

    def list(self) -> Iterator[EventTuple]:
        """The pending timers, which stay pending. A timer that is pending all the time
        comes exactly once."""
        _, batch = self._room
        cursor, events = ffi.new(_U64), ffi.new("struct hwheel_event[]", batch)
        view = memoryview(ffi.buffer(events))
        count = batch
        while count == batch:
            count = check(lib.hwheel_list(self._wheel, cursor, events, batch))
            yield from _EVENT.iter_unpack(view[: count * _EVENT.size])

    # Drive.

    def fileno(self) -> int:
        """A descriptor that becomes readable when a timer is due; do not read it."""
        return check(lib.hwheel_fd(self._wheel))

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Blocks until a timer is due, or for `timeout` seconds. True if one
        is due."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"not a time: {timeout}")
        return self._wait(None if timeout is None else min(timeout * 1000, _LONGEST))

    def _wait(self, timeout_ms: Optional[float], *bells: Bell) -> bool:
        wheel = self._wheel  # This reference keeps the descriptor open.
        descriptor = check(lib.hwheel_fd(wheel))
        both = select.poll()
        both.register(descriptor, select.POLLIN)
        for bell in (self._bell, *bells):
            both.register(bell.descriptor(), select.POLLIN)
        ready = both.poll(timeout_ms)
        self._wheel  # Or the error of a closed wheel.
        return any(which == descriptor for which, _ in ready)

    def poll(self) -> List[EventTuple]:
        """The events that are due now, with one call of the library. As many as
        `batch` mean that there may be more."""
        events: List[EventTuple] = []
        self._poll(events)
        return events

    def advance(self, now_ns: int) -> List[EventTuple]:
        """As `poll`, for a manual clock that moves to `now_ns`."""
        events: List[EventTuple] = []
        self._advance(events, now_ns)
        return events

    def drain(self) -> List[EventTuple]:
        """Shuts the wheel down and hands its pending timers back. An empty list means
        that none is left."""
        events: List[EventTuple] = []
        self._drive(events, lib.hwheel_drain, *self._room)
        return events

    # These add the events to `out`, and return how many this call has fetched.

    def _poll(self, out: Any) -> int:
        return self._drive(out, lib.hwheel_poll, *self._room, _NULL)

    def _advance(self, out: Any, now_ns: int) -> int:
        return self._drive(out, lib.hwheel_advance, _time(now_ns), *self._room, _NULL)

    _driver: Optional[object] = None

    def _drive(self, out: Any, call: Any, *arguments: Any) -> int:
        # The library lets one thread in at a time; the events must also be out of the
        # buffer before the next comes. A signal's function may raise after each call of a
        # function, before Python 3.10 after each step. So each step is one: to become the
        # driver, to make the call and keep its result, and to take the events out.
        me = _driver()
        try:
            if self.__dict__.setdefault("_driver", me) is not me and not (
                isinstance(me, _Driver) and me.inherits(self)
            ):
                self.now()  # In the child of a fork, where nobody drives: ESHUTDOWN.
                raise error(-errno.EBUSY)
            while True:
                # Events that found no memory, or a signal, come with the next call.
                is_left = bool(self._counts)
                if not is_left:
                    self._counts += map(call, [self._wheel], *([one] for one in arguments))
                if self._counts[0] < 0:
                    raise error(self._counts.pop())
                count = self._counts[0]
                out += _EVENT.iter_unpack(self._view[: count * _EVENT.size])
                self._counts = []
                if not is_left:
                    return count
        finally:
            if self._driver is me:
                del self._driver

    def stats(self) -> Dict[str, int]:
        """The counts of the wheel, by the names of struct hwheel_stats."""
        stats = self._stats()
        names = (name for name, field in _STATS.item.fields if field.type.kind == "primitive")
        return {name: getattr(stats, name) for name in names if name not in ("size", "reserved")}

    def lateness(self) -> List[int]:
        """The number of timers by lateness: [0] for none, [i] for 2^(i-1) ns to below
        2^i ns."""
        stats = self._stats()  # Owns the memory of its array.
        return [*stats.lateness]

    def _stats(self) -> Any:
        stats = ffi.new(_STATS)
        stats.size = ffi.sizeof(stats[0])
        check(lib.hwheel_get_stats(self._wheel, stats))
        return stats
