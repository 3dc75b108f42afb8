"""The connections of a worker."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any, Optional

import psycopg
from psycopg.conninfo import conninfo_to_dict

# A call that takes longer loses its connection, in seconds.
PATIENCE = 15.0

SESSION = """SET search_path = pg_catalog, pg_temp; SET lock_timeout = '100 ms';
    SET statement_timeout = '10 s'; SET idle_session_timeout = 0; SET TimeZone = 'UTC'; SET DateStyle = 'ISO';
    SET default_transaction_isolation = 'read committed'"""
STALE, LOCKED = "HW003", "55P03"
PROCESS = "SELECT pg_catalog.pg_backend_pid()"


class Database:
    """One connection makes the calls of the worker. Those of transactions are kept for later. A
    function may fork: what the new process would send to a copy of a connection would reach the
    session of its parent. So it makes no call of the worker, and its transactions have new ones."""

    def __init__(self, conninfo: str) -> None:
        self.control: Optional[psycopg.AsyncConnection[Any]] = None
        self.kept: list[psycopg.Connection[Any]] = []
        self.kept_async: list[psycopg.AsyncConnection[Any]] = []
        self.process = os.getpid()  # The one that the worker runs in.
        self.options: dict[str, Any] = {
            "fallback_application_name": "hwheel-worker", "client_encoding": "utf8",
            "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT") or "10",
            "keepalives_idle": "30", "keepalives_interval": "5", "tcp_user_timeout": "30000",
            **conninfo_to_dict(conninfo),
            "autocommit": True}

    async def connect(self, statement: str) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(**self.options)
        try:
            await connection.execute(statement)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def start(self) -> None:
        """Makes the connection for calls. A pooler in transaction mode lets clients take turns in its sessions,
        and a setting of a worker would stay there for the next client. Two connections show this: without a
        pooler the server has a process for each, which stays the same. Both are made at once, because a host
        may not answer. The second one is not worth an error: it may be one too many."""
        made = await asyncio.gather(self.connect(PROCESS), self.connect(PROCESS), return_exceptions=True)
        both = [one for one in made if not isinstance(one, BaseException)]

        def cut_both() -> None:
            for one in both:
                cut(one)

        timer = asyncio.get_running_loop().call_later(PATIENCE, cut_both)
        try:
            for error in made if not both else ():
                if isinstance(error, BaseException):
                    raise error
            if len(both) > 1 and await is_shared(*both):
                raise RuntimeError("a pooler in transaction mode is before the database: "
                                   "a worker needs session mode, or none")
            await both[0].execute(SESSION)
            self.control = both.pop(0)
        finally:
            timer.cancel()
            for one in both:
                await one.close()

    def is_here(self) -> bool:
        return self.process == os.getpid()

    async def begin_async(self) -> psycopg.AsyncConnection[Any]:
        while self.is_here() and self.kept_async:  # They may be lost meanwhile.
            kept = self.kept_async.pop()
            try:
                await kept.execute("BEGIN")
                return kept
            except psycopg.Error:
                await kept.close()
        return await self.connect("BEGIN")

    def begin(self) -> psycopg.Connection[Any]:
        while True:
            try:
                kept = (self.kept if self.is_here() else []).pop()
                kept.execute("BEGIN")
                return kept
            except psycopg.Error:
                kept.close()
            except IndexError:
                connection = psycopg.connect(**self.options)
                connection.execute("BEGIN")
                return connection

    async def call(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        if not self.is_here():
            raise RuntimeError("a process that was forked is no worker")
        if self.control is None or self.control.closed:
            self.control = await self.connect(SESSION)
        timer = asyncio.get_running_loop().call_later(PATIENCE, cut, self.control)
        try:
            return await (await self.control.execute(statement, values)).fetchall()
        except psycopg.Error as error:
            if error.sqlstate not in (STALE, LOCKED):
                await self.control.close()  # Another server may be the right one.
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        for connection in filter(None, (self.control, *self.kept_async)):
            cut(connection)
            await connection.close()
        for kept in self.kept:
            kept.close()
        self.kept, self.kept_async = [], []


async def is_shared(here: psycopg.AsyncConnection[Any], there: psycopg.AsyncConnection[Any]) -> bool:
    """Whether connections take turns in sessions. They may do so in any order, so one of them keeps its
    session for a while."""
    async def process(connection: psycopg.AsyncConnection[Any]) -> Any:
        return await (await connection.execute(PROCESS, prepare=False)).fetchone()

    mine, other = await process(here), await process(there)
    for _ in range(3):
        if mine == other:
            return True
        await here.execute("BEGIN")
        is_other = await process(here) != mine or await process(there) != other
        await here.execute("COMMIT")
        if is_other or await process(here) != mine:
            return True
    return False


def cut(connection: psycopg.AsyncConnection[Any]) -> None:
    """Ends a connection whose server may not answer."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)


def is_refusal(error: psycopg.Error) -> bool:
    """Whether the database works, and refuses what the call wants for one of its jobs."""
    trouble = ("08", "25", "28", "3D", "53", "57", "58", "XX")
    return bool(error.sqlstate) and not str(error.sqlstate).startswith(trouble)
