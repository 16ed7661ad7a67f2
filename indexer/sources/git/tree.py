"""The files of a commit, and their content, as git has them stored."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple, Self

from indexer.errors import SourceError
from indexer.sources.git.program import Git, complaint
from indexer.sources.listing import Listing

_MOST = 1_000_000  # entries of a tree
_PIECE = 1 << 20  # bytes


class Entry(NamedTuple):
    """A path in a tree."""

    path: bytes
    mode: str  # 100644, 100755, 120000 for a symbolic link, 160000 for a submodule
    blob: str  # hash of the content, hex
    size: int  # bytes; 0 where there is no content


def commit_of(git: Git, ref: str) -> str:
    """Return the commit that a ref stands for, hex; empty where there is none, or the repository is damaged."""
    went_well, out, _ = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    return out if went_well else ""


def entries_of(git: Git, commit: str) -> Listing[Entry]:
    """Return all files of a commit, in the order of git. Raises SourceError."""
    found = Listing(Entry)
    with git.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit) as process:
        out, rest = _stream(process.stdout), b""
        while piece := out.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\0")
            found.add(map(_entry, lines))
            if len(found) > _MOST:
                raise SourceError(f"more than {_MOST:,} files")
        _, said = process.communicate()
    if process.returncode:
        raise SourceError(complaint(said.decode("utf-8", "replace")))
    return found


def _entry(line: bytes) -> Entry:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode("ascii").split()
    return Entry(path, mode, blob, int(size) if size.isdigit() else 0)


class Blobs:
    """Content by hash, from one process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._in, self._out = _stream(process.stdin), _stream(process.stdout)

    @classmethod
    @contextmanager
    def of(cls, git: Git) -> Iterator[Self]:
        """Open those of a repository. Raises SourceError."""
        with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as process:
            yield cls(process)

    def read(self, entry: Entry) -> bytes:
        """Return the content of a file. Raises SourceError: the repository does not have it, or is damaged."""
        try:
            self._in.write(f"{entry.blob}\n".encode())
            self._in.flush()
            head = self._out.readline().split()
            if head[1:] != [b"blob", str(entry.size).encode()]:
                raise SourceError(f"the content of {entry.path.decode('utf-8', 'replace')} is missing or damaged")
            body = self._out.read(entry.size + 1)[:-1]
        except BrokenPipeError:
            body = b""
        if len(body) != entry.size:
            raise SourceError(f"the content of {entry.path.decode('utf-8', 'replace')} is damaged")
        return body


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise TypeError("not piped")
    return stream
