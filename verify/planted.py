"""The library's tests, built so that the environment can spoil the library."""

import json
import os
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
# Seconds. A bug may make a test run for ever; that is not a catch.
PATIENCE = 600


class Tests:
    """The test program of one rung: "loom" or "shuttle", the model checkers, or
    "std"."""

    def __init__(self, rung):
        checker = rung != "std"
        flags = ["--cfg planted"] + [f"--cfg {rung}"] * checker
        env = dict(
            os.environ,
            RUSTFLAGS=" ".join(flags),
            CARGO_TARGET_DIR=str(TARGET / f"planted-{rung}"),
            # Built for a few seconds of work.
            CARGO_PROFILE_RELEASE_LTO="off",
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS="8",
        )
        build = [os.environ.get("CARGO", "cargo"), "test", "-q", "--lib", "--no-run"]
        build += ["--release"] * checker + ["--message-format=json"]
        out = subprocess.run(build, cwd=TOP, env=env, check=True, stdout=subprocess.PIPE, text=True)
        made = map(json.loads, out.stdout.splitlines())
        self.program = next(m["executable"] for m in made if m.get("executable"))
        listed = subprocess.run(
            [self.program, "--list"], check=True, capture_output=True, text=True
        )
        lines = [line[:-6] for line in listed.stdout.splitlines() if line.endswith(": test")]
        self.path = {path.rsplit("::", 1)[1]: path for path in lines}

    def run(self, tests, preemptions=3, **spoilt):
        """The first of some tests that fails, or None, and what they said.
        Fails if they do not end."""
        env = dict(
            os.environ,
            LOOM_MAX_PREEMPTIONS=str(preemptions),
            PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
            RUST_BACKTRACE="0",
            # The harness has --fail-fast, but does not call it stable.
            RUSTC_BOOTSTRAP="1",
            **spoilt,
        )
        command = [self.program, "--exact", *(self.path[test] for test in tests)]
        command += ["--nocapture", "--test-threads=1", "-Zunstable-options", "--fail-fast"]
        run = subprocess.run(
            command, cwd=TOP, env=env, capture_output=True, text=True, timeout=PATIENCE
        )
        begun = re.findall(r"^test (\S+) \.\.\.", run.stdout, re.MULTILINE)
        if run.returncode == 0 and len(begun) == len(tests):
            return None, run.stdout
        return begun[-1].rsplit("::", 1)[1], run.stdout
