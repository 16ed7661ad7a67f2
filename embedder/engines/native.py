"""Run models with the native engine, a C++ encoder that is called through ctypes. Does not import torch.

A call releases the GIL and needs no padding. The vector of a text does not depend on the other texts in its batch.
"""

import copy
import ctypes
import json
import math
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.engines.library import (
    ISAS,
    PANEL,
    Action,
    Activation,
    CShape,
    CStep,
    Pooling,
    Precision,
    Refusal,
    architecture,
    load_library,
)
from embedder.errors import ModelError, PackageError
from embedder.late_interaction import Floats, check_passages, maxsim
from embedder.model.modules import Dense
from embedder.model.spec import ModelSpec, Shape
from embedder.model.tokenizer import TokenIds

WEIGHTS = "weights.bin"
LAYOUT = "layout.json"
MAX_KERNEL_WIDTH = 4096  # dimensions of a token vector; longer ones could overflow the kernel's 16-bit sums


def find_obstacle(spec: ModelSpec, precision: str, isa: str) -> str:
    """Return the reason why the native engine cannot run a model on this instruction set, or "" if it can."""
    shape = spec.shape
    if shape is None:
        return f"its architecture is {spec.config.get('model_type')}"
    if isa not in ISAS.get(architecture(), {}):
        return f"there are no kernels for {isa}"
    if precision == "int8" and isa == "neon":
        return "neon has no dot products of bytes"
    if shape.gelu != "none":
        return "its activation is not the exact GELU"
    dense = [step for step in spec.steps if isinstance(step, Dense)]
    widths = [shape.hidden, shape.intermediate, shape.hidden // shape.heads]
    widths += [width for step in dense for width in (step.inputs, step.outputs)]
    if any(width % PANEL for width in widths):
        return f"it has a width that is not a multiple of {PANEL}"
    return ""


class NativeEngine:
    """A model in the native library, with memory-mapped weights and a thread pool."""

    def __init__(
        self, folder: Path, library_file: Path, spec: ModelSpec, precision: str, threads: int, isa: str
    ) -> None:
        """Load the verified package in `folder`. Raises PackageError if the package or the library cannot be loaded."""
        try:
            offsets = json.loads((folder / LAYOUT).read_text(encoding="utf-8"))
            # The weights are memory-mapped, so that the workers of a server share one copy.
            self._weights = np.memmap(folder / WEIGHTS, dtype=np.uint8, mode="r")
            library = load_library(library_file)
        except (OSError, ValueError) as error:
            raise PackageError(
                f"the package {folder} cannot be loaded ({error}): move cache_dir to a disk that is not mounted "
                "noexec, or remove the package to build it again"
            ) from error
        shape = spec.shape
        if shape is None:
            raise PackageError(f"the native engine cannot run the model in the package {folder}: use the engine aot")
        self._dimension, self._positions = spec.dimension, shape.positions - shape.first_position
        self._hidden, self._tokenizer = shape.hidden, spec.tokenizer
        base = self._weights.ctypes.data
        tensors = (ctypes.c_void_p * len(offsets))(*(None if at < 0 else base + at for at in offsets))
        self._encode, self._maxsim = library.pl_encode, library.pl_maxsim
        sizes, steps = c_shape(shape, spec, precision), c_steps(spec)
        self._create = partial(
            library.pl_create, isa.encode(), ctypes.byref(sizes), steps, len(steps), tensors, threads
        )
        self._destroy = library.pl_destroy
        self._start()
        if not self._handle:
            raise PackageError(f"the library {library_file} has no kernels for {isa}: remove it to build it again")

    def twin(self) -> "NativeEngine":
        """Return an engine that shares the weights of this engine but has separate threads."""
        twin = copy.copy(self)
        twin._start()
        return twin

    def _start(self) -> None:
        self._handle = self._create()
        weakref.finalize(self, self._destroy, self._handle)

    def maxsim(
        self, query: Floats, signs: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], counts: npt.NDArray[np.int32]
    ) -> Floats:
        """Score passages by the token vectors of a query. Has the arguments and result of `late_interaction.maxsim`."""
        if len(query) == 0 or query.shape[1] > MAX_KERNEL_WIDTH:
            return maxsim(query, signs, starts, counts)
        query = np.ascontiguousarray(query, dtype=np.float32)
        scores = np.empty(len(counts), dtype=np.float32)
        check_passages(query, signs, starts, counts)
        passages = (signs.ctypes.data, starts.ctypes.data, counts.ctypes.data, len(counts))
        if self._maxsim(query.ctypes.data, *query.shape, *passages, scores.ctypes.data):
            raise MemoryError("there is not enough memory to compare the tokens of a query")
        return scores / np.float32(len(query) * math.sqrt(query.shape[1]))

    def encode(self, rows: Sequence[TokenIds], *, tokens: bool = False) -> tuple[Floats, list[Floats]]:
        """Return the vectors of texts, float32 (n, dim), from the token ids of each text.

        If `tokens` is true, also return the last hidden states of each text, float32 (tokens, hidden). Raises
        ModelError if a token is unknown, or if a text has more tokens than the model has positions.
        """
        count, order = len(rows), [0]
        states = np.empty((sum(map(len, rows)) if tokens else 0, self._hidden), dtype=np.float32)
        offsets = np.zeros(count + 1, dtype=np.int32)
        if count == 1:
            ids = np.array(rows[0], dtype=np.int32)
            offsets[1] = len(ids)
        else:
            order = sorted(range(count), key=lambda i: -len(rows[i]))
            np.cumsum([len(rows[i]) for i in order], out=offsets[1:])
            ids = np.concatenate([rows[i] for i in order], dtype=np.int32, casting="unsafe")
        vectors = np.empty((count, self._dimension), dtype=np.float32)
        refused = self._encode(
            self._handle,
            ids.__array_interface__["data"][0],
            offsets.__array_interface__["data"][0],
            count,
            vectors.__array_interface__["data"][0],
            states.__array_interface__["data"][0] if len(states) else None,
        )
        if refused == Refusal.UNKNOWN_TOKEN:
            raise ModelError(f"{self._tokenizer} has tokens that the model has no weights for: fetch the model again")
        if refused == Refusal.TOO_LONG:
            raise ModelError(
                f"a text has {len(rows[order[0]])} tokens, but {self._tokenizer.parent} has positions for only "
                f"{self._positions}: truncate it"
            )
        if count == 1:
            return vectors, [states]
        result = np.empty_like(vectors)
        result[order] = vectors
        text_states: list[Floats] = [states] * count
        for row, i in enumerate(order) if len(states) else ():
            text_states[i] = states[offsets[row] : offsets[row + 1]]
        return result, text_states


def c_shape(shape: Shape, spec: ModelSpec, precision: str) -> CShape:
    """Return a model's sizes and options as the library's struct `pl_shape`."""
    alike = "hidden layers heads intermediate vocabulary first_position global_every window eps types"
    return CShape(
        **{name: getattr(shape, name) for name in alike.split()},
        max_length=shape.positions - shape.first_position,
        outputs=spec.dimension,
        activation=Activation.SILU if shape.silu else Activation.GELU,
        precision=Precision[precision.upper()],
    )


def c_steps(spec: ModelSpec) -> ctypes.Array[CStep]:
    """Return a model's poolings and the layers after pooling, as an array of the library's struct `pl_step`."""
    steps = [CStep(Action.POOL, Pooling[name.upper()], spec.hidden) for name in spec.pooling]
    for step in spec.steps:
        if isinstance(step, Dense):
            steps.append(CStep(Action.DENSE, Activation[step.activation.upper()], step.outputs))
        else:
            steps.append(CStep(Action.NORMALIZE, 0, 0))
    return (CStep * len(steps))(*steps)
