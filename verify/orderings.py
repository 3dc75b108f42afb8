#!/usr/bin/env python3
"""Weakens each atomic ordering of the core by a step and sees what catches it.

usage: orderings.py all|open|check

"all" weakens one after the other, runs the model checker's tests until one
fails, and writes verify/orderings.txt. "open" does so only for those that no
test has caught. "check" fails if the table and the sources do not name the same
orderings, or if one that no test catches is not argued in docs/VERIFICATION.md
("- **name.**"), and tries those fences again that a test has caught.
"""

import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import planted

TABLE = pathlib.Path(__file__).with_name("orderings.txt")
FILES = ("wheel", "sweep", "sweep/tidy", "shard", "bucket", "slab", "runtime/ring")
HEAD = """\
# Each atomic ordering of the core that is not relaxed, a step weaker, and the
# test of the model checker that fails then, to one preemption. "=name" is an
# argument in docs/VERIFICATION.md where none does. Written by `make orderings`.
"""
CALL = re.compile(
    r"(?:crate::sync::)?\b(fence|fence_after_rmw)\(|"
    r"(\w+)(?:\(\))?(?:\.\d)?(?:\((?:[^()]|\([^()]*\))*\))?\s*\.\s*"
    r"(load|store|swap|compare_exchange(?:_weak)?|fetch_\w+)\("
)
PREEMPTIONS = int(os.environ.get("HWHEEL_PREEMPTIONS", 1))
# Too many executions to have them for each ordering, or not about the core: keys
# have a lock. HWHEEL_SLOW is another pattern of what to leave out.
SLOW = re.compile(os.environ.get("HWHEEL_SLOW", "^triple_|^pairs_of_|_of_a_key_"))
PLANTED = re.compile(r'if planted\("\w+"\) \{[^}]*\}')
STRONG = re.compile(r"Ordering::(?!Relaxed)\w+")
WEAKER = {
    "SeqCst": ["AcqRel"],
    "AcqRel": ["Acquire", "Release"],
    "Acquire": ["Relaxed"],
    "Release": ["Relaxed"],
    "Relaxed": [],
}
ARGUED = re.compile(r"^- \*\*([\w-]+)\.\*\*", re.MULTILINE)

# One step down at one place. `key` is its row in the table.
Site = collections.namedtuple("Site", "key place to")


def arguments(text, at):
    """The arguments of the call whose parenthesis opens before `at`."""
    depth, begin, found = 1, at, []
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 or (depth == 1 and text[i] == ","):
            found.append(text[begin:i])
            begin = i + 1
        if depth == 0:
            return found
    raise ValueError("unbalanced")


def sites(name):
    """The orderings of a file of src/ and what is weaker."""
    text = (planted.TOP / f"src/{name}.rs").read_text()
    text = re.split(r"#\[cfg\((?:all\()?test", text)[0]
    # What is no code, and what is there only to be wrong, made blank.
    for blank in (re.compile("//.*"), PLANTED):
        text = blank.sub(lambda m: re.sub(r"\S", " ", m[0]), text)
    found, seen, strong = [], collections.Counter(), 0
    for call in CALL.finditer(text):
        functions = re.findall(r"\bfn (\w+)", text[: call.start()])
        fence = call[1] is not None
        access = call[1] if fence else f"{call[2]}.{call[3]}"
        orders = [re.fullmatch(r"\s*Ordering::(\w+)\s*", a) for a in arguments(text, call.end())]
        orders = [m[1] for m in orders if m] or ["SeqCst"] * (access == "fence_after_rmw")
        if not orders:
            continue
        at = call.start() if fence else call.start(3)
        line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
        where = f"{name}.rs {functions[-1]}"
        seen[where, access] += 1
        nth = f"#{seen[where, access]}" if seen[where, access] > 1 else ""
        for n, order in enumerate(orders):
            strong += bool(WEAKER[order]) and access != "fence_after_rmw"
            what = access + nth + ("(failure)" if n else "")
            for to in WEAKER[order]:
                place = f"src/{name}.rs:{line}:{column}:{n}:{to}"
                found.append(Site(f"{where} {what} {order}->{to}", place, to))
    if strong != len(STRONG.findall(text)):
        sys.exit(f"{name}.rs has orderings that this program does not understand")
    return found


def read_table():
    rows = [line.rsplit(None, 1) for line in TABLE.read_text().splitlines()]
    return {" ".join(key.split()): verdict for key, verdict in rows if not key.startswith("#")}


def write_table(rows):
    cells = [key.split() + [verdict] for key, verdict in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in cells]
    TABLE.write_text(HEAD + "\n".join(lines) + "\n")


def judge(tests, site, names, last):
    """The test that fails with the site weakened; None without any."""
    try:
        if last and tests.run([last], PREEMPTIONS, HWHEEL_WEAKEN=site.place)[0]:
            return last
        failed, said = tests.run(names, PREEMPTIONS, HWHEEL_WEAKEN=site.place)
    except subprocess.TimeoutExpired:
        print(f"  {site.key}: does not end")
        return None
    if "weakened" not in said:
        print(f"  {site.key}: no test comes there")
    return failed


def run(tests, names, todo, old):
    """Weakens one site after the other; yields the row of each."""
    failed, _ = tests.run(names, PREEMPTIONS)
    if failed:
        sys.exit(f"{failed} fails with nothing weakened")

    def one(site):
        last = old.get(site.key)
        verdict = judge(tests, site, names, last if last in tests.path else None)
        print(f"  {site.key}: {verdict or 'NOT CAUGHT'}", flush=True)
        return site.key, verdict

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(one, todo)


def check(found, old):
    """Whether table, sources and document agree, and the fences are needed."""
    argued = ARGUED.findall((planted.TOP / "docs/VERIFICATION.md").read_text())
    different = {s.key for s in found} ^ set(old)
    different |= {k for k, v in old.items() if v[0] == "=" and v[1:] not in argued}
    if different:
        sys.exit("not in the table, or only there, or not argued:\n" + "\n".join(different))
    todo = [s for s in found if s.to == "AcqRel" and old[s.key][0] != "="]
    names = sorted({old[s.key] for s in todo})
    missed = [k for k, verdict in run(planted.Tests("loom"), names, todo, old) if not verdict]
    print(f"{len(found)} orderings; {len(todo)} fences weakened, {len(missed)} not caught")
    sys.exit(bool(missed))


def weaken(found, old, todo):
    tests = planted.Tests("loom")
    names = [name for name, path in tests.path.items() if "::model::" in path]
    names = [name for name in names if not SLOW.search(name)]
    rows = dict(old)
    for key, verdict in run(tests, names, todo, old):
        was = old.get(key, "=?")
        rows[key] = verdict or (was if was[0] == "=" else "=?")
        write_table([(s.key, rows.get(s.key, "=?")) for s in found])
    missed = [s.key for s in todo if rows[s.key] == "=?"]
    print(f"{len(todo)} of {len(found)} orderings weakened, {len(missed)} neither caught nor argued")
    sys.exit(bool(missed))


def main(what):
    found = [site for name in FILES for site in sites(name)]
    old = read_table() if TABLE.exists() else {}
    if what == "check":
        check(found, old)
    if what == "all":
        weaken(found, old, found)
    weaken(found, old, [s for s in found if old.get(s.key, "=")[0] == "="])


if sys.argv[1:] not in (["all"], ["open"], ["check"]):
    sys.exit(__doc__)
main(sys.argv[1])
