"""Runs jobs that an application takes from hwheel. Copy this file; it needs psycopg 3.2.4.

As a program: DATABASE_URL=... python take.py QUEUE
"""
import logging
import os
import sys
import time

import psycopg
from psycopg.rows import namedtuple_row


def work(url, queue, handle, at_most=10):
    """Calls handle(connection, job) for each job of the queue that is due, for good.

    A connection that is lost is made again. The statements of the handler and the end of the job are one transaction. An exception
    rolls it back, and the job is tried again. A job has id, key, due, payload and attempt.
    All that are taken together have to end within their leases.
    """
    while True:
        try:
            serve(url, queue, handle, at_most)
        except psycopg.OperationalError as error:
            logging.warning("no connection: %s", error)
            time.sleep(1)


def serve(url, queue, handle, at_most):
    take = psycopg.connect(url, autocommit=True, row_factory=namedtuple_row)
    effect = psycopg.connect(url, autocommit=True)
    take.execute("SELECT hwheel.listen(%s)", [queue])
    while True:
        jobs = take.execute("SELECT * FROM hwheel.take(%s, %s)", [queue, at_most]).fetchall()
        for job in jobs:
            run(effect, job, handle)
        if not jobs:
            # Also for a notification that has come since. Now and then it looks by itself:
            # there may have been no node.
            list(take.notifies(timeout=5, stop_after=1))


def run(effect, job, handle):
    try:
        with effect.transaction():
            handle(effect, job)
            effect.execute("SELECT hwheel.done(%s, %s)", [job.id, job.lease])
    except Exception as error:
        if effect.closed:
            raise
        logging.warning("job %s has failed: %s", job.key, error)
        try:
            effect.execute("SELECT hwheel.fail(%s, %s, %s)", [job.id, job.lease, str(error)])
        except psycopg.Error as stale:
            if stale.sqlstate != "HW003":  # The lease has ended: the job is not ours any more.
                raise


def example(connection, job):
    if job.payload == "fail":
        raise ValueError("it does not work")
    connection.execute("INSERT INTO sent (key) VALUES (%s)", [job.key])


if __name__ == "__main__":
    work(os.environ["DATABASE_URL"], sys.argv[1], example)
