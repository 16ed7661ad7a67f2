"""Reads a few tensors of safetensors files into numpy, which has no bf16. Imports no torch.

The format: a length (8 bytes, little-endian), so many bytes of JSON with the place of each tensor, and the tensors.
"""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.errors import ModelError

_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F64": np.dtype("<f8"),
}
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit


def read_tensors(files: Sequence[Path], names: Collection[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Return those tensors of the names that the files have, as float32. Raises ModelError for a damaged file."""
    found: dict[str, npt.NDArray[np.float32]] = {}
    for path in files:
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > _LONGEST_HEADER:
                    raise ValueError("its header is too long")
                header: dict[str, dict[str, Any]] = json.loads(file.read(length))
                for name in header.keys() & names:
                    begin, end = header[name]["data_offsets"]
                    file.seek(8 + length + begin)
                    found[name] = _read(file.read(end - begin), header[name]["dtype"], header[name]["shape"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{path} is damaged ({error}): fetch the model again") from error
    return found


def _read(data: bytes, kind: str, shape: Sequence[int]) -> npt.NDArray[np.float32]:
    values = np.frombuffer(data, _TYPES[kind]).reshape(shape)
    if kind == "BF16":  # the upper half of a float32
        return np.left_shift(values.astype(np.uint32), 16).view(np.float32)
    return np.asarray(values, np.float32)
