"""Pages of a repository: what has the same blob as when it was last read is known, and not read again."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from indexer.config import CrawlLimits
from indexer.errors import SourceError
from indexer.generation.previous import PreviousGeneration
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, HTML, MAIL, OCR_OFF, content_type_of, reader_of
from indexer.records import Failure, Item, Skip
from indexer.sources.git.address import GitAddress
from indexer.sources.git.mirror import TIP, Mirrors
from indexer.sources.git.program import Git, require
from indexer.sources.git.tree import Blobs, Entry, commit_of, entries_of
from indexer.sources.stored_files import StoredFiles
from indexer.sources.templates import spread

_SPECIAL = {"120000": "symbolic link", "160000": "a submodule"}  # modes
_POINTER, _LONGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1_024  # bytes


def read_repository(
    source: str,
    limits: CrawlLimits,
    found: Callable[[int], None],
    mirrors: Mirrors | None = None,
    earlier: PreviousGeneration | None = None,
    study: Callable[[Iterable[Item]], None] | None = None,
    no_images: str = OCR_OFF,
) -> Generator[Item, None, None]:
    """Read the files of a commit; a remote repository is fetched first.

    Args:
        source: `git+https://HOST/PATH@REF` or `git+file:///FOLDER@REF`.
        limits: how large files may be, which are wanted, what may be reached, and where a person can see them.
        found: told how many files there are to read.
        mirrors: copies of remote repositories; without them, only local ones are read.
        earlier: what an earlier build knows.
        study: shown pages from all over the repository, before any is given.
        no_images: why images are not read, if they are not.

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
    if not commit and not git.run("rev-parse", "--git-dir")[0]:
        raise SourceError(f"{source}: {git.folder} is no repository")
    if not commit:
        what = "no commit yet" if ref == "HEAD" else f"no branch, tag or commit {ref}"
        raise SourceError(f"{source}: the repository has {what}")
    try:
        yield from _Reading(address, commit, git, limits, earlier, no_images).items(found, study)
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
        self,
        address: GitAddress,
        commit: str,
        git: Git,
        limits: CrawlLimits,
        earlier: PreviousGeneration | None,
        no_images: str,
    ) -> None:
        self._commit = commit
        self._git = git
        self._max_bytes = limits.max_bytes
        self._no_images = no_images
        self._files = StoredFiles(
            address.source,
            address.source,
            limits,
            earlier,
            ref=address.ref,
            commit=commit,
            no_images=no_images,
            read_anyway=(CONTAINER, MAIL),  # whose parts are known by themselves
        )

    def items(
        self, found: Callable[[int], None], study: Callable[[Iterable[Item]], None] | None
    ) -> Generator[Item, None, None]:
        """Yield what becomes of each file. Raises SourceError."""
        with closing(entries_of(self._git, self._commit)) as there, Blobs.of(self._git) as blobs:
            self._files.note_lists(entry.path for entry in there)
            of_type = Counter(_type(entry) for entry in self._wanted(there) if isinstance(entry, Entry))
            found(of_type.total())
            if study is not None and of_type[HTML]:
                pages = (one for one in self._wanted(there) if isinstance(one, Entry) and _type(one) == HTML)
                study(self._item(entry, blobs) for entry in spread(pages, of_type[HTML]))
            for entry in self._wanted(there):
                item = self._item(entry, blobs) if isinstance(entry, Entry) else entry
                yield from with_parts(item, self._max_bytes, self._no_images)

    def _wanted(self, there: Iterable[Entry]) -> Iterator[Entry | Skip | Failure]:
        return self._files.wanted(there, lambda entry: _SPECIAL.get(entry.mode, ""))

    def _item(self, entry: Entry, blobs: Blobs) -> Item:
        """What is known of a file that has not changed, else its page."""
        for known in self._files.known(entry.path, entry.blob):
            return known
        body = blobs.read(entry)
        if len(body) < _LONGEST_POINTER and body.startswith(_POINTER):
            return Skip(self._files.url(entry.path), "a Git LFS pointer")
        return self._files.page(entry.path, body, entry.blob)  # a commit has a date, its files have none


def _type(entry: Entry) -> str | None:
    """Name of the reader of a file."""
    return reader_of(content_type_of(entry.path.decode("utf-8", "replace")) or "")
