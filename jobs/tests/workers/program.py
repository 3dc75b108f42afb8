"""The worker of the tests, in Python. Usage: program.py QUEUE [drain]

What it does it prints, a line each: what, key, attempt. QUEUE has jobs with an effect in the
database. Its other queues have functions that misbehave.
"""
import asyncio
import contextlib
import multiprocessing
import os
import sys
import threading
import time

from hwheel_worker import Fail, Job, Snooze, Worker

worker = Worker(os.environ.get("DATABASE_URL", ""), lease=float(os.environ.get("LEASE", 30)),
                grace=float(os.environ.get("GRACE", 30)))


def say(what, job, more=""):
    os.write(1, f"{what} {job.key} {job.attempt} {more}\n".encode())  # At once: there are threads.


@worker.queue(sys.argv[1], concurrency=10)
def send(job: Job) -> str:
    if job.payload == "fail":
        raise ValueError("it does not work")
    with job.transaction() as connection:
        connection.execute("INSERT INTO sent (key) VALUES (%s)", [job.key])
    return "sent"


@worker.queue("send-async", concurrency=10)
async def send_async(job: Job) -> str:
    async with job.transaction_async() as connection:
        await connection.execute("INSERT INTO sent (key) VALUES (%s)", [job.key])
    return "sent"


@worker.queue("plain", concurrency=5)
def plain(job: Job) -> None:
    if job.payload == "quiet":
        worker.quiet()
    say("begin", job)
    time.sleep(0.02)


# Runs for a number of seconds, or until it has to end.
@worker.queue("slow", concurrency=5)
def slow(job: Job) -> None:
    say("begin", job)
    if job.stop.wait(job.payload):
        say("stop", job, job.why)
        job.check()
    say("end", job)


@worker.queue("slow-async", concurrency=5)
async def slow_async(job: Job) -> None:
    say("begin", job)
    try:
        await asyncio.sleep(job.payload)
    except asyncio.CancelledError:
        say("stop", job, job.why)
        raise
    say("end", job)


# The connection of its transaction is killed before the commit.
@worker.queue("killed")
def killed(job: Job) -> None:
    with job.transaction() as connection:
        connection.execute("INSERT INTO sent (key) VALUES (%s)", [job.key])
        if job.attempt == 1:
            with worker._database.begin() as other:
                other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])


# Ends for nobody.
@worker.queue("deaf")
def deaf(job: Job) -> None:
    say("begin", job)
    threading.Event().wait()


@worker.queue("deaf-async")
async def deaf_async(job: Job) -> None:
    say("begin", job)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            say("stop", job, job.why)


@worker.queue("snooze")
def snooze(job: Job) -> None:
    say("begin", job)
    if not os.path.exists(job.payload):
        with open(job.payload, "x"):
            raise Snooze(0.2)


def in_new_process(way: str) -> None:
    if way == "raise":
        raise ValueError("it does not work")
    if way.endswith("exit"):
        sys.exit(3)


def status_of(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


INSERT = "INSERT INTO sent (key) VALUES (%s)"


# A new process leaves the function, by all ways, also in the middle of a transaction.
@worker.queue("fork", concurrency=5)
def fork(job: Job) -> None:
    way = job.payload
    begun = job.transaction() if way.startswith("in") else contextlib.nullcontext()
    with begun as connection:
        if connection:
            connection.execute(INSERT, [job.key])
        process = os.fork()
        if process == 0:
            if way == "own":
                with job.transaction() as own:
                    own.execute(INSERT, [job.key])
            return in_new_process(way)
        say("forked", job, status_of(process))


@worker.queue("fork-async", concurrency=5)
async def fork_async(job: Job) -> None:
    way = job.payload
    begun = job.transaction_async() if way.startswith("in") else contextlib.AsyncExitStack()
    async with begun as connection:
        if way.startswith("in"):
            await connection.execute(INSERT, [job.key])
        process = os.fork()
        if process == 0:
            return in_new_process(way)
        say("forked", job, status_of(process))


@worker.queue("multiprocessing", concurrency=5)
def with_processes(job: Job) -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        say("forked", job, sum(pool.map(abs, range(-4, 0))))


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Base(BaseException):
    pass


def odd_ends():
    yield lambda: sys.exit(3)
    yield lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    yield lambda: (_ for _ in ()).throw(asyncio.CancelledError)
    yield lambda: (_ for _ in ()).throw(Unspeakable)
    yield lambda: (_ for _ in ()).throw(Base("base"))
    yield lambda: (_ for _ in ()).throw(StopIteration)
    yield lambda: (_ for _ in ()).throw(GeneratorExit)
    yield lambda: (_ for _ in ()).throw(ValueError("\0 \ud800 \U0001f600" + 20000 * "x"))
    yield lambda: (_ for _ in ()).throw(Snooze(-1))
    yield lambda: (_ for _ in ()).throw(Snooze(float("nan")))
    yield lambda: (_ for _ in ()).throw(Fail("no more", final=True))
    yield lambda: Unspeakable.missing
    yield lambda: (lambda f: f(f))(lambda f: f(f))


@worker.queue("odd", concurrency=20)
def odd(job: Job) -> None:
    list(odd_ends())[job.payload]()


@worker.queue("odd-async", concurrency=20)
async def odd_async(job: Job) -> None:
    list(odd_ends())[job.payload]()


@worker.queue("forgotten")
def forgotten(job: Job):
    return asyncio.sleep(0)


if sys.argv[2:] == ["odd"]:
    print(len(list(odd_ends())))
elif sys.argv[2:] == ["drain"]:
    for result in asyncio.run(worker.drain()):
        print(result.key, result.attempt, result.outcome, result.value or result.error)
else:
    worker.run()
