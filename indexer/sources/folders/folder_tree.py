"""A folder that is held by its descriptor: what is in it is reached step by step, and nothing outside it at all.

Each step opens one name below a folder that is open already, and follows no link. `openat2` would do the same in one
call, on Linux alone; this holds wherever there are descriptors of folders.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from indexer.generation.layout import BUILDING, GENERATIONS, LOCK

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_OF_AN_INDEX = {LOCK: stat.S_ISREG, GENERATIONS: stat.S_ISDIR, BUILDING: stat.S_ISDIR}


class Tree:
    """A folder and all that is below it."""

    def __init__(self, root: Path, top: Path) -> None:
        """Open a folder, step by step from one that is it or above it; raises OSError."""
        self.root = root
        self._handle = os.open(top, _FOLDER)
        try:
            handle = self._descend(root.relative_to(top))
        except OSError:
            os.close(self._handle)
            raise
        if handle != self._handle:
            os.close(self._handle)
        self._handle = handle
        self._last: tuple[Path, int] = (root, self._handle)  # files come folder by folder

    def close(self) -> None:
        """Release the descriptors."""
        self._leave()
        os.close(self._handle)

    def list(self, folder: Path) -> list[tuple[str, int]]:
        """Names in a folder at or below the root, in order, each with its mode; raises OSError."""
        handle = self._enter(folder)
        found = []
        for name in sorted(os.listdir(handle)):
            with suppress(FileNotFoundError):  # gone meanwhile
                found.append((name, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode))
        return found

    def is_index(self, folder: Path) -> bool:
        """Whether a folder below the root is an index or a collection of one; raises OSError."""
        handle = self._enter(folder)
        try:
            modes = {name: os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode for name in _OF_AN_INDEX}
        except FileNotFoundError:
            return False
        return all(is_kind(modes[name]) for name, is_kind in _OF_AN_INDEX.items())

    def open(self, path: Path) -> int:
        """Open a file below the root, without waiting if it is a pipe; raises OSError, also if it has become a link."""
        return os.open(path.name, _FILE, dir_fd=self._enter(path.parent))

    def _enter(self, folder: Path) -> int:
        """Descriptor of a folder, until the next one is entered."""
        if folder == self._last[0]:
            return self._last[1]
        self._leave()
        self._last = (folder, self._descend(folder.relative_to(self.root)))
        return self._last[1]

    def _descend(self, folder: Path) -> int:
        """Descriptor of a folder below; that of the root itself if it is that."""
        handle = self._handle
        for name in folder.parts:
            try:
                below = os.open(name, _FOLDER, dir_fd=handle)
            finally:
                if handle != self._handle:
                    os.close(handle)
            handle = below
        return handle

    def _leave(self) -> None:
        if self._last[1] != self._handle:
            os.close(self._last[1])
        self._last = (self.root, self._handle)
