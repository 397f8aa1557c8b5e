"""Adds libopenuvr and its header to the wheel, which is therefore specific to the platform.

`packaging/wheel` sets the environment variables OPENUVR_LIBRARY (the library's path), OPENUVR_VERSION, and
OPENUVR_PLATFORM (the platform tag). The metadata of the package is in pyproject.toml.
"""

import os
import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include" / "openuvr.h"


def setting(name):
    value = os.environ.get(name)
    if not value:
        raise SystemExit(f"{name} is not set: build the wheel with `make -C crates/capi wheel`")
    return value


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib, "openuvr")
        shutil.copy(HEADER, package / "openuvr.h")
        shutil.copy(setting("OPENUVR_LIBRARY"), package / "libopenuvr.so")


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        # Any Python version: the library is loaded at run time and does not use Python.
        return "py3", "none", setting("OPENUVR_PLATFORM")


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=setting("OPENUVR_VERSION"),
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
)
