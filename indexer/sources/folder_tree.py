"""A folder held by its descriptor: files are reached step by step, no link is followed, nothing outside is opened."""

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote_to_bytes, urlsplit

from indexer.errors import SourceError
from indexer.generation.layout import BUILDING, GENERATIONS, LOCK
from indexer.urls import folder_above

INSIDE = "!/"  # between the address of an archive or e-mail and the name of a member
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_OF_AN_INDEX = {LOCK: stat.S_ISREG, GENERATIONS: stat.S_ISDIR, BUILDING: stat.S_ISDIR}


class Tree:
    """A folder and all that is below it."""

    def __init__(self, root: Path, top: Path) -> None:
        """Open a folder, step by step from `top`, which is it or above it; raises OSError."""
        self.root = root
        handle = os.open(top, _FOLDER)
        try:
            self._root = _descend(handle, root.relative_to(top))
        finally:
            os.close(handle)
        self._here, self._handle = root, os.dup(self._root)  # files come folder by folder

    def close(self) -> None:
        """Release the descriptors."""
        os.close(self._handle)
        os.close(self._root)

    def list(self, folder: Path) -> list[tuple[str, int]]:
        """Return the names in a folder at or below the root, in order, each with its mode; raises OSError."""
        handle = self._enter(folder)
        entries = []
        for name in sorted(os.listdir(handle)):
            with suppress(FileNotFoundError):  # removed meanwhile
                entries.append((name, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode))
        return entries

    def open(self, path: Path) -> int:
        """Open a file below the root, without waiting if it is a pipe; raises OSError, also if it has become a link."""
        return os.open(path.name, _FILE, dir_fd=self._enter(path.parent))

    def _enter(self, folder: Path) -> int:
        """Return the descriptor of a folder, which is open until the next one is entered."""
        if folder != self._here:
            handle = _descend(self._root, folder.relative_to(self.root))
            os.close(self._handle)
            self._here, self._handle = folder, handle
        return self._handle


def _descend(handle: int, folder: Path) -> int:
    """Return a descriptor of a folder below an open one."""
    handle = os.dup(handle)
    for name in folder.parts:
        try:
            below = os.open(name, _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def is_index(names: Iterable[tuple[str, int]]) -> bool:
    """Return whether a folder of these names and modes is an index or a collection of one."""
    modes = dict(names)
    return all(is_kind(modes.get(name, 0)) for name, is_kind in _OF_AN_INDEX.items())


def open_original(url: str, source: str, within: Sequence[str] = ()) -> tuple[str, BinaryIO]:
    """Return the name of a document's file, or of the archive or e-mail that it is in, and the file at its beginning.

    Nothing outside of the file or folder `source` that it was read from is opened, and no link below it is followed;
    the source itself may not leave the folders `within`, if there are any. Raises SourceError: it is not there any
    more.
    """
    parts = urlsplit(url.partition(INSIDE)[0])
    if parts.scheme != "file" or parts.netloc or "://" in source:
        raise SourceError(f"{url[:200]} is not a file of a folder")
    path = Path(os.fsdecode(unquote_to_bytes(parts.path)))
    gone = SourceError(f"{path.name[:200]} is not where it was when it was indexed")
    try:
        root = Path(source).expanduser().resolve(strict=True)
        folder = root if root.is_dir() else root.parent
        top = folder_above(root, within) if within else folder
        is_inside = path == root or (folder == root and path.is_relative_to(root))
        if top is None or not is_inside or ".." in path.parts:
            raise gone
        with closing(Tree(folder, top if top != root else folder)) as tree:
            handle = tree.open(path)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise gone
    except (OSError, RuntimeError, ValueError) as error:
        raise gone from error
    return path.name, os.fdopen(handle, "rb")
