"""Compile and load the native library, which contains the encoder's C++ kernels.

Kernels are compiled separately for each instruction set. A wheel's library has kernels for all instruction sets of an
architecture, and the engine selects one at run time. A library that is compiled on the user's machine has kernels for
one instruction set. The ctypes declarations repeat native/interface.h. setup.py imports this module to build the wheel,
so the module may import only the standard library and `errors`.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path

from embedder.errors import CompilerMissing, PackageError

LIBRARY = "encoder.so"
SOURCES = Path(__file__).parents[1] / "native"
_AVX512 = "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma"
# Architecture → instruction set → compiler flags for native/isa_NAME.cpp. Larger instruction sets come first.
ISAS = {
    "x86_64": {
        "amx": f"{_AVX512} -mavx512vnni -mavx512bf16 -mamx-tile -mamx-bf16 -mamx-int8",
        "avx512_bf16": f"{_AVX512} -mavx512vnni -mavx512bf16",
        "avx512_vnni": f"{_AVX512} -mavx512vnni",
        "avx512": _AVX512,
        "avx_vnni": "-mavx2 -mfma -mavxvnni",
        "avx2": "-mavx2 -mfma",
    },
    "aarch64": {
        "neon_mmla": "-march=armv8.2-a+bf16+i8mm+dotprod",
        "neon_dot": "-march=armv8.2-a+dotprod",
        "neon": "-march=armv8-a",
    },
}
PANEL = 32  # outputs of a linear layer that are stored together; equals kPanel in native/interface.h
# Number of adjacent inputs that one instruction multiplies and sums. Equals kInterleaves in native/interface.h.
INTERLEAVE = {"x86_64": {"fp32": 1, "bf16": 2, "int8": 4}, "aarch64": {"fp32": 1, "bf16": 4, "int8": 8}}
# Linker flags for a wheel's library, because the user's machine may have an older C++ runtime, or none.
PORTABLE = ("-static-libstdc++", "-Wl,--gc-sections,--exclude-libs,ALL", "-s")
_FLAGS = "-O2 -std=c++17 -fPIC -pthread -fno-math-errno -fvisibility=hidden"


def architecture() -> str:
    """Return this machine's architecture, a key of `ISAS` and `INTERLEAVE`."""
    return platform.machine()


def find_compiler() -> str | None:
    """Return the path of the C++ compiler, or None if none is installed."""
    return shutil.which(os.environ.get("CXX") or "g++")


def require_compiler(purpose: str) -> str:
    """Return the path of the C++ compiler. Raises CompilerMissing; the message says that `purpose` needs a compiler."""
    if (compiler := find_compiler()) is None:
        raise CompilerMissing(
            f"{purpose} needs a C++ compiler, and none is installed: apt-get install g++, copy the cache of a machine "
            "of the same kind, or choose the engine eager, which is slower"
        )
    return compiler


def wheel_library(machine: str) -> Path:
    """Return the path where a wheel has the library for an architecture. The file may not exist."""
    return SOURCES / f"encoder-{machine}.so"


@cache
def sources_digest() -> str:
    """Return the SHA-256 of the library's sources and compiler flags, in hex."""
    digest = hashlib.sha256(repr((ISAS, _FLAGS)).encode())
    for path in sorted((*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def has_wheel_library() -> bool:
    """Return whether a library for this architecture is installed and was compiled from the installed sources."""
    path = wheel_library(architecture())
    return path.exists() and _digest_in(path) == sources_digest()


def layout_of_weights() -> str:
    """Return a string that identifies the layout in which the library reads weights."""
    return repr((ABI_VERSION, PANEL, INTERLEAVE[architecture()]))


def compile_library(target: Path, machine: str, link: Sequence[str] = (), isas: Collection[str] = ()) -> None:
    """Compile the library of an architecture. Source files are compiled in parallel.

    Args:
        target: path of the new library.
        machine: architecture, a key of `ISAS`.
        link: additional flags for the linker.
        isas: instruction sets to compile for; if empty, all instruction sets of the architecture.

    Raises:
        CompilerMissing, PackageError: no compiler is installed, or the compiler fails.
    """
    from concurrent.futures import ThreadPoolExecutor

    compiler = require_compiler("compiling the native encoder")
    names = [name for name in ISAS[machine] if name in isas or not isas]
    files = {f"isa_{name}": ISAS[machine][name] for name in names}
    files |= {
        "engine": f'-DPL_SOURCES="{sources_digest()}" -DPL_ISAS(X)={"".join(f"X({name})" for name in names)}',
        "team": "",
        "maxsim": list(ISAS[machine].values())[-1],
    }
    with tempfile.TemporaryDirectory() as work:
        lines = [
            [compiler, *_FLAGS.split(), *flags.split(), "-c", str(SOURCES / f"{name}.cpp"), "-o", f"{work}/{name}.o"]
            for name, flags in files.items()
        ]
        with ThreadPoolExecutor() as pool:
            list(pool.map(_run, lines))
        _run([compiler, "-shared", "-pthread", *link, "-o", str(target), *(f"{work}/{name}.o" for name in files)])


def _run(line: list[str]) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        message = next((text for text in done.stderr.splitlines() if "error" in text), done.stderr[:200])
        raise PackageError(f"{line[0]} cannot compile the native encoder ({message}): install g++ 11 or newer")


def _digest_in(path: Path) -> str:
    try:
        library = ctypes.CDLL(str(path))
        library.pl_sources.restype = ctypes.c_char_p
        return str(library.pl_sources().decode())
    except (OSError, AttributeError):
        return ""


ABI_VERSION = 7  # equals kAbiVersion; increment both when interface.h changes


# native/interface.h has the same enumerations.
Precision = IntEnum("Precision", "FP32 BF16 INT8", start=0)
Pooling = IntEnum("Pooling", "CLS MAX MEAN LASTTOKEN", start=0)
Action = IntEnum("Action", "POOL DENSE NORMALIZE", start=0)
Activation = IntEnum("Activation", "IDENTITY TANH GELU SILU", start=0)
Refusal = IntEnum("Refusal", "NONE UNKNOWN_TOKEN TOO_LONG", start=0)


class CShape(ctypes.Structure):
    """The struct `pl_shape` of native/interface.h."""

    _fields_ = tuple(
        (name, ctypes.c_float if name == "eps" else ctypes.c_int32)
        for name in (
            "hidden layers heads intermediate vocabulary first_position max_length outputs global_every window "
            "activation precision eps types"
        ).split()
    )


class CStep(ctypes.Structure):
    """The struct `pl_step` of native/interface.h."""

    _fields_ = (("action", ctypes.c_int32), ("option", ctypes.c_int32), ("outputs", ctypes.c_int32))


def load_library(path: Path) -> ctypes.CDLL:
    """Load a library and declare its functions. Raises OSError, or PackageError for another version's library."""
    library = ctypes.CDLL(str(path))
    ours = [ABI_VERSION, ctypes.sizeof(CShape), ctypes.sizeof(CStep), PANEL, *INTERLEAVE[architecture()].values()]
    try:
        its = list((ctypes.c_int32 * len(ours)).in_dll(library, "pl_abi"))
    except ValueError:
        its = []
    if its != ours:
        raise PackageError(
            f"the package {path.parent} has a library whose interface differs from that of this version of Pilotlight "
            f"({its or 'none'}, not {ours}): remove it to build it again"
        )
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("pl_create", pointer, [ctypes.c_char_p, pointer, pointer, number, pointer, number]),
        ("pl_encode", number, [pointer, pointer, pointer, number, pointer, pointer]),
        ("pl_maxsim", number, [pointer, number, number, pointer, pointer, pointer, number, pointer]),
        ("pl_destroy", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
