#!/usr/bin/env python3
"""Writes a header with its kernel-doc comments as Doxygen reads them.

usage: doxygen.py HEADER

Doxygen calls it as its INPUT_FILTER. A section of the header becomes a group, and
each member of a struct gets its part of the comment. The parts of examples.c
belong to their functions.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"^/\*\*(.*?)\*/\n(.*?)(?=\n\n)", re.S | re.M)
SECTION = re.compile(r"^/\* ([A-Z].*[^.]) \*/$", re.M)
EXAMPLES = set(re.findall(r"^//! \[(\w+)\]$", pathlib.Path(__file__).with_name("examples.c").read_text(), re.M))


def marked(text):
    """Names of arguments and of constants, as Doxygen marks them."""
    text = text.replace("<", "\\<")
    text = re.sub(r"\b(HWHEEL_[A-Z_]*[A-Z])\b(?!\*)", r"#\1", text)
    return re.sub(r"@(\w+)", r"\\p \1", text)


def item(line):
    """A line of a list: a label, and what it means."""
    label, dash, text = line.partition(" - ")
    return f"- {label}: {text}" if dash else f"- {line}"


def described(lines):
    """The paragraphs of a comment, and the texts of its members by name."""
    out, members, name = [], {}, None
    for line in lines:
        if member := re.match(r"@(\w+): (.*)", line):
            name = member.group(1)
            members[name] = member.group(2)
        elif name and line.startswith("  "):
            members[name] += " " + line.strip()
        else:
            name = None
            # A function without a value is not to have one.
            line = re.sub(r"^Return:", r"\\return", line.replace("Return: nothing.", ""))
            line = re.sub(r"^Context: *", "\\\\par Context\n", line)
            if line.startswith("* "):
                line = item(line[2:])
            out.append(marked(line))
    return out, members


def declaration(match):
    """A comment and the code below it."""
    comment, code = match.groups()
    lines = [re.sub(r"^ \* ?", "", line) for line in comment.strip("\n").split("\n")]
    function = re.match(r"(hwheel_\w+)\(\) - (.*)", lines[0])
    text, members = described(lines[1:] if function else lines)
    if function:
        name, brief = function.groups()
        text = [f"\\brief {marked(brief)}"] + [
            f"\\param {member} {marked(what)}" for member, what in members.items()
        ] + text
        if name in EXAMPLES:
            text += ["", "\\par Example", f"\\snippet examples.c {name}"]
    else:
        for member, what in members.items():
            code = re.sub(rf"^(\t.*\b{member}(\[\d+\])?;)$",
                          lambda m, what=what: f"{m.group(1)} /**< {marked(what)} */",
                          code, flags=re.M)
    return "/**\n" + "\n".join(text) + "\n*/\n" + code


def overview(comment):
    """The page of the header's first long comment; lines with a tab are code."""
    out = []
    for line in comment.removeprefix("/*\n").removesuffix("\n */").split("\n"):
        is_code = line.startswith(" *\t")
        out.append(line[2:] if is_code else marked(line[3:]))
    text = "\n".join(out)
    text = re.sub(r"^\t.*\n(\n?\t.*\n)*", r"\\code{.c}\n\g<0>\\endcode\n", text,
                  flags=re.M)
    return f"/** \\mainpage A lock-free timing wheel\n{text}\n*/"


def section(match):
    """The beginning of a group, after the end of the one before."""
    title = match.group(1)
    name = re.sub(r"\W+", "_", title.lower())
    return f"/** @}} */\n/** \\defgroup {name} {title}\n@{{ */"


def main():
    """Filters the header."""
    text = pathlib.Path(sys.argv[1]).read_text()
    licence, first, text = re.split(r"(?<=\*/)\n+", text, maxsplit=2)
    text = SECTION.sub(section, COMMENT.sub(declaration, text))
    text = text.replace("/** @} */\n", "", 1)
    text = text.replace("\n#ifdef __cplusplus\n}", "\n/** @} */\n#ifdef __cplusplus\n}")
    print(licence, overview(first), "/** \\file */", text, sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    main()
