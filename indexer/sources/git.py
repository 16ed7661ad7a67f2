"""Pages of a repository, as git has it stored; a file of the same blob as in the build before is not read again."""

import subprocess
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Self

from indexer.errors import SourceError
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, MAIL
from indexer.records import Failure, Item, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import GitAddress
from indexer.sources.git_mirror import TIP, Git, Mirrors, first_error, require_git
from indexer.sources.stored_files import Listing, StoredFiles

_MAX_FILES = 1_000_000
_PIECE = 1 << 20  # bytes read at once
_UNREAD_MODES = {"120000": "symbolic link", "160000": "a submodule"}
_POINTER, _MAX_POINTER = b"version https://git-lfs.github.com/spec/", 1_024  # bytes


class Entry(NamedTuple):
    """A path in a tree."""

    path: bytes
    mode: str  # 100644, 100755, 120000 for a symbolic link, 160000 for a submodule
    blob: str  # hash of the content, hex
    size: int  # bytes; 0 where there is no content


def read_repository(context: SourceContext, mirrors: Mirrors | None = None) -> Generator[Item, None, None]:
    """Read the files of a commit; a remote repository is fetched first.

    Args:
        context: the source, see `GitAddress`.
        mirrors: copies of remote repositories; without them, only local ones are read.

    Raises:
        SourceError: there is no such repository or ref, or it cannot be read.
        CredentialsError: a secret cannot be used.
    """
    source, address = context.source, GitAddress.read(context.source)
    if address.is_local:
        require_git(remote=False)
        folder = Path(address.remote)
        git, ref = Git(folder / ".git" if (folder / ".git").exists() else folder), address.ref
    elif mirrors is None:
        raise SourceError(f"{source}: there is no folder for a copy of the repository")
    else:
        git, ref = Git(mirrors.update(address, context.limits)), TIP
    _, commit, _ = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not commit and mirrors and not address.is_local:
        mirrors.drop(source)
        raise SourceError(f"{source}: the copy of the repository was damaged and is removed: build again")
    if not commit and not git.run("rev-parse", "--git-dir")[0]:
        raise SourceError(f"{source}: {git.folder} is no repository")
    if not commit:
        reason = "no commit yet" if ref == "HEAD" else f"no branch, tag or commit {ref}"
        raise SourceError(f"{source}: the repository has {reason}")
    try:
        yield from _read_commit(context, git, address.ref, commit)
    except SourceError as error:
        if mirrors is None or address.is_local:
            raise SourceError(f"{source}: {error}; git fsck says more") from error
        mirrors.drop(source)
        raise SourceError(f"{source}: {error}; the copy of the repository is removed: build again") from error


def _read_commit(context: SourceContext, git: Git, ref: str, commit: str) -> Generator[Item, None, None]:
    """Yield the item of each file. Raises SourceError."""
    read_anyway = (CONTAINER, MAIL)  # whose parts are known by themselves
    files = StoredFiles(context, context.source, ref=ref, commit=commit, read_anyway=read_anyway)

    def wanted() -> Iterator[Entry | Skip | Failure]:
        return files.wanted(entries, lambda entry: _UNREAD_MODES.get(entry.mode, ""))

    def read(entry: Entry) -> list[Item]:
        for known in files.known(entry.path, entry.blob):
            return [known]
        body = blobs.read(entry)
        if len(body) < _MAX_POINTER and body.startswith(_POINTER):
            return [Skip(files.url(entry.path), "a Git LFS pointer")]
        return [files.page(entry.path, body, entry.blob)]  # a commit has a date, its files have none

    with closing(_entries_of(git, commit)) as entries, Blobs.of(git) as blobs:
        files.note_lists(entry.path for entry in entries)
        files.survey(wanted, read)
        for entry in wanted():
            for item in [entry] if isinstance(entry, Skip | Failure) else read(entry):
                yield from with_parts(item, context.limits.max_bytes, context.no_images)


def _entries_of(git: Git, commit: str) -> Listing[Entry]:
    """Return all files of a commit, in the order of git. Raises SourceError."""
    entries = Listing(Entry)
    with git.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit) as process:
        output, rest = _pipe(process.stdout), b""
        while piece := output.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\0")
            entries.add(map(_entry, lines))
            if len(entries) > _MAX_FILES:
                raise SourceError(f"more than {_MAX_FILES:,} files")
        _, errors = process.communicate()
    if process.returncode:
        raise SourceError(first_error(errors.decode("utf-8", "replace")))
    return entries


def _entry(line: bytes) -> Entry:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode("ascii").split()
    return Entry(path, mode, blob, int(size) if size.isdigit() else 0)


class Blobs:
    """Content by hash, from one process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._input, self._output = _pipe(process.stdin), _pipe(process.stdout)

    @classmethod
    @contextmanager
    def of(cls, git: Git) -> Iterator[Self]:
        """Open the blobs of a repository. Raises SourceError."""
        with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as process:
            yield cls(process)

    def read(self, entry: Entry) -> bytes:
        """Return the content of a file. Raises SourceError: the repository does not have it, or is damaged."""
        name = entry.path.decode("utf-8", "replace")
        try:
            self._input.write(f"{entry.blob}\n".encode())
            self._input.flush()
            head = self._output.readline().split()
            if head[1:] != [b"blob", str(entry.size).encode()]:
                raise SourceError(f"the content of {name} is missing or damaged")
            body = self._output.read(entry.size + 1)[:-1]
        except BrokenPipeError:
            body = b""
        if len(body) != entry.size:
            raise SourceError(f"the content of {name} is damaged")
        return body


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - the process was started with a pipe
    return stream
