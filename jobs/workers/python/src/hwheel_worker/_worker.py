"""Takes jobs, runs their functions, and ends the jobs."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import logging
import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Callable, NoReturn, Optional, TypeVar

import psycopg

from ._database import LOCKED, SESSION, STALE, Database, cut, is_refusal
from ._job import CANCELLED, ENDS, LOST, Job, Queue, Result, Snooze, Stopped, in_seconds, text_of

log = logging.getLogger("hwheel_worker")
F = TypeVar("F", bound=Callable[[Job], Any])

# So often the worker looks for jobs though nobody wakes it: there may have been no node.
LOOK = 5.0
# After Job.stop is set, the worker waits for this time at its end.
LAST = 5.0
# When a job is ended again that somebody has locked, or whose end the database refuses.
AGAIN = 1.0

TAKE = """SELECT payload::text, timeout, id, lease, key, due, attempt, traceparent
    FROM hwheel._take_for_worker(%s, %s, make_interval(secs => %s))"""
EXTEND = """SELECT id, outcome
    FROM hwheel.extend_many(%s::bigint[], %s::bigint[], make_interval(secs => %s))"""
DONE = "SELECT id FROM hwheel.done_many(%s::bigint[], %s::bigint[]) id"
SNOOZE = "SELECT hwheel.snooze(%s, %s, make_interval(secs => %s))"
FAIL = "SELECT hwheel.fail(%s, %s, %s, make_interval(secs => %s), %s)"


# The handlers of signals from before a worker set its own.
handlers: dict[int, Any] = {}
mask_of_thread = threading.local()


def hold_signals() -> None:
    """Python forgets a signal that reaches a new process before that has begun, and calls no handler
    while the process waits for a lock. A pool of multiprocessing ends its processes by SIGTERM, and
    would wait for such a process without end. So the thread that forks takes no signal meanwhile, and the
    new process has the handlers from before."""
    mask_of_thread.mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))


def release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, mask_of_thread.mask)


def begin_process() -> None:
    while handlers:
        signal.signal(*handlers.popitem())
    release_signals()


os.register_at_fork(before=hold_signals, after_in_parent=release_signals, after_in_child=begin_process)


class Worker:
    """`conninfo` is a connection string of libpq. A lease lasts for `lease` seconds, and the
    worker extends it while the function runs, up to the timeout of the job. At the end of the
    worker, functions that run have `grace` seconds before Job.stop is set."""

    def __init__(self, conninfo: str = "", *, lease: float = 30.0, grace: float = 30.0) -> None:
        if not 0.1 <= lease <= 86400:
            raise ValueError("lease is from 0.1 s to a day")
        self._lease, self._grace = float(lease), in_seconds(grace)
        self._database = Database(conninfo)
        self._queues: dict[str, Queue] = {}
        self._is_open = self._is_quiet = self._is_stopped = False

    def queue(self, name: str, *, concurrency: int = 1) -> Callable[[F], F]:
        """Decorates the function for the jobs of a queue: this many run at once."""
        if name in self._queues:
            raise ValueError(f"the queue {name!r} has a function already")
        if not 1 <= concurrency <= 10000:
            raise ValueError("concurrency is from 1 to 10000")

        def register(function: F) -> F:
            if not callable(function):
                raise TypeError(f"{function!r} is no function")
            self._queues[name] = Queue(name, function, concurrency)
            return function

        return register

    def run(self) -> None:
        """Runs jobs until the process gets SIGTERM or SIGINT, or a thread calls stop(). A second
        signal is a KeyboardInterrupt."""
        loop = asyncio.new_event_loop()

        def end(number: int, frame: Any) -> None:
            if self._is_stopped:
                raise KeyboardInterrupt
            else:
                self.stop()

        if threading.current_thread() is threading.main_thread():
            handlers.update({n: signal.signal(n, end) for n in (signal.SIGTERM, signal.SIGINT)})
        try:
            loop.run_until_complete(self.serve())
        finally:
            if threading.current_thread() is threading.main_thread():
                while handlers:
                    signal.signal(*handlers.popitem())
            loop.close()  # It does not wait for a coroutine that ignores its end.

    async def serve(self) -> None:
        """run() without signals, for a program with an event loop: until stop() is called."""
        if not self._queues:
            raise ValueError("no queue has a function")
        async with self._session():
            await self._database.call("SELECT hwheel._check_queue(name) FROM unnest(%s::text[]) name",
                             list(self._queues))
            await self._database.call(EXTEND, [], [], self._lease)  # A role without the rights ends here.
            listener = self._loop.create_task(self._repeat(self._listen, lambda: False))
            try:
                await self._repeat(self._turn, lambda: self._is_stopped and not self._jobs)
            finally:
                while not listener.done():  # asyncio.wait_for() of Python 3.11 may lose a cancel().
                    listener.cancel()
                    await asyncio.wait([listener], timeout=0.1)

    async def drain(self, limit: int = 1000) -> list[Result]:
        """For tests: runs the jobs that are due, one after the other, until none is due or
        `limit` have run. It needs no node."""
        results: list[Result] = []
        async with self._session():
            while len(results) < limit:
                for queue in self._queues.values():
                    queue.has_more = True
                    if await self._take(queue, 1):
                        break
                else:
                    break
                (job,) = self._jobs.values()
                await self._repeat(lambda: self._turn(False), lambda: not self._jobs)
                results.append(Result(job.key, job.attempt, job._outcome, job._value, job._error))
        return results

    def quiet(self) -> None:
        """Takes no more jobs. What runs goes on. Any thread may call this."""
        self._is_quiet = True

    def stop(self) -> None:
        """Ends run() and serve(): takes no more jobs, and waits for those that run. Any thread may
        call this."""
        self._is_quiet = self._is_stopped = True
        if self._is_open:
            self._loop.call_soon_threadsafe(self._stop_soon)

    def _stop_soon(self) -> None:
        self._wake.set()
        self._loop.call_later(self._grace, self._stop_all)
        self._loop.call_later(self._grace + LAST, self._give_up)

    def _stop_all(self) -> None:
        self._ends = True  # Also for the jobs of a take that is under way.
        for job in self._jobs.values():
            job._stop(ENDS)

    def _give_up(self) -> None:
        log.error("these jobs do not end: %s", [job.key for job in self._jobs.values()])
        self._jobs.clear()
        self._wake.set()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[None]:
        if self._is_open:
            raise RuntimeError("the worker runs already")
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._wake.set()
        self._jobs: dict[int, Job] = {}
        self._unreported: list[Job] = []
        self._next_look = self._next_beat = 0.0
        self._is_open, self._ends = True, False
        self._database.process = os.getpid()
        if self._is_stopped:
            self._stop_soon()
        try:
            await self._database.start()
            yield
        finally:
            self._stop_all()
            await self._database.close()
            self._is_open = self._is_quiet = self._is_stopped = False

    async def _repeat(self, work: Callable[[], Awaitable[None]], is_over: Callable[[], bool]) -> None:
        delay = 0.1
        while not is_over():
            began = self._loop.time()
            try:
                await work()
                delay = 0.1
            except Exception as error:
                log.warning("%s", error, exc_info=not isinstance(error, (psycopg.Error, OSError)))
                delay = 0.1 if self._loop.time() - began > LOOK else min(delay * 2, LOOK)
                await asyncio.sleep(delay * (0.5 + random.random()))
                self._wake.set()

    async def _listen(self) -> None:
        """Makes the worker look when a notification says so. None of them does more."""
        connection = await self._database.connect(SESSION)
        try:
            for name in self._queues:
                await connection.execute("SELECT hwheel.listen(%s)", [name])
            self._next_look = self._next_beat = 0.0
            self._wake.set()
            async for notice in connection.notifies():
                word, _, number = notice.payload.partition(" ")
                queue = self._queues.get(notice.channel.partition(":")[2])
                if word == "cancel":
                    if any(number == str(id) for id in self._jobs):
                        self._next_beat = 0.0
                        self._wake.set()
                elif queue:
                    queue.has_more = True
                    self._wake.set()
        finally:
            cut(connection)
            await connection.close()

    async def _turn(self, takes: bool = True) -> None:
        """Waits for something to do, and does it."""
        timer = self._loop.call_at(min(self._next_look, self._next_beat), self._wake.set)
        await self._wake.wait()
        timer.cancel()
        self._wake.clear()
        is_idle = all(job._again > self._loop.time() for job in self._unreported)
        # First, so that no report delays it.
        if self._loop.time() >= self._next_beat:
            await self._beat()
        await self._report()
        if self._loop.time() >= self._next_look:
            self._next_look = self._loop.time() + LOOK
            for queue in self._queues.values():
                queue.has_more = True
        for queue in self._queues.values() if takes else ():
            if await self._take(queue, queue.concurrency - queue.running):
                is_idle = False
        if is_idle:
            await asyncio.sleep(0.01)  # Anybody may send notifications.

    async def _take(self, queue: Queue, room: int) -> bool:
        if not queue.has_more or room < 1 or self._is_quiet:
            return False
        began, queue.has_more = self._loop.time(), False
        try:
            rows = await self._database.call(TAKE, queue.name, room, self._lease)
        except BaseException:
            queue.has_more = True
            raise
        queue.has_more = queue.has_more or len(rows) >= room
        for payload, *row in rows:
            job = Job(self, queue, tuple(row), began)
            self._begin(queue, payload, job)
            if self._ends:
                job._stop(ENDS)
        return bool(rows)

    def _begin(self, queue: Queue, payload: Optional[str], job: Job) -> None:
        if job.id in self._jobs:
            self._jobs[job.id]._stop(LOST)
        self._jobs[job.id] = job
        queue.running += 1
        try:
            job.payload = None if payload is None else json.loads(payload)
            call = getattr(queue.function, "__call__", None)
            if inspect.iscoroutinefunction(queue.function) or inspect.iscoroutinefunction(call):
                job._task = self._loop.create_task(_outcome(queue.function, job))
                job._task.add_done_callback(lambda task: self._end(job, *(
                    (None, asyncio.CancelledError()) if task.cancelled() else task.result())))
                return
        except Exception as error:
            return self._end(job, None, error)
        try:
            threading.Thread(target=contextvars.copy_context().run, args=(self._run_here, job),
                             name=f"hwheel {job.key}", daemon=True).start()
        except RuntimeError as why:  # Not the fault of the job: the attempt does not count.
            log.warning("%s: no thread for %r: %s", queue.name, job.key, why)
            self._end(job, None, Snooze(1.0))

    def _run_here(self, job: Job) -> None:
        value, error = None, None
        try:
            value = job._queue.function(job)
            if inspect.isawaitable(value):
                raise TypeError("the function returned an awaitable, and is no coroutine function")
        except BaseException as e:  # An exit of a function is no exit of the worker.
            error = e
        if not self._database.is_here():
            _exit(error)
        try:
            self._loop.call_soon_threadsafe(self._end, job, value, error)
        except RuntimeError:
            pass  # The worker has ended without this function.

    def _end(self, job: Job, value: Any, error: Optional[BaseException]) -> None:
        job._value, job._error = value, error
        if job._timer:
            job._timer.cancel()
        if error is None or job._has_committed:
            job._report = (DONE, [job.id], [job.lease])
        elif isinstance(error, Snooze) or job.why == ENDS:
            job._report = (SNOOZE, job.id, job.lease, getattr(error, "seconds", 0.0))
        else:
            text = text_of(error)
            if job.why:
                is_told = isinstance(error, (Stopped, asyncio.CancelledError))
                text = job.why if is_told else f"{job.why}: {text}"
            job._report = (FAIL, job.id, job.lease, text, getattr(error, "retry_after", None),
                           getattr(error, "final", False))
        if job._report[0] is FAIL or error and job._has_committed:
            log.warning("%s: attempt %d at %r failed: %s", job.queue, job.attempt, job.key,
                        text_of(error) if error else "")
        self._unreported.append(job)
        self._wake.set()

    async def _report(self) -> None:
        """Ends the jobs whose functions are over. One that somebody has locked, or whose end the
        database refuses, has to wait."""
        batch = [job for job in self._unreported if job._again <= self._loop.time()]
        done = [job for job in batch if job._report[0] is DONE and not job._has_committed]
        if len(done) > 1:
            try:
                rows = await self._database.call(DONE, [job.id for job in done], [job.lease for job in done])
                for job in done:
                    self._free(job, "done" if (job.id,) in rows else "lost")
            except psycopg.Error as error:
                if not is_refusal(error):
                    raise
                # One by one.
        for job in batch:
            if not job._outcome:
                await self._report_one(job)

    async def _report_one(self, job: Job) -> None:
        if job._has_committed:
            return self._free(job, "done")
        try:
            rows = await self._database.call(*job._report)
            is_done = job._report[0] is DONE
            self._free(job, ("done" if rows else "lost") if is_done else rows[0][0])
        except psycopg.Error as error:
            text = job._report[3] if job._report[0] is FAIL else ""
            if error.sqlstate == STALE:
                self._free(job, "lost")
            elif (error.sqlstate or "").startswith("22") and not text.isascii():
                # The database lacks a character.
                text = text.encode("ascii", "backslashreplace").decode()
                job._report = (FAIL, job.id, job.lease, text, *job._report[4:])
                self._wake.set()
            elif is_refusal(error):
                if error.sqlstate != LOCKED:
                    log.warning("%s: the end of %r is refused: %s", job.queue, job.key, error)
                job._again = self._loop.time() + AGAIN
                self._loop.call_at(job._again + 0.001, self._wake.set)
            else:
                raise

    def _free(self, job: Job, outcome: str) -> None:
        # A function may have ended its job itself, by hwheel.done().
        if outcome == "lost" and (job.why or job._error):
            log.warning("%s: %r has ended without this run", job.queue, job.key)
        job._outcome = outcome
        self._unreported.remove(job)
        if self._jobs.get(job.id) is job:
            del self._jobs[job.id]
        job._queue.running -= 1

    async def _beat(self) -> None:
        """Extends the leases, and finds out which have ended."""
        now = self._loop.time()
        jobs = [job for job in self._jobs.values()
                if not (job._report or job._has_committed or job.why)]
        rows = await self._database.call(EXTEND, [job.id for job in jobs], [job.lease for job in jobs],
                                self._lease) if jobs else []
        self._next_beat = now + self._lease / 3
        outcomes = dict(rows)
        for job in jobs:
            outcome = outcomes.get(job.id, "gone")
            if outcome in ("gone", "cancelled"):
                job._stop(LOST if outcome == "gone" else CANCELLED)
            elif not (job._report or job.why):
                job._lease_until(now + self._lease)


async def _outcome(function: Callable[[Job], Any], job: Job) -> tuple[Any, Optional[BaseException]]:
    value, error = None, None
    try:
        value = await function(job)
    except BaseException as e:  # An exit of a function is no exit of the worker.
        error = e
    if not job._worker._database.is_here():
        _exit(error)
    return value, error


def _exit(error: Optional[BaseException]) -> NoReturn:
    """Ends a process that was forked in a function, and has left it. It is no second worker."""
    status: Any = 0
    if isinstance(error, SystemExit):
        status = error.code or 0
    elif error:
        status = 1
        traceback.print_exception(type(error), error, error.__traceback__)
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 255)
