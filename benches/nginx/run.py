#!/usr/bin/env python3
"""nginx with its tree of timers and with the wheel: run.py OUT [ROUNDS [TESTS]]

OUT has what build.sh has built. One worker is pinned to the first processor. 5,000 connections
stay idle and keep their timeout, while wrk on the last processor makes requests on 64 others.
The two kinds run in turn, ROUNDS times. Then each kind reloads and quits under the idle
connections. TESTS is a checkout of github.com/nginx/nginx-tests: both kinds run all of its
tests that mention a timeout, a delay, a rate, a resolver or keepalive. Prints, for the tests
too, what differs.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from measured import differ, markdown, number, spread

KINDS = ("tree", "wheel")
IDLE, TALKING, SECONDS = 5000, 64, 3
CONFIGURATION = """
worker_processes 1;
pid nginx.pid;
error_log error.log;
events { worker_connections 12000; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    keepalive_requests 1000000000;
    server { listen 127.0.0.1:%d backlog=4096; location / { empty_gif; } }
}
"""
FIRST, LAST = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))


def wait_until(true, what, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            sys.exit(f"  {what}: not within {seconds} s")
        time.sleep(0.02)


def answered(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    return b"200 OK" in connection.recv(4096)


class Server:
    """A master with one worker, in a directory of its own."""

    def __init__(self, out, kind):
        self.kind = kind
        self.directory = tempfile.mkdtemp(prefix="nginx-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        path = pathlib.Path(self.directory, "nginx.conf")
        path.write_text(CONFIGURATION % self.port, encoding="ascii")
        self.master = subprocess.Popen(
            ["taskset", "-c", str(FIRST), str(out.resolve() / kind / "objs/nginx"), "-p",
             self.directory, "-c", str(path), "-e", "error.log", "-g", "daemon off;"])
        wait_until(self.workers, f"{kind}: a worker")
        self.worker = self.workers()[0]
        self.idle = [self.connection() for _ in range(IDLE)]

    def workers(self):
        pid = self.master.pid
        path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        return [int(child) for child in path.read_text(encoding="ascii").split()]

    def connection(self):
        connection = socket.create_connection(("127.0.0.1", self.port))
        if not answered(connection):
            sys.exit(f"  {self.kind}: no answer")
        return connection

    def used(self):
        """Nanoseconds of processor time of the worker, the kernel's for it included."""
        return int(pathlib.Path(f"/proc/{self.worker}/schedstat").read_text().split()[0])

    def request(self):
        """Nanoseconds of processor time for each request."""
        before = self.used()
        said = subprocess.run(
            ["taskset", "-c", str(LAST), "wrk", "-t1", f"-c{TALKING}", f"-d{SECONDS}",
             f"http://127.0.0.1:{self.port}/"], capture_output=True, text=True, check=True).stdout
        requests = int(re.search(r"(\d+) requests in", said)[1])
        if "Non-2xx" in said or "Socket errors" in said:
            sys.exit(f"  {self.kind}: {said}")
        return (self.used() - before) / requests

    def reload(self):
        """A new worker answers, and the old one goes, which closes idle connections."""
        old = self.worker
        os.kill(self.master.pid, signal.SIGHUP)
        wait_until(lambda: self.workers() and old not in self.workers(), f"{self.kind}: reload")
        self.worker = self.workers()[0]
        if self.idle[0].recv(1) != b"":
            sys.exit(f"  {self.kind}: the old worker has left a connection")
        self.idle += [self.connection()]

    def quit(self):
        os.kill(self.master.pid, signal.SIGQUIT)
        status = self.master.wait(20)
        for connection in self.idle:
            connection.close()
        log = pathlib.Path(self.directory, "error.log").read_text(encoding="utf-8")
        wrong = [line for line in log.splitlines() if re.search(r"\[(alert|crit|emerg)\]", line)]
        shutil.rmtree(self.directory)
        if status != 0 or wrong:
            sys.exit(f"  {self.kind}: status {status} {wrong[:3]}")


def measure(out, rounds):
    values = {kind: [] for kind in KINDS}
    for turn in range(rounds):
        # In turn, and each first in every other round.
        for kind in KINDS[::1 if turn % 2 else -1]:
            server = Server(out, kind)
            values[kind].append(server.request())
            server.quit()
    print(markdown([("processor time a request", "ns", "spread"), *(
        (kind, number(statistics.median(runs)), number(spread(runs)))
        for kind, runs in values.items())]), end="")
    tree, wheel = (statistics.median(values[kind]) for kind in KINDS)
    print("difference: " + (f"the wheel takes {number(wheel - tree)} ns more" if differ(*values.values())
                            else "none") + f", {rounds} rounds of {SECONDS} s, {IDLE:,} idle connections")
    for kind in KINDS:
        server = Server(out, kind)
        server.reload()
        server.quit()
        print(f"{kind}: reloads, and quits with status 0")


def suite(out, tests):
    """The programs of the tests that fail, by kind."""
    mention = re.compile(r"timeout|delay|limit_rate|resolver|keepalive")
    programs = sorted(path.name for path in pathlib.Path(tests).glob("*.t")
                      if mention.search(path.read_text(encoding="utf-8")))
    failed = {}
    for kind in KINDS:
        # The tests' directories are their user's alone.
        done = subprocess.run(
            ["prove", f"-j{os.cpu_count() + 1}", *programs], cwd=tests, capture_output=True,
            text=True, check=False, env=os.environ | {
                "TEST_NGINX_BINARY": str(out.resolve() / kind / "objs/nginx"),
                "TEST_NGINX_GLOBALS": "user root;" if os.getuid() == 0 else ""})
        failed[kind] = set(re.findall(r"^(\w+\.t) +\(Wstat", done.stdout, re.MULTILINE))
        files, count = re.search(r"Files=(\d+), Tests=(\d+)", done.stdout).groups()
        skipped = len(re.findall(r"^\S+ \.+ skipped", done.stdout, re.MULTILINE))
        print(f"{kind}: nginx's tests: {count} tests in {files} programs, {skipped} skipped, "
              f"failed programs: {' '.join(sorted(failed[kind])) or 'none'}")
    worse = sorted(failed["wheel"] - failed["tree"])
    print("with the wheel alone fail: " + (" ".join(worse) or "none"))
    return not worse


def main():
    out = pathlib.Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    if rounds > 0:
        measure(out, rounds)
    if len(sys.argv) > 3 and not suite(out, sys.argv[3]):
        sys.exit(1)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main()
