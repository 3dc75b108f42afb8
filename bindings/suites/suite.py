"""Runs CPython's tests of asyncio, of the Python that runs this, on timers of hwheel.

    suite.py timeouts   test_timeouts, on the timeouts of an AsyncioWheel
    suite.py loop       all tests of asyncio, on loops of loop_factory
    suite.py uvloop     the tests of what sleeps and times out, on uvloop with loop_factory

Prints a line for the table of bindings/suites.sh. And of another package:

    suite.py other original|ours <file> <argument of pytest>...

runs its tests on asyncio's own loops or on those of loop_factory, and writes a line for each
that was not skipped: its name, and whether it passed.
"""

import asyncio
import pathlib
import platform
import sys
import unittest
import weakref

import hwheel

# Tests that do not apply, by the end of their name, with the reason.
NOT_APPLICABLE = {"timeouts": {}, "loop": {}, "uvloop": {}}

# On uvloop: it tests its own sockets, servers and processes, which have no timers of ours.
OF_TIMERS = ["timeouts", "waitfor", "taskgroups", "locks", "queues", "runners"]


def timeouts():
    """The timeouts of asyncio are those of a wheel that lives as long as its loop."""
    wheels = weakref.WeakKeyDictionary()

    def wheel():
        loop = asyncio.get_running_loop()
        if loop not in wheels:
            own = wheels[loop] = hwheel.AsyncioWheel()
            close = loop.close
            loop.close = lambda: (own.close(), close())
        return wheels[loop]

    asyncio.timeout = lambda delay: wheel().timeout(delay)
    asyncio.timeout_at = lambda when: wheel().timeout_at(when)
    return ["timeouts"]


def loop():
    """The loops of asyncio are those of the factory. Tests also call the class."""
    from asyncio import unix_events

    base = asyncio.SelectorEventLoop

    class Loop(type(closed(hwheel.loop_factory(base)))):
        def __init__(self, *args):
            super().__init__(*args, wheel=hwheel.EventWheel(owned=True), is_virtual=False)
            counts["loops"] += 1

        def call_at(self, when, callback, *args, context=None):
            counts["timers"] += 1
            handle = super().call_at(when, callback, *args, context=context)
            if handle._source_traceback:
                del handle._source_traceback[-1]
            return handle

    asyncio.SelectorEventLoop = asyncio.EventLoop = Loop
    unix_events.SelectorEventLoop = unix_events._UnixSelectorEventLoop = Loop
    asyncio.DefaultEventLoopPolicy._loop_factory = Loop
    here = pathlib.Path(unittest.__file__).parent.parent / "test" / "test_asyncio"
    return sorted(path.stem[5:] for path in here.glob("test_*.py"))


def uvloop():
    """The loops of the policy are of uvloop, and of the factory."""
    import uvloop

    factory = hwheel.loop_factory(uvloop.Loop)
    kind = type(closed(factory))
    call_at = kind.call_at

    def counted(self, *args, **options):
        counts["timers"] += 1
        return call_at(self, *args, **options)

    def make():
        counts["loops"] += 1
        return factory()

    kind.call_at = counted
    asyncio.DefaultEventLoopPolicy._loop_factory = staticmethod(make)
    return OF_TIMERS


def closed(factory):
    """A loop that shows its class."""
    one = factory()
    one.close()
    return one


def names(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names(test)
        else:
            yield test


counts = {"loops": 0, "timers": 0}


class Results:
    """A plugin of pytest: the names of the tests, and whether each passed."""

    def __init__(self):
        self.passed = {}

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.passed.pop(report.nodeid, None)
        elif report.when == "call" or report.failed:
            self.passed[report.nodeid] = report.passed and self.passed.get(report.nodeid, True)


def other(on, file, *arguments):
    import pytest

    if on == "ours":
        loop()
    results = Results()
    try:
        pytest.main([*arguments, "-q", "-p", "no:cacheprovider", "--tb=short"], plugins=[results])
    finally:  # What a test leaves may raise at the end.
        with open(file, "w") as out:
            for name, passed in sorted(results.passed.items()):
                print("passed" if passed else "failed", name, file=out)
    print(f"{counts['loops']} loops, {counts['timers']} timers of ours")
    sys.stdout.flush()
    return not results.passed or on == "ours" and not counts["timers"]


def main():
    part = sys.argv[1]
    if part == "other":
        return other(*sys.argv[2:])
    modules = {"timeouts": timeouts, "loop": loop, "uvloop": uvloop}[part]()
    listed, chosen = [], unittest.TestSuite()
    for module in modules:
        try:
            tests = unittest.defaultTestLoader.loadTestsFromName(f"test.test_asyncio.test_{module}")
        except unittest.SkipTest as skip:
            print(f"test_{module}: {skip}")
            continue
        for test in names(tests):
            reason = [why for end, why in NOT_APPLICABLE[part].items() if test.id().endswith(end)]
            (listed.append((test.id(), reason[0])) if reason else chosen.addTest(test))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=1).run(chosen)
    for test, why in listed:
        print(f"not applicable: {test}: {why}")
    # What CPython's own conditions skip here is not counted.
    ran = result.testsRun - len(result.skipped)
    bad = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    title = {"timeouts": "CPython test_timeouts", "loop": "CPython asyncio on loop_factory",
             "uvloop": "CPython asyncio, timers on uvloop"}[part]
    print(f"{counts['loops']} loops, {counts['timers']} timers of ours; "
          f"{len(result.skipped)} skipped by CPython")
    print(f"{title} | {platform.python_version()} | {ran + len(listed)} | {ran - bad} | {len(listed)}")
    # A test may leave a thread.
    sys.stdout.flush()
    return bad != 0 or part != "timeouts" and not counts["loops"]


if __name__ == "__main__":
    sys.exit(main())
