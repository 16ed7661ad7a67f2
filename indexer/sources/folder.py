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
from indexer.generation.earlier import Earlier
from indexer.read.bounds import folder_above
from indexer.read.container import expand
from indexer.read.formats import CONTAINER, HTML, MAIL, content_type_of, reader_of
from indexer.records import Failure, Known, Page, PageRecord, Skip
from indexer.sources.templates import SAMPLE
from indexer.sources.tree import Tree

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP})  # not a passing trouble


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    content_type: str


def read_path(
    source: str,
    max_bytes: int,
    found: Callable[[int], None],
    earlier: Earlier | None = None,
    within: Sequence[str] = (),
    study: Callable[[Iterable[Page | Known | Skip | Failure]], None] | None = None,
) -> Generator[Page | Known | Skip | Failure, None, None]:
    """Read one file, or every readable file below a folder.

    Symbolic links below the folder are not followed, so nothing outside it is read; neither are pipes and devices.

    Args:
        source: path of a file or folder.
        max_bytes: longest file read.
        found: told how many files there are to read.
        earlier: what an earlier build knows; of files that fail to be read this time, its record is given.
        within: folders that the source may not leave, whatever links lead to it; none means that it may be anywhere.
        study: shown up to `SAMPLE` pages from all over a folder, before any is given.

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
    if stat.S_ISDIR(kind):
        with closing(_tree(root, top)) as tree:
            entries = list(_walk(tree, source, earlier))
            found(sum(isinstance(entry, _Entry) for entry in entries))
            if study is not None:
                study(item for entry in _spread(entries) for item in _read(entry, tree, source, max_bytes, None))
            for entry in entries:
                if isinstance(entry, _Entry):
                    for item in _read(entry, tree, source, max_bytes, earlier):
                        yield from _documents(item, max_bytes)
                else:
                    yield entry
        return
    content_type = content_type_of(root.name)
    if not stat.S_ISREG(kind):
        raise SourceError(f"cannot read {source}: it is neither a file nor a folder")
    if content_type is None:
        raise SourceError(f"cannot read {source}: file type {root.suffix.lower() or 'without suffix'} is not read")
    found(1)
    with closing(_tree(root.parent, top if top != root else root.parent)) as tree:
        for item in _read(_Entry(root, content_type), tree, source, max_bytes, None):
            if isinstance(item, Skip | Failure):
                raise SourceError(f"cannot read {source}: {item.reason}")
            yield from _documents(item, max_bytes)


def _spread(entries: Sequence[object]) -> list[_Entry]:
    """Up to `SAMPLE` pages at equal distances, and a page has to be HTML."""
    pages = [entry for entry in entries if isinstance(entry, _Entry) and reader_of(entry.content_type) == HTML]
    return [pages[place * len(pages) // SAMPLE] for place in range(SAMPLE)] if len(pages) > SAMPLE else pages


def _tree(root: Path, top: Path) -> Tree:
    try:
        return Tree(root, top)
    except OSError as error:
        raise SourceError(f"cannot read {root}: {error.strerror}") from error


def _documents(item: Page | Known | Skip | Failure, max_bytes: int) -> Iterator[Page | Known | Skip | Failure]:
    """The file itself, or what is in it if it is an archive; of an e-mail, both."""
    reader = reader_of(item.content_type) if isinstance(item, Page) else None
    if reader != CONTAINER:
        yield item
    if isinstance(item, Page) and reader in (CONTAINER, MAIL):
        yield from expand(item, max_bytes)


def _walk(tree: Tree, source: str, earlier: Earlier | None) -> Iterator[_Entry | Known | Skip | Failure]:
    todo = [tree.root]
    while todo:
        here = todo.pop()
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
        below = []
        for name, kind in found:
            path = here / name
            content_type = content_type_of(name)
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
            elif content_type is None:
                yield Skip(path.as_uri(), f"file type {path.suffix.lower() or 'without suffix'} is not read")
            else:
                yield _Entry(path, content_type)
        todo += reversed(below)


def _read(
    entry: _Entry, tree: Tree, source: str, max_bytes: int, earlier: Earlier | None
) -> Iterator[Page | Known | Skip | Failure]:
    url = entry.path.as_uri()
    try:
        with open(tree.open(entry.path), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                yield Skip(url, "pipe, socket or device")
                return
            body = file.read(max_bytes + 1)
    except OSError as error:
        yield from _failed(entry.path, error, source, earlier)
        return
    if len(body) > max_bytes:
        yield Failure(url, f"larger than {max_bytes:,} bytes")
        return
    yield Page(
        url=url,
        source=source,
        body=body,
        content_type=entry.content_type,
        charset=None,
        etag=None,
        last_modified=formatdate(status.st_mtime, usegmt=True),
        fetched_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _failed(path: Path, error: OSError, source: str, earlier: Earlier | None) -> Iterator[Known | Failure]:
    """What is known of a file that cannot be read and of the files in it, if the trouble may pass."""
    reason, url = error.strerror or "cannot be read", path.as_uri()
    records: list[PageRecord] = []
    if earlier and error.errno not in _GONE:
        own = earlier.page(url)
        records = [*([own] if own else []), *earlier.pages(f"{url}!/")]
    yield from (Known(replace(record, source=source), kept=reason) for record in records)
    if not records:
        yield Failure(url, reason)
