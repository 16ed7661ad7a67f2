"""Reads safetensors files into numpy, which has no bf16. Imports no torch.

The format: a length (8 bytes, little-endian), so many bytes of JSON with the place of each tensor, and the tensors.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.errors import ModelError

Array = npt.NDArray[np.float32]
_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F64": np.dtype("<f8"),
}
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit


class _Place(NamedTuple):
    """Where a tensor is."""

    data: npt.NDArray[np.uint8]  # of its file
    kind: str
    shape: tuple[int, ...]
    path: Path


class Tensors(Mapping[str, Array]):
    """The tensors of safetensors files by their names, as float32, each read when it is asked for.

    float32 is not copied: it stays a private mapping of the file, of which only what is used gets into memory.
    Raises ModelError for a damaged file, and where a tensor that is asked for has numbers of another kind.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._places: dict[str, _Place] = {}
        for path in files:
            try:
                self._places.update(_places(path))
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error

    def __getitem__(self, name: str) -> Array:
        data, kind, shape, path = self._places[name]
        if kind not in _TYPES:
            raise ModelError(f"{path} has {name} in {kind}, which is not supported: {', '.join(_TYPES)} are")
        values = data.view(_TYPES[kind]).reshape(shape)
        if kind == "BF16":  # the upper half of a float32
            wide: Array = np.left_shift(values, 16, dtype=np.uint32).view(np.float32)
            return wide
        return np.require(values, np.float32, "A")  # files of other writers may leave numbers at odd places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _places(path: Path) -> Iterator[tuple[str, _Place]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            raise ValueError("its header is too long")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    data = np.memmap(path, dtype=np.uint8, mode="c").view(np.ndarray)[8 + length :]
    if (end := max((entry["data_offsets"][1] for entry in header.values()), default=0)) != len(data):
        raise ValueError(f"it has {len(data):,} bytes of tensors, not {end:,}")
    for name, entry in header.items():
        (begin, end), kind, shape = entry["data_offsets"], entry["dtype"], tuple(entry["shape"])
        if begin < 0 or (kind in _TYPES and end - begin != math.prod(shape) * _TYPES[kind].itemsize):
            raise ValueError(f"{name} is not where it should be")
        yield name, _Place(data[begin:end], kind, shape, path)
