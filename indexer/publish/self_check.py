"""Looks after the files of a generation that is being served: sizes at once, contents a few blocks at a time.

The files are held open: one that is deleted, or has another in its place, is still what is served, and does no harm.
"""

import hashlib
import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from indexer.generation.manifest import Manifest, corrupt

_BLOCK = 1 << 20


class SelfCheck:
    """The files of one generation, as they were when this was made; they are closed with it."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open what is there; a file that cannot be opened now is left alone."""
        self._folder = folder
        self._manifest = manifest
        self._files: dict[str, int] = {}
        for name in manifest.files:
            with suppress(OSError):
                self._files[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, _close, tuple(self._files.values()))

    def sizes(self) -> None:
        """Compare the size of every file with its record. Raises IndexCorrupt."""
        for name, file in self._files.items():
            size, wanted = os.fstat(file).st_size, self._manifest.files[name].size
            if size != wanted:
                raise corrupt(self._folder / name, f"has {size:,} bytes instead of {wanted:,}")

    def contents(self) -> Iterator[int]:
        """Compare every file with its checksum; yield the bytes of each block that was read. Raises IndexCorrupt."""
        for name, file in self._files.items():
            digest, size = hashlib.sha256(), 0
            while block := os.pread(file, _BLOCK, size):
                digest.update(block)
                size += len(block)
                yield len(block)
            if digest.hexdigest() != self._manifest.files[name].sha256:
                raise corrupt(self._folder / name, "differs from its checksum")


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
