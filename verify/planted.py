"""The library's tests, built so that the environment can spoil the library."""

import json
import os
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
# Seconds. A bug may make a test run for ever; that is not a catch.
PATIENCE = 300


class Tests:
    """The test program of one rung: "loom", the model checker, or "std"."""

    def __init__(self, rung):
        flags = ["--cfg planted"] + ["--cfg loom"] * (rung == "loom")
        env = dict(
            os.environ,
            RUSTFLAGS=" ".join(flags),
            CARGO_TARGET_DIR=str(TARGET / f"planted-{rung}"),
            # Built for a few seconds of work.
            CARGO_PROFILE_RELEASE_LTO="off",
            CARGO_PROFILE_RELEASE_CODEGEN_UNITS="8",
        )
        build = [os.environ.get("CARGO", "cargo"), "test", "-q", "--lib", "--no-run"]
        build += ["--release"] * (rung == "loom") + ["--message-format=json"]
        out = subprocess.run(build, cwd=TOP, env=env, check=True, stdout=subprocess.PIPE, text=True)
        made = map(json.loads, out.stdout.splitlines())
        self.program = next(m["executable"] for m in made if m.get("executable"))
        listed = subprocess.run(
            [self.program, "--list"], check=True, capture_output=True, text=True
        )
        lines = [line[:-6] for line in listed.stdout.splitlines() if line.endswith(": test")]
        self.path = {path.rsplit("::", 1)[1]: path for path in lines}

    def passes(self, test, preemptions=3, **spoilt):
        """Whether a test passes. Fails if it does not end."""
        env = dict(
            os.environ,
            LOOM_MAX_PREEMPTIONS=str(preemptions),
            PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
            RUST_BACKTRACE="0",
            **spoilt,
        )
        command = [self.program, "--exact", self.path[test]]
        run = subprocess.run(command, cwd=TOP, env=env, capture_output=True, timeout=PATIENCE)
        return run.returncode == 0
