"""The interface between Python and the native library: native/interface.h in ctypes, compared when one is loaded."""

import ctypes
from enum import IntEnum
from pathlib import Path

from embedder.engines.library import INTERLEAVE, PANEL, architecture
from embedder.errors import PackageError

ABI_VERSION = 5  # kAbiVersion: raise both with any change of interface.h


class Precision(IntEnum):
    """The numbers that linear layers multiply."""

    FP32, BF16, INT8 = range(3)


class Pooling(IntEnum):
    """The way in which the vectors of a text's tokens become one."""

    CLS, MAX, MEAN, MEAN_SQRT_LEN_TOKENS, WEIGHTEDMEAN, LASTTOKEN = range(6)


class Action(IntEnum):
    """What a step does with a text's vector."""

    POOL, DENSE, CUT, NORMALIZE = range(4)


class Activation(IntEnum):
    """What a dense step applies to each number."""

    IDENTITY, TANH, RELU, GELU, SIGMOID, SILU = range(6)


class Refusal(IntEnum):
    """The reason for which `pl_encode` did nothing."""

    NONE, UNKNOWN_TOKEN, TOO_LONG = range(3)


class CShape(ctypes.Structure):
    """The struct `pl_shape`."""

    _fields_ = (
        ("hidden", ctypes.c_int32),
        ("layers", ctypes.c_int32),
        ("heads", ctypes.c_int32),
        ("intermediate", ctypes.c_int32),
        ("vocabulary", ctypes.c_int32),
        ("first_position", ctypes.c_int32),
        ("max_length", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("global_every", ctypes.c_int32),
        ("window", ctypes.c_int32),
        ("activation", ctypes.c_int32),
        ("precision", ctypes.c_int32),
        ("eps", ctypes.c_float),
        ("types", ctypes.c_int32),
    )


class CStep(ctypes.Structure):
    """The struct `pl_step`."""

    _fields_ = (
        ("action", ctypes.c_int32),
        ("option", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("residual", ctypes.c_int32),
    )


def load(path: Path) -> ctypes.CDLL:
    """Load a library and declare its functions.

    Raises OSError for a file that is no library, PackageError for one whose interface is another.
    """
    library = ctypes.CDLL(str(path))
    ours = [ABI_VERSION, ctypes.sizeof(CShape), ctypes.sizeof(CStep), PANEL, *INTERLEAVE[architecture()].values()]
    try:
        its = list((ctypes.c_int32 * len(ours)).in_dll(library, "pl_abi"))
    except ValueError:  # there is no such symbol
        its = []
    if its != ours:
        raise PackageError(
            f"the package {path.parent} has a library with another interface than this version of Pilotlight "
            f"({its or 'none'}, not {ours}): remove it to build it again"
        )
    library.pl_create.restype = ctypes.c_void_p
    library.pl_create.argtypes = [
        ctypes.c_char_p,
        *[ctypes.c_void_p] * 2,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_int32,
    ]
    library.pl_encode.restype = Refusal
    library.pl_encode.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int32] + [ctypes.c_void_p] * 2
    library.pl_maxsim.restype = ctypes.c_int32
    library.pl_maxsim.argtypes = [
        *(ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32),  # query
        *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32),  # passages
        ctypes.c_void_p,
    ]
    library.pl_destroy.restype = None
    library.pl_destroy.argtypes = [ctypes.c_void_p]
    return library
