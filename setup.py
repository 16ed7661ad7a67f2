"""Build wheels that contain the native library of an architecture.

If no C++ compiler is installed, the wheel has no library, and the library is compiled on the user's machine at the
first use. To build for another architecture, set CXX to a cross-compiler and pass --plat-name, as scripts/release does.
"""

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))
from embedder.engines import library


class BuildWithLibrary(build_py):
    """Compile the native library into the folder that becomes the wheel. Editable installations have no library."""

    def run(self) -> None:
        """Copy the packages, and add the library."""
        super().run()
        if not self.editable_mode and library.find_compiler():
            machine = self.get_finalized_command("bdist_wheel").plat_name.partition("-")[2] or library.architecture()
            target = Path(self.build_lib) / library.wheel_library(machine).relative_to(library.SOURCES.parents[1])
            library.compile_library(target, machine, library.PORTABLE)


class PlatformWheel(bdist_wheel):
    """Tag a wheel with its platform, but for all Python versions, because the library is loaded with ctypes."""

    def finalize_options(self) -> None:
        """Mark the wheel as not pure Python if it contains a library."""
        super().finalize_options()
        self.root_is_pure = library.find_compiler() is None

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags for interpreter, ABI and platform."""
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("py3", "none", platform)


class WithLibrary(Distribution):
    """Install the packages in the folder for platform-specific code."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel contains a library."""
        return library.find_compiler() is not None


setup(distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel})
