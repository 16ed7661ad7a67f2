"""Pages of a repository: what has the same blob as when it was last read is known, and not read again."""

from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from indexer.config import CrawlLimits
from indexer.errors import SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.link_template import LinkTemplate
from indexer.read.container import expand
from indexer.read.formats import CONTAINER, HTML, MAIL, content_type_of, is_source_code, reader_of
from indexer.records import Failure, Item, Known, Page, Skip
from indexer.sources.git.address import GitAddress
from indexer.sources.git.mirror import TIP, Mirrors
from indexer.sources.git.program import Git, require
from indexer.sources.git.tree import Blobs, Entry, commit_of, entries_of
from indexer.sources.templates import spread

_LINK, _SUBMODULE = "120000", "160000"  # modes
_POINTER, _LONGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1_024  # bytes


def read_repository(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    mirrors: Mirrors | None = None,
    earlier: PreviousGeneration | None = None,
    study: Callable[[Iterable[Item]], None] | None = None,
) -> Generator[Item, None, None]:
    """Read the files of a commit; a remote repository is fetched first.

    Args:
        source: `git+https://HOST/PATH@REF` or `git+file:///FOLDER@REF`.
        limits: how large files may be, which are wanted, what may be reached, and where a person can see them.
        found: told how many files there are to read.
        mirrors: copies of remote repositories; without them, only local ones are read.
        earlier: what an earlier build knows.
        study: shown pages from all over the repository, before any is given.

    Raises:
        SourceError: there is no such repository or ref, or it cannot be read.
        CredentialsError: a secret cannot be used.
    """
    address = GitAddress.read(source)
    if address.is_local:
        require(remote=False)
        git, ref = Git(_local(address)), address.ref
    elif mirrors is None:
        raise SourceError(f"{source}: there is no folder for a copy of the repository")
    else:
        git, ref = Git(mirrors.updated(address, limits)), TIP
    commit = commit_of(git, ref)
    if not commit and mirrors and not address.is_local:
        mirrors.drop(source)
        raise SourceError(f"{source}: the copy of the repository was damaged and is removed: build again")
    if not commit:
        what = "no commit" if ref == "HEAD" else f"no branch, tag or commit {ref}"
        raise SourceError(f"{source}: {git.folder} is no repository, or has {what}")
    try:
        yield from _Reading(address, commit, git, limits, earlier).items(found, study)
    except SourceError as error:
        if mirrors is None or address.is_local:
            raise SourceError(f"{source}: {error}; git fsck says more") from error
        mirrors.drop(source)
        raise SourceError(f"{source}: {error}; the copy of the repository is removed: build again") from error


def _local(address: GitAddress) -> Path:
    folder = Path(address.remote)
    return folder / ".git" if (folder / ".git").exists() else folder


class _Reading:
    """One commit, and what is known of its files."""

    def __init__(
        self, address: GitAddress, commit: str, git: Git, limits: CrawlLimits, earlier: PreviousGeneration | None
    ) -> None:
        self._address = address
        self._commit = commit
        self._git = git
        self._limits = limits
        self._earlier = earlier if earlier is not None and earlier.is_trusted else None
        self._template = LinkTemplate(limits.link_template) if limits.link_template else None
        self._fetched_at = datetime.now(UTC).isoformat(timespec="seconds")

    def items(
        self, found: Callable[[int], None], study: Callable[[Iterable[Item]], None] | None
    ) -> Generator[Item, None, None]:
        """Yield what becomes of each file. Raises SourceError."""
        entries = list(self._wanted(entries_of(self._git, self._commit)))
        files = [entry for entry in entries if isinstance(entry, Entry)]
        found(len(files))
        with Blobs.of(self._git) as blobs:
            if study is not None:
                study(self._item(entry, blobs) for entry in spread([file for file in files if _type(file) == HTML]))
            for entry in entries:
                item = self._item(entry, blobs) if isinstance(entry, Entry) else entry
                reader = reader_of(item.content_type) if isinstance(item, Page) else None
                if reader != CONTAINER:
                    yield item
                if isinstance(item, Page) and reader in (CONTAINER, MAIL):
                    yield from expand(item, self._limits.max_bytes)

    def _wanted(self, entries: Iterable[Entry]) -> Iterator[Entry | Skip | Failure]:
        """Files that are to be read, and of the others why not; of a hidden folder that is said once."""
        hidden: set[bytes] = set()
        for entry in entries:
            url, name = self._url(entry.path), entry.path.decode("utf-8", "replace")
            steps = entry.path.split(b"/")
            dotted = next((place for place, step in enumerate(steps, 1) if step.startswith(b".")), 0)
            if dotted:
                top = b"/".join(steps[:dotted])
                if top not in hidden:
                    hidden.add(top)
                    yield Skip(self._url(top), "hidden")
            elif entry.mode == _SUBMODULE:
                yield Skip(url, "a submodule")
            elif entry.mode == _LINK:
                yield Skip(url, "symbolic link")
            elif content_type_of(name) is None:
                suffix = PurePosixPath(name).suffix.lower() or "without suffix"
                yield Skip(url, f"file type {suffix} is not read")
            elif refusal := self._limits.scope.refusal(f"file:///{quote(entry.path)}"):
                yield Skip(url, refusal)
            elif entry.size > self._limits.max_bytes:
                yield Failure(url, f"larger than {self._limits.max_bytes:,} bytes")
            else:
                yield entry

    def _item(self, entry: Entry, blobs: Blobs) -> Item:
        """What is known of a file that has not changed, else its page."""
        known = self._known(entry)
        if known is not None:
            return known
        url, body = self._url(entry.path), blobs.read(entry)
        if len(body) < _LONGEST_POINTER and body.startswith(_POINTER):
            return Skip(url, "a Git LFS pointer")
        content_type = content_type_of(entry.path.decode("utf-8", "replace")) or ""
        return Page(
            url=url,
            source=self._address.source,
            body=body,
            content_type=content_type,
            charset=None,
            etag=self._validator(entry),
            last_modified=None,  # a commit has a date, its files have none
            fetched_at=self._fetched_at,
            requested=self._address.name_of(entry.path),
            line_fragment=self._fragment(content_type),
        )

    def _known(self, entry: Entry) -> Known | None:
        if self._earlier is None or _type(entry) in (CONTAINER, MAIL):  # whose parts are known by themselves
            return None
        record = self._earlier.page_behind(self._address.name_of(entry.path))
        if record is None or record.source != self._address.source or record.etag != self._validator(entry):
            return None
        is_there = self._template.is_of(record.url, entry.path, self._address.ref) if self._template else None
        return Known(record) if is_there or (is_there is None and record.url == self._url(entry.path)) else None

    def _validator(self, entry: Entry) -> str:
        """Stands for all that decides what is read from a file at one address."""
        fragment = self._fragment(content_type_of(entry.path.decode("utf-8", "replace")) or "")
        return f'"{entry.blob}{fragment and f"#{fragment}"}"'

    def _fragment(self, content_type: str) -> str:
        return self._template.fragment if self._template and is_source_code(content_type) else ""

    def _url(self, path: bytes) -> str:
        if self._template is None:
            return self._address.name_of(path)
        return self._template.url(path, self._address.ref, self._commit)


def _type(entry: Entry) -> str | None:
    """Name of the reader of a file."""
    return reader_of(content_type_of(entry.path.decode("utf-8", "replace")) or "")
