"""Read the files of a folder in sorted order, with their access lists.

Nothing outside the folder is read: every file is opened relative to the descriptor of its parent folder, and links are
not followed. `.access.toml` lists the readers of all files in its folder and below. `NAME.access.toml` lists the
readers of the file NAME. These names are case-insensitive. The nearest list applies. If a list is unreadable, no one
may read its files. If there is no file NAME, no one may read the files of the folder that have no list of their own.
"""

import errno
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

from indexer.errors import ParseError, SourceError
from indexer.generation.manifest import BUILDING, GENERATIONS, LOCK
from indexer.read.access_list import FILE, NOBODY, closed_paths, read_list
from indexer.read.container import with_members
from indexer.read.formats import refusal_of, type_by_content
from indexer.read.markup.includes import Includes
from indexer.records import NO_SENDER_FACTS, Failure, Item, Page, Readers, Skip
from indexer.source_context import SourceContext

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_INDEX_ENTRIES = {LOCK: stat.S_ISREG, GENERATIONS: stat.S_ISDIR, BUILDING: stat.S_ISDIR}
_PERMANENT_ERRORS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP})
_MAX_LIST_BYTES = 100_000
_POLL_SECONDS = 1.0
_MAX_BUSY_SHARE = 0.05


class Tree:
    """Opens the files below a folder without following links."""

    def __init__(self, root: Path) -> None:
        """Open a folder. Raises OSError if this fails."""
        self.root, self._handle = root, os.open(root, _FOLDER)

    def close(self) -> None:
        """Close the descriptor of the folder."""
        os.close(self._handle)

    def list(self, folder: Path) -> list[tuple[str, int]]:
        """Return the sorted names in the root or a subfolder, each with its `st_mode`. Raises OSError if unreadable."""
        entries = []
        with self._open_folder(folder) as handle:
            for name in sorted(os.listdir(handle)):
                with suppress(FileNotFoundError):
                    entries.append((name, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode))
        return entries

    def open(self, path: Path) -> int:
        """Open a file below the root. Does not block if it is a pipe. Raises OSError, for example if it is a link."""
        with self._open_folder(path.parent) as handle:
            return os.open(path.name, _FILE, dir_fd=handle)

    @contextmanager
    def _open_folder(self, folder: Path) -> Iterator[int]:
        """Open a folder by opening each of its parents in turn, and yield the descriptor of the folder."""
        handle = os.dup(self._handle)
        try:
            for name in folder.relative_to(self.root).parts:
                below = os.open(name, _FOLDER, dir_fd=handle)
                os.close(handle)
                handle = below
            yield handle
        finally:
            os.close(handle)


def folder_names(folder: Path) -> list[tuple[str, int]]:
    """Return the sorted names in a folder with their file types. If listing fails, return only the access list."""
    try:
        with os.scandir(folder) as entries:
            is_folder = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return [(FILE, stat.S_IFREG)] if os.path.lexists(folder / FILE) else []
    return sorted((name, stat.S_IFDIR if is_dir else stat.S_IFREG) for name, is_dir in is_folder)


def is_below_list(path: Path) -> bool:
    """Return whether a folder or one of its parents has an access list that applies to all files below it."""
    names = ([name for name, mode in folder_names(each) if not stat.S_ISDIR(mode)] for each in (path, *path.parents))
    return any("" in closed_paths(each) for each in names)


class _File(NamedTuple):
    path: Path
    access: Readers = None


def read_path(context: SourceContext) -> Generator[Item, None, None]:
    """Read one file, or every readable file below a folder.

    Pipes and devices are not read. Symbolic links below the folder are not followed.

    Raises:
        SourceError: there is no such file or folder, or it cannot be read.
    """
    source = context.source
    try:
        root = Path(source).expanduser().resolve(strict=True)
        mode = root.stat().st_mode
    except FileNotFoundError as error:
        raise SourceError(f"there is no file or folder {source}; the address of a site begins with https://") from error
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(f"cannot read {source}: {reason or 'not a valid path'}; name a file or folder") from error
    is_folder = stat.S_ISDIR(mode)
    if not is_folder and not stat.S_ISREG(mode):
        raise SourceError(f"cannot read {source}: it is neither a file nor a folder")
    if not is_folder and (refusal := refusal_of(root.name, context.no_images)):
        raise SourceError(f"cannot read {source}: {refusal}")
    folder = root if is_folder else root.parent
    try:
        tree = Tree(folder)
    except OSError as error:
        raise SourceError(f"cannot read {folder}: {error.strerror}") from error
    with closing(tree):
        reading = _FolderReading(context, tree)
        yield from reading.all_files() if is_folder else reading.one_file(root)


class _FolderReading:
    def __init__(self, context: SourceContext, tree: Tree) -> None:
        self._context, self._tree = context, tree
        self._list_failures: list[Failure] = []

    def one_file(self, path: Path) -> Iterator[Item]:
        try:
            names = self._tree.list(path.parent)
        except OSError:
            names = [(path.name, stat.S_IFREG), *((name, stat.S_IFREG) for name in (FILE, path.name + FILE))]
        access, files = self._lists(path.parent, names, self._access_above())
        self._context.report_due(1)
        page = [*self._list_failures, self._page(_File(path, files.get(path.name.casefold(), access)))][0]
        if isinstance(page, Skip | Failure):
            raise SourceError(f"cannot read {self._context.source}: {page.reason}")
        yield from with_members(page, self._context.limits.max_bytes, self._context.no_images)

    def all_files(self) -> Iterator[Item]:
        entries = [*self._walk(), *self._list_failures]
        self._context.report_due(sum(isinstance(entry, _File) for entry in entries))
        includes = self._includes(entries)
        for entry in entries:
            item = self._page(entry) if isinstance(entry, _File) else entry
            if isinstance(item, Page) and isinstance(entry, _File):
                item = includes.resolve(self._name(entry.path), item)
            yield from with_members(item, self._context.limits.max_bytes, self._context.no_images)

    def _includes(self, entries: Iterable[Item | _File]) -> Includes:
        files = {self._name(entry.path): entry for entry in entries if isinstance(entry, _File)}

        def load(name: str) -> bytes | None:
            page = self._page(files[name])
            return page.body if isinstance(page, Page) else None

        readers = {name: file.access for name, file in files.items()}
        return Includes(readers, load, self._context.limits.max_bytes)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._tree.root).as_posix()

    def _walk(self) -> Iterator[_File | Skip | Failure]:
        """Yield the files to read in sorted order, and a Skip or Failure for each other entry."""
        todo = [(self._tree.root, self._access_above())]
        while todo:
            folder, access = todo.pop()
            try:
                names = self._tree.list(folder)
            except OSError as error:
                yield self._failure(folder, error)
                continue
            modes = dict(names)
            is_index = all(is_kind(modes.get(name, 0)) for name, is_kind in _INDEX_ENTRIES.items())
            if is_index and folder != self._tree.root:
                yield Skip(folder.as_uri(), "an index of Pilotlight")
                continue
            access, files = self._lists(folder, names, access)
            folders = []
            for name, mode in names:
                path = folder / name
                if name.casefold().endswith(FILE):
                    continue
                if stat.S_ISDIR(mode) and not name.startswith("."):
                    folders.append((path, access))
                elif reason := self._refusal(name, mode):
                    yield Skip(path.as_uri(), reason)
                else:
                    yield _File(path, files.get(name.casefold(), access))
            todo += reversed(folders)

    def _refusal(self, name: str, mode: int) -> str:
        if stat.S_ISLNK(mode):
            return "symbolic link"
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return "pipe, socket or device"
        return "hidden" if name.startswith(".") else refusal_of(name, self._context.no_images)

    def _access_above(self) -> Readers:
        """Return the readers in the nearest access list above the source and, for a symbolic link, above its target."""
        access: Readers = None
        root = Path(os.path.abspath(Path(self._context.source).expanduser()))
        for folder in dict.fromkeys([*reversed(root.parents), *reversed(self._tree.root.parents)]):
            if not folder.is_relative_to(self._tree.root):
                access, _ = self._lists(folder, folder_names(folder), access)
        return access

    def _lists(
        self, folder: Path, names: Iterable[tuple[str, int]], inherited: Readers
    ) -> tuple[Readers, dict[str, Readers]]:
        """Return the readers of a folder, and of each file that has its own list. A bad list excludes everyone."""
        files = {name.casefold() for name, mode in names if not stat.S_ISDIR(mode)}
        lists: dict[str, Readers] = {"": inherited}
        targets, is_closed = set[str](), False
        for name, _ in names:
            target = name.casefold().removesuffix(FILE)
            if target == name.casefold():
                continue
            if target in targets or (target and target not in files):
                reason = "duplicates the name of another list" if target in targets else "names no file in its folder"
                self._list_failures.append(Failure((folder / name).as_uri(), f"{reason}: no one gets access"))
                is_closed = is_closed or target not in targets
                lists[target] = NOBODY
            else:
                lists[target] = self._access(folder / name, lists[""])
            targets.add(target)
        access = lists.pop("")
        return NOBODY if is_closed else access, lists

    def _access(self, path: Path, inherited: Readers) -> Readers:
        """Return the readers in an access list, or `inherited` if there is no list."""
        try:
            is_within = path.is_relative_to(self._tree.root)
            with open(self._tree.open(path) if is_within else os.open(path, _FILE), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ParseError("is not a file")
                body = file.read(_MAX_LIST_BYTES + 1)
            if len(body) > _MAX_LIST_BYTES:
                raise ParseError(f"is larger than {_MAX_LIST_BYTES:,} bytes")
            return read_list(body)
        except FileNotFoundError:
            return inherited
        except (OSError, ParseError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._list_failures.append(Failure(path.as_uri(), f"{reason}: no one gets access"))
            return NOBODY

    def _failure(self, path: Path, error: OSError) -> Failure:
        """Return a Failure for a path. Raises SourceError if the error may be temporary."""
        reason = error.strerror or "cannot be read"
        if error.errno not in _PERMANENT_ERRORS or path == self._tree.root:
            raise SourceError(f"cannot read {path}: {reason}") from error
        return Failure(path.as_uri(), reason)

    def _page(self, file: _File) -> Page | Skip | Failure:
        url, max_bytes = file.path.as_uri(), self._context.limits.max_bytes
        try:
            with open(self._tree.open(file.path), "rb") as opened:
                status = os.fstat(opened.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return Skip(url, "pipe, socket or device")
                body = opened.read(max_bytes + 1)
        except OSError as error:
            return self._failure(file.path, error)
        content_type = type_by_content(file.path.name, body)
        if content_type is None:
            return Skip(url, refusal_of(file.path.name, is_by_name=True))
        if len(body) > max_bytes:
            return Failure(url, f"larger than {max_bytes:,} bytes")
        return Page(
            url=url,
            source=self._context.source,
            body=body,
            content_type=content_type,
            last_modified=formatdate(status.st_mtime, usegmt=True),
            fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
            sender_facts=NO_SENDER_FACTS._replace(access=file.access),
        )


class Watcher:
    """Checks folders and files for changes every few seconds, which also works for network drives.

    Hidden files are ignored, except for access lists. The folder of the index, `ignored`, is not watched, because
    writing the index must not start the next build.
    """

    def __init__(self, sources: Iterable[str], ignored: Path) -> None:
        self._roots = {source: Path(source).expanduser().absolute() for source in sources}
        self._ignored = ignored.expanduser().absolute()
        self._last_states = self._states()

    def wait(self, seconds: float | None) -> set[str]:
        """Wait for a change, and return the changed sources. If `seconds` is not None, wait no longer than that."""
        end, took = time.monotonic() + (float("inf") if seconds is None else seconds), 0.0
        while True:
            time.sleep(max(_POLL_SECONDS, took / _MAX_BUSY_SHARE))
            began = time.monotonic()
            if self._states() != self._last_states or began > end:
                time.sleep(_POLL_SECONDS)
                before, self._last_states = self._last_states, self._states()
                return {source for source, state in before.items() if state != self._last_states[source]}
            took = time.monotonic() - began

    def _states(self) -> dict[str, int]:
        return {source: self._state(root) for source, root in self._roots.items()}

    def _state(self, root: Path) -> int:
        """Return a number that changes with the names, times and sizes of the files that a build reads."""
        state, itself = 0, (str(root.parent), list[str](), [root.name])
        for folder, folders, names in os.walk(root) if root.is_dir() else [itself]:
            folders[:] = [name for name in folders if name[0] != "." and Path(folder, name) != self._ignored]
            for name in names:
                if name[0] != "." or name.lower() == FILE or root.name == name:
                    with suppress(OSError):
                        status = os.stat(os.path.join(folder, name), follow_symlinks=False)
                        state ^= hash((folder, name, status.st_mtime_ns, status.st_size, status.st_ino))
        return state
