import sys
import sysconfig

from setuptools import setup

# A source distribution needs no library.
building = not {"sdist", "egg_info", "--version"}.intersection(sys.argv)

setup(
    cffi_modules=["build_native.py:ffi"] if building else [],
    # One wheel for every version of CPython from 3.9. A free-threaded one has no such interface.
    options=(
        {}
        if sysconfig.get_config_var("Py_GIL_DISABLED")
        else {"bdist_wheel": {"py_limited_api": "cp39"}}
    ),
)
