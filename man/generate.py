#!/usr/bin/env python3
"""Writes the manual pages of section 3 from the comments of the header.

usage: generate.py HEADER OVERVIEW DIRECTORY

Every function of HEADER becomes a page of its own in DIRECTORY. OVERVIEW is
hwheel.7, whose date the pages take. The parts of examples.c become the EXAMPLES of
their functions. A comment that does not fit its function, or
that this script does not understand, is an error.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"/\*\*(.*?)\*/\n(.*?)(?=\n\n|\Z)", re.S)
TYPE = re.compile(r"struct (\w+) \{|typedef .*\(\*(\w+)\)")
WIDTH = 70


def paragraphs(comment):
    """The paragraphs of a comment, as lists of lines without the stars."""
    found = [[]]
    for line in comment.splitlines():
        line = re.sub(r"^ \* ?", "", line).rstrip()
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [p for p in found if p]


def items(lines, start):
    """Joins lines into items, each of which begins with a match of `start`."""
    found = []
    for line in lines:
        if re.match(start, line) or not found:
            found.append(line.strip())
        else:
            found[-1] += " " + line.strip()
    return found


class Function:
    """One documented function."""

    def __init__(self, comment, code):
        self.code = " ".join(code.split())
        self.name = re.search(r"(\w+)\(", self.code).group(1)
        self.parameters = []
        self.description = []
        self.returns = None
        self.context = None
        self.text = comment + code
        head, *rest = paragraphs(comment)
        title = re.fullmatch(r"(\w+)\(\) - (.*)\.", head[0].strip())
        if not title or title.group(1) != self.name:
            sys.exit(f"{self.name}: the comment begins with {head[0]!r}")
        self.summary = title.group(2)
        for item in items(head[1:], r"@\w+:"):
            name, text = re.fullmatch(r"@(\w+): (.*)", item).groups()
            self.parameters.append((name, text))
        for paragraph in rest:
            self.add(paragraph)
        if self.returns is None or self.context is None:
            sys.exit(f"{self.name}: Return: or Context: is missing")
        declared = re.findall(r"(\w+)[,)]", self.code.split("(", 1)[1])
        documented = [name for name, _ in self.parameters]
        if [n for n in declared if n != "void"] != documented:
            sys.exit(f"{self.name}: takes {declared}, documents {documented}")

    def add(self, paragraph):
        """Files a paragraph under what it begins with."""
        first = paragraph[0]
        if first.startswith("Return:"):
            paragraph[0] = first.removeprefix("Return:")
            self.returns = [line for line in paragraph if line.strip()]
        elif first.startswith("Context:"):
            paragraph[0] = first.removeprefix("Context:")
            self.context = paragraph
        else:
            self.description.append(paragraph)


class Header:
    """What the header declares."""

    def __init__(self, text):
        self.functions, self.macros, self.types = [], {}, {}
        text = re.sub(r"^HWHEEL_MUST_CHECK\n", "", text, flags=re.M)
        for comment, code in COMMENT.findall(text):
            if macro := re.match(r"#define (\w+)", code):
                self.macros[macro.group(1)] = comment
            elif kind := TYPE.match(code):
                self.types[kind.group(1) or kind.group(2)] = (comment, code)
            elif re.match(r"[\w ]+[ *]\w+\(", code):
                self.functions.append(Function(comment, code))
            elif not re.match(r"struct \w+;|typedef \w+ \w+;", code):
                sys.exit(f"not understood: {code}")
        numbers = re.findall(r"#define HWHEEL_VERSION_\w+ (\d+)", text)
        self.version = ".".join(numbers)

    def types_of(self, code):
        """The types that `code` names, and those that these name."""
        found = {}
        for name, (comment, inner) in self.types.items():
            if re.search(rf"\b{name}\b(?!\()", code) and inner != code:
                found |= {name: (comment, inner)} | self.types_of(inner)
        return found


def escape(text):
    """Plain text as roff: fonts for what is code, references for functions."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(^|[\s(])-(?=\w)", r"\1\\-", text)
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", text)
    text = re.sub(r"\b(HWHEEL_[A-Z_]+\*?)", r"\\fB\1\\fP", text)
    text = re.sub(r"(\\-E[A-Z0-9]+)", r"\\fB\1\\fP", text)
    text = re.sub(r"\b(hwheel_\w+)\(\)", r"\\fB\1\\fP(3)", text)
    return re.sub(r"@(\w+)", r"\\fI\1\\fP", text)


def prose(text):
    """Escaped text, with a line for each sentence as roff wants it."""
    text = escape(" ".join(text.split()))
    lines = re.sub(r"(?<=[.?!]) (?=[A-Z\\])", "\n", text).split("\n")
    return [("\\&" if line[0] in ".'" else "") + line for line in lines]


def capital(text):
    """`text` as a sentence; code at its start stays as it is."""
    is_word = re.match(r"[a-z]+(?:[,.;]|$| (?![*=+]))", text)
    return text[0].upper() + text[1:] if is_word else text


def block(lines):
    """A paragraph, or a list if its lines begin with stars."""
    if not any(line.lstrip().startswith("* ") for line in lines):
        return [".PP", *prose(capital(" ".join(lines).strip()))]
    out = []
    for item in items(lines, r"\s*\* "):
        if not item.startswith("* "):
            out += [".PP", *prose(item)]
            continue
        label, dash, text = item[2:].partition(" - ")
        label = label.replace("-", "\\-") if dash else "\\(bu"
        out += [".TP", f".B {label}", *prose(capital(text or item[2:]))]
    return out


def synopsis(function):
    """The declaration, in bold with its parameters in italics."""
    head, rest = function.code.split("(", 1)
    parts = [p.strip() for p in rest.rstrip(";").rstrip(")").split(",")]
    lines, line = [], head + "("
    for i, part in enumerate(parts):
        end = ");" if i == len(parts) - 1 else ","
        if len(line) + len(part) + 2 > WIDTH:
            lines.append(line.rstrip())
            line = " " * 4
        line += part + end + " "
    lines.append(line.rstrip())
    out = [".nf", ".B #include <hwheel.h>", ".PP"]
    names = "|".join(name for name, _ in function.parameters) or "(?!)"
    for line in lines:
        pieces = re.split(rf"\b({names})(?=[,)])", line)
        font = ".BI" if len(pieces) > 1 else ".B"
        out.append(" ".join([font, *(f'"{p}"' for p in pieces if p)]))
    return [*out, ".fi"]


def structure(name, comment, code):
    """A type, as it is declared, and what its comment says."""
    text, *members = paragraphs(comment)
    kind = "struct " if code.startswith("struct") else ""
    out = [f".SS {kind}{name}", *block(text)[1:], ".PP", ".in +4n", ".EX"]
    if any(len(line) > WIDTH for line in code.split("\n")):
        code = re.sub(r", ", ",\n    ", code)
    out += [*code.split("\n"), ".EE", ".in"]
    for paragraph in members:
        if not re.match(r"@\w+:", paragraph[0]):
            out += block(paragraph)
            continue
        for item in items(paragraph, r"@\w+:"):
            member, text = re.fullmatch(r"@(\w+): (.*)", item).groups()
            out += [".TP", f".I {member}", *prose(capital(text))]
    return out


def attributes(function):
    """What attributes(7) calls safety, by where the function may be called."""
    context = " ".join(function.context)
    if context.strip().startswith("any thread"):
        threads = "MT-Safe"
    elif context.strip().startswith("no other thread"):
        threads = "MT-Unsafe race:wheel"
    else:
        sys.exit(f"{function.name}: Context: is not understood: {context}")
    # A table stays on one page.
    return [".SH ATTRIBUTES", ".ne 9", ".TS", "lb lb", "l l.", "Attribute\tValue", "_",
            f"Thread safety\t{threads}", "Async-signal safety\tAS-Unsafe",
            "Async-cancel safety\tAC-Unsafe", ".TE"]


def page(header, function, date):
    """The page of a function."""
    used = function.text
    out = [
        '.\\" Generated from include/hwheel.h; do not edit.',
        '.\\" SPDX-License-Identifier: MIT OR Apache-2.0',
        f'.TH {function.name} 3 {date} "hwheel {header.version}"',
        ".SH NAME",
        f"{function.name} \\- {function.summary[0].lower()}"
        f"{escape(function.summary[1:])}",
        ".SH LIBRARY",
        "hwheel",
        ".RI ( libhwheel ,",
        ".IR \\-lhwheel )",
        ".SH SYNOPSIS",
        *synopsis(function),
        ".SH DESCRIPTION",
    ]
    out += prose(function.summary + ".")
    for paragraph in function.description:
        out += block(paragraph)
    if function.parameters:
        out += [".SS Arguments"]
    for name, text in function.parameters:
        out += [".TP", f".I {name}", *prose(capital(text))]
    for name, (comment, code) in header.types_of(function.code).items():
        used += comment
        out += structure(name, comment, code)
    patterns = [re.escape(m).replace(r"\*", r"\w+")
                for m in re.findall(r"HWHEEL_[A-Z_]+\*?", used)]
    macros = [m for m in header.macros
              if any(re.fullmatch(p, m) for p in patterns)]
    if macros:
        out += [".SS Constants"]
    for name in macros:
        text = " ".join(" ".join(p) for p in paragraphs(header.macros[name]))
        out += [".TP", f".B {name}", *prose(text)]
    out += [".SH RETURN VALUE", *block(function.returns),
            ".SH CONTEXT", *block(function.context), *attributes(function)]
    examples = pathlib.Path(__file__).with_name("examples.c").read_text()
    if example := re.search(rf"\n//! \[{function.name}\]\n(.*?)\n//!", examples, re.S):
        code = example[1].expandtabs().replace("\\", "\\e")
        out += [".SH EXAMPLES", ".EX", code.rstrip("\n"), ".EE"]
    out += [".SH SEE ALSO"]
    known = {f.name for f in header.functions}
    others = set(re.findall(r"\b(hwheel_\w+)\(\)", used)) & known
    pages = [f".BR {n} (3)" for n in sorted(others - {function.name})]
    out += [",\n".join([*pages, ".BR hwheel (7)"])]
    # Pages with tables begin with a line for man(1).
    text = "\n".join(["'\\\" t", *out]) + "\n"
    # A paragraph right after a heading is one already.
    return re.sub(r"(\n\.S[HS] .*)\n\.PP\n", r"\1\n", text)


def main():
    """Writes all pages."""
    source, overview, directory = map(pathlib.Path, sys.argv[1:])
    header = Header(source.read_text())
    title = re.search(r"^\.TH hwheel 7 (\S+)", overview.read_text(), re.M)
    date = title.group(1)
    for old in directory.glob("*.3"):
        old.unlink()
    for function in header.functions:
        text = page(header, function, date)
        (directory / f"{function.name}.3").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    main()
