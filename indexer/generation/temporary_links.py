"""A temporary folder that shows the files of another, for a library that would write beside what it reads."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from indexer.errors import IndexUnwritable
from indexer.generation.manifest import corrupt

_PREFIX = "pilotlight-links-"
_TRIES = 100
_FORGOTTEN_S = 3600  # nothing takes so long to open: whoever made the folder was killed


@contextmanager
def links_to(*folders: Path, instead: Mapping[str, bytes] | None = None) -> Iterator[Path]:
    """Give a folder with a link to every file of others; removed afterwards with whatever is in it.

    Of files of one name, the first is linked; `instead` are the contents of files that take the place of any.

    Raises:
        IndexCorrupt: a folder cannot be read.
        IndexUnwritable: there is no place for temporary folders, or no room in it.
    """
    paths: dict[str, Path] = {}
    for folder in folders:
        try:
            paths = {path.name: path for path in folder.resolve().iterdir()} | paths
        except OSError as error:
            raise corrupt(folder, error.strerror or "cannot be read") from error
    instead = instead or {}
    with temporary_folder(folders[0]) as links:
        try:
            for name, path in paths.items():
                if name not in instead:
                    (links / name).symlink_to(path)
            for name, content in instead.items():
                (links / name).write_bytes(content)
        except OSError as error:
            raise _without_room(folders[0], error) from error
        yield links


@contextmanager
def temporary_folder(needs: Path) -> Iterator[Path]:
    """Give an empty folder, removed afterwards with whatever is in it. Raises IndexUnwritable, for what `needs` it."""
    _remove_forgotten()
    try:
        links = Path(tempfile.mkdtemp(prefix=_PREFIX))
    except OSError as error:
        raise _without_room(needs, error) from error
    try:
        yield links
    finally:
        for _ in range(_TRIES):  # a thread of the library, about to end, may make one more file meanwhile
            shutil.rmtree(links, ignore_errors=True)
            if not links.exists():
                break


def _remove_forgotten() -> None:
    with suppress(OSError):  # there is no place for temporary folders, which the next step says
        for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            with suppress(OSError):  # somebody else has just removed it
                found = path.lstat()
                if found.st_uid == os.getuid() and found.st_mtime < time.time() - _FORGOTTEN_S:
                    shutil.rmtree(path, ignore_errors=True)


def _without_room(folder: Path, error: OSError) -> IndexUnwritable:
    return IndexUnwritable(
        f"opening {folder} needs a temporary folder: {error.strerror}; free some space, or set TMPDIR"
    )
