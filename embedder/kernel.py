"""The native engine: a hand-written encoder for AVX-512 processors, called through ctypes. Imports no torch.

The call releases the interpreter lock, needs no padding, and gives a text the same vector whatever batch it is in.
"""

import ctypes
import json
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.errors import ModelError, PackageError
from embedder.model import ModelSpec
from embedder.package import find_compiler
from embedder.shape import Shape, shape_of

ISA = "avx512_bf16"  # what the library is compiled for; richer processors run it too
ISAS = ("avx512_bf16", "amx")
PRECISIONS = ("bf16", "int8")
LIBRARY = "encoder.so"
WEIGHTS = "weights.bin"
LAYOUT = "layout.json"
_SOURCE = Path(__file__).parent / "native" / "encoder.cpp"
_FLAGS = ["-O3", "-std=c++17", "-fPIC", "-shared", "-pthread", "-fno-math-errno"]
_FLAGS += [f"-mavx512{name}" for name in ("f", "bw", "vl", "dq", "vnni", "bf16")] + ["-mfma"]
_POOLINGS = ("mean", "cls", "max")


class _CShape(ctypes.Structure):
    """`pl_shape` of encoder.cpp."""

    _fields_ = [
        (name, ctypes.c_int32)
        for name in (
            "hidden",
            "layers",
            "heads",
            "intermediate",
            "first_position",
            "max_length",
            "pooling",
            "normalize",
            "quantised",
        )
    ] + [("eps", ctypes.c_float)]


def supports(spec: ModelSpec, precision: str, isa: str) -> bool:
    """Whether the native engine runs a model of this shape, in this precision, on this instruction set."""
    shape = shape_of(spec.config)
    return (
        shape is not None
        and isa in ISAS
        and precision in PRECISIONS
        and shape.gelu == "none"
        and shape.hidden % 32 == 0
        and shape.intermediate % 32 == 0
        and (shape.hidden // shape.heads) % 32 == 0
    )


def compile_library(folder: Path) -> None:
    """Compile the encoder to `encoder.so`. Raises PackageError with what the compiler said."""
    line = [find_compiler() or "g++", *_FLAGS, "-o", str(folder / LIBRARY), str(_SOURCE)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        said = next((text for text in done.stderr.splitlines() if "error" in text), done.stderr[:200])
        raise PackageError(f"{line[0]} cannot compile the native encoder ({said}): install g++ 12 or newer")


class NativeEngine:
    """An encoder library and the mapped weights of one model, with a pool of threads of its own."""

    def __init__(self, folder: Path, spec: ModelSpec, precision: str, threads: int) -> None:
        try:
            offsets = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))
            # Mapped, not read: the workers of a server share one copy of the weights.
            self._weights = np.memmap(folder / WEIGHTS, dtype=np.uint8, mode="r")
            library = ctypes.CDLL(str(folder / LIBRARY))
        except (OSError, ValueError) as error:
            raise PackageError(
                f"the package {folder} cannot be loaded ({error}): remove it to build it again"
            ) from error
        shape = shape_of(spec.config)
        if shape is None:
            raise PackageError(f"the package {folder} is of a model the native engine does not run: use --engine aot")
        self._dimension, self._vocabulary = shape.hidden, shape.vocabulary
        self._tokenizer = spec.tokenizer
        base = self._weights.ctypes.data
        tensors = (ctypes.c_void_p * len(offsets))(*(None if at < 0 else base + at for at in offsets))
        library.pl_create.restype = ctypes.c_void_p
        library.pl_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        library.pl_encode.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int32, ctypes.c_void_p]
        library.pl_encode.restype = None
        library.pl_destroy.argtypes = [ctypes.c_void_p]
        library.pl_destroy.restype = None
        self._encode = library.pl_encode
        self._handle = library.pl_create(ctypes.byref(_c_shape(shape, spec, precision)), tensors, threads)
        weakref.finalize(self, library.pl_destroy, self._handle)

    def encode(self, rows: Sequence[list[int]]) -> npt.NDArray[np.float32]:
        """Map token ids, one list a text, to vectors, float32 (n, dim). Raises ModelError for an unknown token."""
        # Groups of like length finish together, so no thread is left with one long group at the end.
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i])) if len(rows) > 1 else [0]
        offsets = np.zeros(len(rows) + 1, dtype=np.int32)
        np.cumsum([len(rows[i]) for i in order], out=offsets[1:])
        ids = np.array([token for i in order for token in rows[i]], dtype=np.int32)
        if ids.size and ids.max() >= self._vocabulary:  # the kernel does not check bounds
            raise ModelError(f"{self._tokenizer} has tokens that the model has no weights for: fetch the model again")
        vectors = np.empty((len(rows), self._dimension), dtype=np.float32)
        self._encode(self._handle, ids.ctypes.data, offsets.ctypes.data, len(rows), vectors.ctypes.data)
        if len(rows) == 1:
            return vectors
        result = np.empty_like(vectors)
        result[order] = vectors
        return result


def _c_shape(shape: Shape, spec: ModelSpec, precision: str) -> _CShape:
    return _CShape(
        hidden=shape.hidden,
        layers=shape.layers,
        heads=shape.heads,
        intermediate=shape.intermediate,
        first_position=shape.first_position,
        max_length=shape.positions - shape.first_position,
        pooling=_POOLINGS.index(spec.pooling),
        normalize=spec.normalize,
        quantised=precision == "int8",
        eps=shape.eps,
    )
