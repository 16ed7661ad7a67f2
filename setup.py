"""The part of the build that pyproject.toml cannot say: a wheel carries the native library of its architecture.

Without a C++ compiler the wheel is made without it, and the library is compiled when it is first needed. For another
architecture, name its compiler in CXX and its platform with --plat-name, as scripts/release does.
"""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from embedder.engines import library


class BuildWithLibrary(build_py):
    """Compiles the library into the folder that becomes the wheel; an editable installation does without."""

    def run(self) -> None:
        """Copy the packages, then add the library."""
        super().run()
        if not self.editable_mode and library.find_compiler():
            machine = self.get_finalized_command("bdist_wheel").plat_name.partition("-")[2] or library.architecture()
            target = Path(self.build_lib) / library.wheel_library(machine).relative_to(library.SOURCES.parents[1])
            library.compile_library(target, machine, library.PORTABLE)


class PlatformWheel(bdist_wheel):
    """Named for the platform, as the library is of one, and for every Python, as ctypes loads it."""

    def finalize_options(self) -> None:
        """Say that there is more than Python in it."""
        super().finalize_options()
        self.root_is_pure = library.find_compiler() is None

    def get_tag(self) -> tuple[str, str, str]:
        """Return the interpreter, ABI and platform that the wheel is for."""
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("py3", "none", platform)


class WithLibrary(Distribution):
    """Is installed where code of a platform belongs."""

    def has_ext_modules(self) -> bool:
        """Return whether there is more than Python in it."""
        return library.find_compiler() is not None


setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
