"""The job that a function receives, and the exceptions that the function may raise."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Callable, Optional

import psycopg

if TYPE_CHECKING:
    from ._worker import Worker

DONE_IN = "SELECT hwheel.done(%s, %s)"

# Why a function has to end.
LOST = "the lease has ended"
CANCELLED = "the job is cancelled"
TIMEOUT = "the run took longer than the timeout of the job"
ENDS = "the worker ends"


def check_process(process: int) -> None:
    if process != os.getpid():
        raise RuntimeError("a process that was forked in a transaction cannot commit it")


def in_seconds(value: float) -> float:
    if not 0 <= value <= 31536000:
        raise ValueError(f"{value!r} is no number of seconds from 0 to a year")
    return float(value)


class Snooze(Exception):
    """Raised by a function: run the job again after this time. No attempt is counted."""

    def __init__(self, seconds: float) -> None:
        self.seconds = in_seconds(seconds)


class Fail(Exception):
    """Raised by a function: the attempt failed. The next one is after some seconds, by default
    after the backoff of the job. If it is final there is no next one."""

    def __init__(self, text: str, retry_after: Optional[float] = None, final: bool = False) -> None:
        super().__init__(text)
        self.retry_after = None if retry_after is None else in_seconds(retry_after)
        self.final = bool(final)


class Stopped(Exception):
    """Raised by Job.check() if Job.stop is set."""


@dataclass(frozen=True)
class Result:
    """What Worker.drain() did with a job."""

    key: str
    attempt: int
    outcome: str  #: done, retry, dead, snoozed, cancelled or lost
    value: Any  #: what the function returned
    error: Optional[BaseException]  #: what it raised


class Job:
    """An attempt at a job. `stop` is set when the function has to end, and `why` says why. A
    coroutine is cancelled then."""

    key: str
    due: datetime
    payload: Any
    attempt: int
    traceparent: Optional[str]
    id: int
    lease: int

    def __init__(self, worker: Worker, queue: Queue, row: tuple[Any, ...], began: float) -> None:
        timeout, self.id, self.lease, self.key, self.due, self.attempt, self.traceparent = row
        self.queue = queue.name
        self.stop = threading.Event()
        self.why: Optional[str] = None
        self._worker, self._queue, self._deadline = worker, queue, began + timeout
        self._has_committed = False
        self._report: tuple[Any, ...] = ()  # The call that ends the job, when the function is over.
        self._again = 0.0  # When it is made, if that was not possible before.
        self._value: Any = None
        self._error: Optional[BaseException] = None
        self._outcome = ""
        self._task: Optional[asyncio.Task[Any]] = None
        self._timer: Optional[asyncio.TimerHandle] = None
        self._lease_until(began + worker._lease)

    def check(self) -> None:
        """Raises Stopped if the function has to end."""
        if self.stop.is_set():
            raise Stopped(self.why)

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction whose commit ends the job. The worker keeps the connection for others.
        If the lease has ended, the transaction fails with HW003."""
        connection, process = self._worker._database.begin(), os.getpid()
        try:
            yield connection
            check_process(process)
            connection.execute(DONE_IN, [self.id, self.lease])
            connection.execute("COMMIT")
            self._has_committed = True
        except BaseException:
            if process == os.getpid():
                try:
                    connection.execute("ROLLBACK")
                    self._worker._database.kept.append(connection)
                except psycopg.Error:
                    connection.close()
            raise
        self._worker._database.kept.append(connection)

    @asynccontextmanager
    async def transaction_async(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """transaction() for a coroutine: `async with`."""
        connection, process = await self._worker._database.begin_async(), os.getpid()
        try:
            yield connection
            check_process(process)
            await connection.execute(DONE_IN, [self.id, self.lease])
            await connection.execute("COMMIT")
            self._has_committed = True
        except BaseException:
            if process == os.getpid():
                await connection.close()
            raise
        self._worker._database.kept_async.append(connection)

    def _lease_until(self, end: float) -> None:
        if self._timer:
            self._timer.cancel()
        why = LOST if end < self._deadline else TIMEOUT
        self._timer = self._worker._loop.call_at(min(end, self._deadline), self._stop, why)

    def _stop(self, why: str) -> None:
        if not (self.why or self._report or self._has_committed):
            self.why = why
            self.stop.set()
            if self._task:
                self._task.cancel()


@dataclass
class Queue:
    name: str
    function: Callable[[Job], Any]
    concurrency: int
    running: int = 0
    has_more: bool = True  # More jobs may be due.



def text_of(error: BaseException) -> str:
    """What the database can store of an exception."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if not isinstance(error, Fail):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:10000].replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
