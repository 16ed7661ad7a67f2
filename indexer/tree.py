"""A folder that is held by its descriptor: what is in it is reached step by step, and nothing outside it at all.

Each step opens one name below a folder that is open already, and follows no link. `openat2` would do the same in one
call, on Linux alone; this holds wherever there are descriptors of folders.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from indexer.layout import BUILDING, GENERATIONS, LOCK

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_OF_AN_INDEX = {LOCK: stat.S_ISREG, GENERATIONS: stat.S_ISDIR, BUILDING: stat.S_ISDIR}


def open_file(path: Path, folder: int | None = None) -> int:
    """Open a file that is no link, by a path or by its name in an open folder; it may be a pipe, and is not waited for.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, _FILE, dir_fd=folder)


class Tree:
    """A folder and all that is below it."""

    def __init__(self, root: Path) -> None:
        """Open a folder; raises OSError."""
        self.root = root
        self._handle = os.open(root, _FOLDER)
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
        """Open a file below the root as `open_file` does; raises OSError, also where a link has taken its place."""
        return open_file(Path(path.name), self._enter(path.parent))

    def _enter(self, folder: Path) -> int:
        """Descriptor of a folder, until the next one is entered."""
        if folder == self._last[0]:
            return self._last[1]
        self._leave()
        handle = self._handle
        for name in folder.relative_to(self.root).parts:
            try:
                below = os.open(name, _FOLDER, dir_fd=handle)
            finally:
                if handle != self._handle:
                    os.close(handle)
            handle = below
        self._last = (folder, handle)
        return handle

    def _leave(self) -> None:
        if self._last[1] != self._handle:
            os.close(self._last[1])
        self._last = (self.root, self._handle)
