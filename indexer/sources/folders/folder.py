"""Files of a folder, in sorted order, without ever leaving it."""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

from indexer.errors import SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.read.access_list import FILE
from indexer.read.allowed_places import folder_above
from indexer.read.container import with_parts
from indexer.read.formats import HTML, OCR_OFF, content_type_of, reader_of, refusal_of
from indexer.records import NOTHING_STATED, Failure, Item, Known, Page, PageRecord, Readers, Skip
from indexer.sources.folders.access_files import Lists
from indexer.sources.folders.folder_tree import Tree
from indexer.sources.templates import spread

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP})  # not a passing trouble


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    content_type: str
    access: Readers = None  # who may read it


_Found = _Entry | Known | Skip | Failure


def read_path(
    source: str,
    max_bytes: int,
    found: Callable[[int], None],
    earlier: PreviousGeneration | None = None,
    within: Sequence[str] = (),
    study: Callable[[Iterable[Item]], None] | None = None,
    no_images: str = OCR_OFF,
) -> Generator[Item, None, None]:
    """Read one file, or every readable file below a folder.

    Symbolic links below the folder are not followed, so nothing outside it is read; neither are pipes and devices.

    Args:
        source: path of a file or folder.
        max_bytes: longest file read.
        found: told how many files there are to read.
        earlier: what an earlier build knows; of files that fail to be read this time, its record is given.
        within: folders that the source may not leave, whatever links lead to it; none means that it may be anywhere.
        study: shown up to `SAMPLE` pages from all over a folder, before any is given.
        no_images: why images are not read, if they are not.

    Raises:
        SourceError: there is no such file or folder, or it cannot be read.
    """
    try:
        root = Path(source).expanduser().resolve(strict=True)
        kind = root.stat().st_mode
    except FileNotFoundError as error:
        raise SourceError(f"there is no file or folder {source}") from error
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SourceError(f"cannot read {source}: {reason or 'not a usable path'}; name a file or folder") from error
    top = folder_above(root, within) if within else root
    if top is None:
        raise SourceError(f"cannot read {source}: it leads out of {', '.join(within)}")
    is_folder, content_type = stat.S_ISDIR(kind), content_type_of(root.name)
    if not is_folder and not stat.S_ISREG(kind):
        raise SourceError(f"cannot read {source}: it is neither a file nor a folder")
    if not is_folder and (refusal := refusal_of(root.name, no_images)):
        raise SourceError(f"cannot read {source}: {refusal}")
    with closing(_tree(root, top) if is_folder else _tree(root.parent, top if top != root else root.parent)) as tree:
        there = _walk(tree, source, earlier, no_images) if is_folder else _alone(tree, root, content_type or "")
        entries = list(there)
        found(sum(isinstance(entry, _Entry) for entry in entries))
        if is_folder and study is not None:
            pages = [one for one in entries if isinstance(one, _Entry) and reader_of(one.content_type) == HTML]
            study(item for entry in spread(pages, len(pages)) for item in _read(entry, tree, source, max_bytes, None))
        for entry in entries:
            for item in _read(entry, tree, source, max_bytes, earlier if is_folder else None):
                if not is_folder and isinstance(item, Skip | Failure):
                    raise SourceError(f"cannot read {source}: {item.reason}")
                yield from with_parts(item, max_bytes, no_images)


def _tree(root: Path, top: Path) -> Tree:
    try:
        return Tree(root, top)
    except OSError as error:
        raise SourceError(f"cannot read {root}: {error.strerror}") from error


def _alone(tree: Tree, path: Path, content_type: str) -> Iterator[_Found]:
    """One file, with the lists that concern it."""
    lists = Lists(tree)
    access = lists.of_file(path, lists.of_folder(path.parent, None))
    yield from lists.troubles
    yield _Entry(path, content_type, access)


def _walk(tree: Tree, source: str, earlier: PreviousGeneration | None, no_images: str) -> Iterator[_Found]:
    lists = Lists(tree)
    yield from _below(tree, source, earlier, no_images, lists)
    yield from lists.troubles


def _below(
    tree: Tree, source: str, earlier: PreviousGeneration | None, no_images: str, lists: Lists
) -> Iterator[_Found]:
    todo: list[tuple[Path, Readers]] = [(tree.root, None)]
    while todo:
        here, inherited = todo.pop()
        url = here.as_uri()
        try:
            found = tree.list(here)
            if here != tree.root and tree.is_index(here):
                yield Skip(url, "an index of Pilotlight")
                continue
        except OSError as error:
            reason = error.strerror or "cannot be read"
            if here == tree.root:
                raise SourceError(f"cannot read {here}: {reason}") from error
            yield Failure(url, reason)
            if earlier and error.errno not in _GONE:
                for record in earlier.pages(f"{url}/"):
                    yield Known(replace(record, source=source), kept=reason)
            continue
        access = lists.of_folder(here, inherited) if any(name == FILE for name, _ in found) else inherited
        own = {name.removesuffix(FILE) for name, _ in found if name.endswith(FILE)}
        below = []
        for name, kind in found:
            path = here / name
            if name.endswith(FILE):
                continue
            if stat.S_ISDIR(kind):
                if name.startswith("."):
                    yield Skip(path.as_uri(), "hidden")
                else:
                    below.append(path)
            elif stat.S_ISLNK(kind):
                yield Skip(path.as_uri(), "symbolic link")
            elif not stat.S_ISREG(kind):
                yield Skip(path.as_uri(), "pipe, socket or device")
            elif name.startswith("."):
                yield Skip(path.as_uri(), "hidden")
            elif refusal := refusal_of(name, no_images):
                yield Skip(path.as_uri(), refusal)
            else:
                readers = lists.of_file(path, access) if name in own else access
                yield _Entry(path, content_type_of(name) or "", readers)
        todo += [(folder, access) for folder in reversed(below)]


def _read(entry: _Found, tree: Tree, source: str, max_bytes: int, earlier: PreviousGeneration | None) -> list[Item]:
    """The page of a file; where there is none, why, or what is known of it if the trouble may pass."""
    if not isinstance(entry, _Entry):
        return [entry]
    url = entry.path.as_uri()
    try:
        with open(tree.open(entry.path), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return [Skip(url, "pipe, socket or device")]
            body = file.read(max_bytes + 1)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        records: list[PageRecord] = []
        if earlier and error.errno not in _GONE and earlier.is_given(url, entry.access):
            own = earlier.page(url)
            records = [*([own] if own else []), *earlier.pages(f"{url}!/")]
        return [Known(replace(record, source=source), kept=reason) for record in records] or [Failure(url, reason)]
    if len(body) > max_bytes:
        return [Failure(url, f"larger than {max_bytes:,} bytes")]
    page = Page(
        url=url,
        source=source,
        body=body,
        content_type=entry.content_type,
        charset=None,
        etag=None,
        last_modified=formatdate(status.st_mtime, usegmt=True),
        fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
        stated=NOTHING_STATED._replace(access=entry.access),
    )
    return [page]
