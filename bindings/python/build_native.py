"""Compiles hwheel._native from the header and library that pkg-config names."""

import re
import subprocess
from pathlib import Path

from cffi import FFI


def declarations(header: str) -> str:
    """The header as cffi reads it: no comments, no conditions, values left to
    the compiler."""
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S).replace("\\\n", "")
    header = re.sub(r"^#ifdef __cplusplus$.*?^#endif.*?$", "", header, flags=re.S | re.M)
    header = re.sub(r"^#define HWHEEL_MUST_CHECK.*$", "", header, flags=re.M)
    header = re.sub(r"^HWHEEL_MUST_CHECK$", "", header, flags=re.M)
    header = re.sub(r"^(#define HWHEEL_\w+) .*$", r"\1 ...", header, flags=re.M)
    return re.sub(r"^#(?!define HWHEEL_\w+ ).*$", "", header, flags=re.M)


include = subprocess.check_output(
    ["pkg-config", "--variable=includedir", "hwheel"], text=True
).strip()

ffi = FFI()
ffi.cdef(declarations(Path(include, "hwheel.h").read_text()))
ffi.set_source_pkgconfig("hwheel._native", ["hwheel"], "#include <hwheel.h>")
