#!/usr/bin/env python3
"""Sees that the files of src form layers: no folder uses one above it, and no files use
each other in a circle.

Reads the paths of the sources: `use` lines, and paths that begin with crate, self or
super. A path leads to the file that defines the name; a name that a folder's mod.rs only
passes on leads to the file behind it. Reads method calls as well: a call leads to the
file that defines a method of this name, if one file alone does, and if the standard
library has no such method. Tests are left out. Prints the number of files and of arrows,
or each circle and each arrow that points up.
"""

import pathlib
import re
import sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
# From the bottom up. Those of one set do not use each other.
LAYERS = [{"sync", "probes", "alone"}, {"sys"}, {"core"}, {"runtime"}, {"api", "capi"}, {"lib"}]


def sources():
    """Each module, as a tuple of names, and its text without comments and tests."""
    for path in sorted(SRC.rglob("*.rs")):
        parts = path.relative_to(SRC).with_suffix("").parts
        if parts[0] == "tests":
            continue
        text = re.sub(r"//.*", "", path.read_text())
        text = re.sub(r"#\[cfg\((?:all\()?test\b.*?\n(?:mod \w+ \{.*?\n\}|mod \w+;)", "", text, flags=re.S)
        yield parts[:-1] if parts[-1] == "mod" else () if parts == ("lib",) else parts, text


def paths(text):
    """The paths of a `use` tree, one for each name."""
    depth, begin, found = 0, 0, []
    for i, c in enumerate(text + ","):
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            found.append(text[begin:i].strip())
            begin = i + 1
    for part in filter(None, found):
        part = re.sub(r" as \w+$", "", part)
        if part.endswith("}"):
            head, inner = part[:-1].split("{", 1)
            yield from (head + path for path in paths(inner))
        else:
            yield part


MODULES = dict(sources())
PASSED_ON = {}
# Methods of the standard library that methods of ours are named after.
OF_STD = set(
    "add all any as_nanos as_ptr capacity chain clear clone close contains count drop each end filter find first fmt get insert into is_empty "
    "join last len list load lock map max min new next notify now open peek pop position push "
    "read remove replace reset send set sleep start stop store sum swap take unlock wait wake write".split()
)


def methods():
    """The module of each method that one module alone defines."""
    defined = {}
    for module, text in MODULES.items():
        for name in re.findall(r"\bfn (\w+)", text):
            defined.setdefault(name, set()).add(module)
    return {name: m.copy().pop() for name, m in defined.items() if len(m) == 1 and name not in OF_STD}


def absolute(path, module):
    """A path from the crate's root, or None if it leads out of the crate."""
    names = path.split("::")
    children = {m[-1] for m in MODULES if m[:-1] == module and m}
    if names[:2] == ["crate", "tests"]:
        return None
    if names[0] == "crate":
        return tuple(names[1:])
    if names[0] in ("self", "super"):
        base = module
        while names and names[0] in ("self", "super"):
            base = base[: len(base) - (names.pop(0) == "super")]
        return base + tuple(names)
    return module + tuple(names) if names[0] in children else None


def home(path):
    """The module that defines what a path names."""
    seen = set()
    while path not in seen:
        seen.add(path)
        for n in range(len(path), -1, -1):
            if path[:n] in PASSED_ON:
                path = PASSED_ON[path[:n]] + path[n:]
                break
    for n in range(len(path), -1, -1):
        if path[:n] in MODULES:
            return path[:n]


def arrows():
    used = {}
    homes = methods()
    for module, text in MODULES.items():
        wanted = used.setdefault(module, set())
        for shown, tree in re.findall(r"\b(pub(?:\(\w+\))? )?use ([^;]+);", text):
            for path in paths(re.sub(r"\s+", " ", tree)):
                whole = absolute(path.strip(), module)
                if whole and shown and whole[: len(module)] == module:
                    PASSED_ON[module + whole[-1:]] = whole
                elif whole:
                    wanted.add(whole)
        body = re.sub(r"\buse [^;]+;", "", text)
        for path in re.findall(r"(?<![\w:])(?:crate|super|self)(?:::\w+)+", body):
            if whole := absolute(path, module):
                wanted.add(whole)
    found = {m: {h for p in wanted if (h := home(p)) is not None} for m, wanted in used.items()}
    for module, text in MODULES.items():
        for name in re.findall(r"\.(\w+)(?:::<[^>]*>)?\(", text):
            if name in homes:
                found[module].add(homes[name])
    return {m: to - {m} for m, to in found.items()}


def circles(used):
    """The sets of modules that reach each other."""
    reach = {m: set(to) for m, to in used.items()}
    grown = True
    while grown:
        grown = False
        for m, to in reach.items():
            more = set().union(*(reach[n] for n in to)) - to if to else set()
            if more:
                to |= more
                grown = True
    return {frozenset(n for n in reach[m] if m in reach[n]) for m in reach if m in reach[m]}


def main():
    used = arrows()
    rank = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    layer = lambda m: m[0] if m else "lib"
    wrong = 0
    for circle in circles(used):
        wrong += 1
        print("a circle: " + ", ".join("::".join(m) or "lib" for m in sorted(circle)))
        for m in sorted(circle):
            for n in sorted(used[m] & circle):
                print(f"  {'::'.join(m)} -> {'::'.join(n)}")
    for m, to in sorted(used.items()):
        for n in sorted(to):
            a, b = layer(m), layer(n)
            if a != b and rank[a] <= rank[b]:
                wrong += 1
                print(f"{'::'.join(m)} uses {'::'.join(n)}, which is not below it")
    if wrong:
        sys.exit(1)
    print(f"{len(used)} files, {sum(map(len, used.values()))} arrows, all of them down")


main()
