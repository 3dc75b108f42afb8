"""Runs the jobs of hwheel's queues in functions of this program.

    worker = Worker("dbname=app")

    @worker.queue("mail", concurrency=10)
    def send(job):
        with job.transaction() as connection:
            connection.execute("INSERT INTO sent VALUES (%s)", [job.payload["to"]])

    worker.run()

A function runs in a thread, a coroutine function in the event loop. The job is done when the
function returns, or when its transaction commits. An exception is an attempt that failed.
"""

from ._job import Fail, Job, Result, Snooze, Stopped
from ._worker import Worker

__all__ = ["Fail", "Job", "Result", "Snooze", "Stopped", "Worker"]
