"""Compiles hwheel._native, with the library that is found first:

* the static one that HWHEEL_STATIC names, with hwheel.h in HWHEEL_INCLUDE;
* the one that pkg-config names;
* the sources in library/, which a source distribution holds and cargo builds.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "library"

# The libraries of the system that the static library needs, as in hwheel.pc.
SYSTEM = ["pthread"]


def declarations(header: str) -> str:
    """The header as cffi reads it: no comments, no conditions, values left to
    the compiler."""
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S).replace("\\\n", "")
    header = re.sub(r"^#ifdef __cplusplus$.*?^#endif.*?$", "", header, flags=re.S | re.M)
    header = re.sub(r"^#define HWHEEL_MUST_CHECK.*$", "", header, flags=re.M)
    header = re.sub(r"^HWHEEL_MUST_CHECK$", "", header, flags=re.M)
    header = re.sub(r"^(#define HWHEEL_\w+) .*$", r"\1 ...", header, flags=re.M)
    return re.sub(r"^#(?!define HWHEEL_\w+ ).*$", "", header, flags=re.M)


def installed() -> bool:
    """Whether pkg-config finds the library."""
    return shutil.which("pkg-config") is not None and not subprocess.call(
        ["pkg-config", "--exists", "hwheel"]
    )


def built() -> Path:
    """The static library, built from the sources that are here."""
    cargo = os.environ.get("CARGO", "cargo")
    if not SOURCES.is_dir() or shutil.which(cargo) is None:
        sys.exit(
            "hwheel: no library. Install it so that pkg-config finds hwheel, or use a source "
            "distribution of this package with Rust 1.85 or later; or install a wheel."
        )
    target = HERE / "build" / "cargo"
    subprocess.check_call(
        [cargo, "rustc", "--quiet", "--release", "--lib", "--crate-type", "staticlib"]
        + ["--no-default-features", "--features", "capi", "--target-dir", str(target)]
        + ["--", "--cfg", "alone"],
        cwd=SOURCES,
    )
    return next(target.glob("**/release/libhwheel.a"))


def static(library: Path, include: Path) -> None:
    ffi.cdef(declarations((include / "hwheel.h").read_text()))
    ffi.set_source(
        "hwheel._native",
        "#include <hwheel.h>",
        include_dirs=[str(include)],
        extra_objects=[str(library)],
        libraries=SYSTEM,
        # The library stays loaded once used, and its names are nobody else's.
        extra_link_args=["-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-Wl,-z,nodelete", "-s"],
    )


ffi = FFI()
if "HWHEEL_STATIC" in os.environ:
    static(Path(os.environ["HWHEEL_STATIC"]), Path(os.environ["HWHEEL_INCLUDE"]))
elif installed():
    directory = subprocess.check_output(
        ["pkg-config", "--variable=includedir", "hwheel"], text=True
    ).strip()
    ffi.cdef(declarations(Path(directory, "hwheel.h").read_text()))
    ffi.set_source_pkgconfig("hwheel._native", ["hwheel"], "#include <hwheel.h>")
else:
    static(built(), SOURCES / "include")
