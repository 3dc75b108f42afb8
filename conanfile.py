"""The recipe for Conan 2: `conan create .` builds, packages and tests the library.

It needs Rust 1.85 or later and make in the path, as README.md says. No package of Conan has
them.
"""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import load, rmdir


class Hwheel(ConanFile):
    name = "hwheel"
    description = "A lock-free timing wheel for many timers, most of which are cancelled"
    license = "MIT OR Apache-2.0"
    url = homepage = "https://github.com/hwheel/hwheel"
    topics = ("timer", "timeout", "timing-wheel", "lock-free", "scheduler")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}
    exports_sources = (
        "Makefile", "Cargo.*", "build.rs", "hwheel.map", "hwheel.pc.in", "LICENSE-*", "src/*",
        "include/*", "bindings/*.mk", "bindings/rust/*", "bindings/luajit/src/*", "benches/*.mk",
        "jobs/*.mk", "man/*", "tools/*", "verify/*.mk", "cmake/*", "!src/tests/*",
    )
    test_package_folder = "tools/conan"

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "Cargo.toml"))
        self.version = re.search(r'^version = "(.+)"', text, re.MULTILINE)[1]

    def configure(self):
        # The library is C, and the same for every standard of it and of C++.
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.cstd")

    def package_id(self):
        # It is always optimised.
        self.info.settings.rm_safe("build_type")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("hwheel runs on 64-bit Linux, on x86_64 and armv8")

    def make(self, target):
        self.run(f"make --no-print-directory {target} PREFIX='{self.package_folder}' DESTDIR= "
                 f"BUILD=build CARGO_TARGET_DIR='{self.build_folder}/target'")

    def build(self):
        self.make("all")

    def package(self):
        self.make("install")
        for name in ("cmake", "pkgconfig"):  # Conan writes its own.
            rmdir(self, os.path.join(self.package_folder, "lib", name))
        lib = os.path.join(self.package_folder, "lib")
        for name in os.listdir(lib):
            if (".so" in name) != bool(self.options.shared):
                os.remove(os.path.join(lib, name))
        os.makedirs(os.path.join(self.package_folder, "licenses"))
        for name in ("LICENSE-MIT", "LICENSE-APACHE"):
            with open(os.path.join(self.package_folder, "licenses", name), "w") as file:
                file.write(load(self, os.path.join(self.source_folder, name)))

    def package_info(self):
        self.cpp_info.libs = ["hwheel"]
        self.cpp_info.set_property("pkg_config_name", "hwheel")
        self.cpp_info.set_property("cmake_file_name", "hwheel")
        self.cpp_info.set_property(
            "cmake_target_name", "hwheel::hwheel" if self.options.shared else "hwheel::hwheel_static")
        if not self.options.shared:
            self.cpp_info.system_libs = ["pthread"]
            # A thread that used the library runs code of it when it ends. Its functions are
            # nobody else's.
            flags = ["-Wl,-z,nodelete", "-Wl,--exclude-libs,libhwheel.a"]
            self.cpp_info.sharedlinkflags = self.cpp_info.exelinkflags = flags
