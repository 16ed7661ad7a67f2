"""Read a model's files, JSON and safetensors, and their digests. Models are untrusted, so every length is checked."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from mmap import mmap
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
_MAX_HEADER_BYTES = 16 << 20
_MAX_JSON_BYTES = 16 << 20
_MAX_DIMENSIONS = 8
_READ_BYTES = 16 << 20  # large, because other threads take the GIL for milliseconds between two reads
FAULTS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Turn Python's errors for values of a wrong type into a ModelError with the name of the file."""
    try:
        yield
    except FAULTS as error:
        raise ModelError(f"{path} has no valid {str(error)[:200]}: fetch the model again") from error


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises ModelError."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JSON_BYTES + 1)
        if len(text) > _MAX_JSON_BYTES:
            raise ValueError("it is too long")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error


def read_object(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """Read a JSON object, or return an empty one if an optional file is missing. Raises ModelError."""
    value = {} if optional and not path.exists() else read_json(path)
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return value


def weights_in(folder: Path, name: str = "model.safetensors") -> Path:
    """Return the path of a file of weights. Raises ModelError unless the file is directly in this folder."""
    path = folder / name
    if path.parent.resolve() != folder.resolve() or not path.is_file():
        hint = " (a pytorch_model.bin is a pickle and is never loaded)" if any(folder.glob("*.bin")) else ""
        raise ModelError(f"{path} is missing{hint}: only safetensors weights are loaded")
    return path


class _Place(NamedTuple):
    """The bytes of a tensor in a file."""

    data: npt.NDArray[np.uint8]
    kind: str
    shape: tuple[int, ...]
    path: Path


class Tensors(Mapping[str, Array]):
    """The tensors of safetensors files by name, as float32. Each access reads one tensor.

    Tensors in float32 are not copied, but mapped from the file, so that only used pages get into memory. Raises
    ModelError for a damaged file, and for a tensor with an unsupported type of numbers.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._places: dict[str, _Place] = {}
        for path in files:
            try:
                self._places.update(_places(path))
            except (OSError, *FAULTS) as error:
                raise ModelError(f"{path} is damaged ({str(error)[:200]}): fetch the model again") from error

    def __getitem__(self, name: str) -> Array:
        data, kind, shape, path = self._places[name]
        if kind not in _TYPES:
            raise ModelError(f"{path} has {name} in {kind}, which is not supported: {', '.join(_TYPES)} are")
        values = data.view(_TYPES[kind]).reshape(shape)
        if kind == "BF16":
            wide: Array = np.left_shift(values, 16, dtype=np.uint32).view(np.float32)
            return wide
        return np.require(values, np.float32, "A")

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _places(path: Path) -> Iterator[tuple[str, _Place]]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MAX_HEADER_BYTES:
            raise ValueError("its header is too long")
        header: dict[str, dict[str, Any]] = json.loads(file.read(length))
    header.pop("__metadata__", None)
    data = np.memmap(path, dtype=np.uint8, mode="c").view(np.ndarray)[8 + length :]
    if (end := max((entry["data_offsets"][1] for entry in header.values()), default=0)) != len(data):
        raise ValueError(f"it has {len(data):,} bytes of tensors, not {end:,}")
    for name, entry in header.items():
        (begin, end), kind, shape = entry["data_offsets"], entry["dtype"], tuple(entry["shape"])
        if any(type(number) is not int or number < 0 for number in (begin, end, *shape[:_MAX_DIMENSIONS])):
            raise ValueError(f"{name} has sizes that are no numbers")
        fits = kind not in _TYPES or end - begin == math.prod(shape[:_MAX_DIMENSIONS]) * _TYPES[kind].itemsize
        if begin > end or len(shape) > _MAX_DIMENSIONS or not fits:
            raise ValueError(f"{name} is not where it should be")
        yield name, _Place(data[begin:end], kind, shape, path)


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 of a file, cached until its inode, size or times change. Raises OSError."""
    status = path.stat()
    return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(64)
def _digest(path: Path, *state: int) -> bytes:
    digest = hashlib.sha256()
    # mapped memory returns to the system, but heap memory would stay in every worker of a server
    with path.open("rb", buffering=0) as file, mmap(-1, _READ_BYTES) as memory, memoryview(memory) as buffer:
        while count := file.readinto(buffer):
            with buffer[:count] as block:
                digest.update(block)
    return digest.digest()
