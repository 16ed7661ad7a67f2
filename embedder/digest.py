"""SHA-256 of files that do not change, such as a model's: each is read once in a process and in what it forks."""

import hashlib
from functools import lru_cache
from mmap import mmap
from pathlib import Path

_AT_ONCE = 16 * 1024 * 1024  # large, as other threads hold the interpreter for milliseconds between two reads


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 of a file; it is read again when its inode, size or times have changed. Raises OSError."""
    found = path.stat()
    return _read(path, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(64)
def _read(path: Path, *state: int) -> bytes:
    digest = hashlib.sha256()
    # memory of its own, which goes back to the system: what the heap keeps, every worker of a server would keep
    with path.open("rb", buffering=0) as file, mmap(-1, _AT_ONCE) as memory, memoryview(memory) as buffer:
        while count := file.readinto(buffer):
            with buffer[:count] as part:
                digest.update(part)
    return digest.digest()
