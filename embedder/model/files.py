"""Read and hash a model's JSON and safetensors files. Models are untrusted, so every length is checked."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from mmap import mmap
from pathlib import Path
from typing import Any

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
_READ_BYTES = 16 << 20  # bytes; large, because the thread may wait milliseconds for the GIL after each read
FAULTS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Convert errors that are caused by invalid values in a file to a ModelError that names the file."""
    try:
        yield
    except FAULTS as error:
        fault = "has no valid" if isinstance(error, KeyError) else "has an invalid value:"
        raise ModelError(f"{path} {fault} {str(error)[:200]}: fetch the model again") from error


def read_json(path: Path) -> Any:
    """Return the value in a JSON file. Raises ModelError if the file cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_JSON_BYTES + 1)
        if len(text) > _MAX_JSON_BYTES:
            raise ValueError("it is too long")
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read ({error}): fetch the model again") from error


def read_object(path: Path, *, optional: bool = False) -> dict[str, Any]:
    """Return the object in a JSON file, or {} if an optional file is missing. Raises ModelError if it is unreadable."""
    value = {} if optional and not path.exists() else read_json(path)
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object: fetch the model again")
    return value


def weights_in(folder: Path, name: str = "model.safetensors") -> Path:
    """Return the path of a weights file. Raises ModelError if the file is missing or not directly in the folder."""
    path = folder / name
    if path.parent.resolve() != folder.resolve() or not path.is_file():
        hint = " (a pytorch_model.bin is a pickle and is never loaded)" if any(folder.glob("*.bin")) else ""
        raise ModelError(f"{path} is missing{hint}: only safetensors weights are loaded")
    return path


class Tensors(Mapping[str, Array]):
    """A mapping from names to float32 tensors. Each access loads the tensor again, so none stays in memory."""

    def __init__(self, loaders: Mapping[str, Callable[[], Array]]) -> None:
        self._loaders = loaders

    def __getitem__(self, name: str) -> Array:
        return self._loaders[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


def read_tensors(files: Sequence[Path]) -> Tensors:
    """Return the tensors of safetensors files.

    Tensors in float32 are memory-mapped, so that only pages in use take memory. Raises ModelError if a file is damaged.
    Access to a tensor raises ModelError if its data type is not supported.
    """
    loaders: dict[str, Callable[[], Array]] = {}
    for path in files:
        try:
            loaders.update(_loaders(path))
        except (OSError, *FAULTS) as error:
            raise ModelError(f"{path} is damaged ({str(error)[:200]}): fetch the model again") from error
    return Tensors(loaders)


def _loaders(path: Path) -> Iterator[tuple[str, Callable[[], Array]]]:
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
            raise ValueError(f"{name} has sizes that are not numbers")
        fits = kind not in _TYPES or end - begin == math.prod(shape[:_MAX_DIMENSIONS]) * _TYPES[kind].itemsize
        if begin > end or len(shape) > _MAX_DIMENSIONS or not fits:
            raise ValueError(f"{name} has a wrong offset or shape")
        yield name, partial(_load, path, name, data[begin:end], kind, shape)


def _load(path: Path, name: str, data: npt.NDArray[np.uint8], kind: str, shape: tuple[int, ...]) -> Array:
    if kind not in _TYPES:
        raise ModelError(f"{path} has {name} in {kind}, which is not supported: use {', '.join(_TYPES)}")
    values = data.view(_TYPES[kind]).reshape(shape)
    if kind == "BF16":
        wide: Array = np.left_shift(values, 16, dtype=np.uint32).view(np.float32)
        return wide
    return np.require(values, np.float32, "A")


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 of a file, cached until its inode, size or times change. Raises OSError if unreadable."""
    status = path.stat()
    return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(64)
def _digest(path: Path, *state: int) -> bytes:
    digest = hashlib.sha256()
    # Mapped memory is returned to the operating system. Memory of the heap would stay allocated in every server worker.
    with path.open("rb", buffering=0) as file, mmap(-1, _READ_BYTES) as memory, memoryview(memory) as buffer:
        while count := file.readinto(buffer):
            with buffer[:count] as block:
                digest.update(block)
    return digest.digest()
