"""Pages of a repository, as git has it stored; a file of the same blob as in the build before is not read again."""

import subprocess
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

from indexer.errors import SourceError
from indexer.read.container import with_parts
from indexer.read.formats import CONTAINER, MAIL
from indexer.records import Failure, Item, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import GitAddress
from indexer.sources.git_mirror import TIP, Git, Mirrors, first_error, require_git
from indexer.sources.stored_files import Listing, StoredFile, StoredFiles

_MAX_FILES = 1_000_000
_PIECE = 1 << 20  # bytes read at once
_UNREAD_MODES = {"120000": "symbolic link", "160000": "a submodule"}
_POINTER, _MAX_POINTER = b"version https://git-lfs.github.com/spec/", 1_024  # bytes


def read_repository(context: SourceContext, mirrors: Mirrors | None = None) -> Generator[Item, None, None]:
    """Read the files of a commit; a remote repository is fetched first, which needs `mirrors`.

    Raises:
        SourceError: there is no such repository or ref, or it cannot be read.
        CredentialsError: a secret cannot be used.
    """
    source, address = context.source, GitAddress.read(context.source)
    if address.is_local:
        require_git(remote=False)
        folder = Path(address.remote)
        git, ref, mirrors = Git(folder / ".git" if (folder / ".git").exists() else folder), address.ref, None
    elif mirrors is None:
        raise SourceError(f"{source}: there is no folder for a copy of the repository")
    else:
        git, ref = Git(mirrors.update(address, context.limits)), TIP
    _, commit, _ = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if not commit and mirrors:
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
        if mirrors is None:
            raise SourceError(f"{source}: {error}; git fsck says more") from error
        mirrors.drop(source)
        raise SourceError(f"{source}: {error}; the copy of the repository is removed: build again") from error


def _read_commit(context: SourceContext, git: Git, ref: str, commit: str) -> Generator[Item, None, None]:
    """Yield the item of each file. Raises SourceError."""
    read_anyway = (CONTAINER, MAIL)  # whose parts are known by themselves
    files = StoredFiles(context, context.source, ref=ref, commit=commit, read_anyway=read_anyway)

    def wanted() -> Iterator[StoredFile | Skip | Failure]:
        return files.wanted(entries, lambda file: _UNREAD_MODES.get(file.note, ""))

    def read(file: StoredFile) -> list[Item]:
        for known in files.known(file.path, file.version):
            return [known]
        body = _read_blob(blobs, file)
        if len(body) < _MAX_POINTER and body.startswith(_POINTER):
            return [Skip(files.url(file.path), "a Git LFS pointer")]
        return [files.page(file, body)]  # a commit has a date, its files have none

    with closing(_list_files(git, commit)) as entries, git.start("cat-file", "--batch", stdin=subprocess.PIPE) as blobs:
        files.note_lists(entries)
        context.report_due(sum(isinstance(file, StoredFile) for file in wanted()))
        for file in wanted():
            for item in read(file) if isinstance(file, StoredFile) else [file]:
                yield from with_parts(item, context.limits.max_bytes, context.no_images)


def _list_files(git: Git, commit: str) -> Listing:
    """Return all files of a commit. Raises SourceError."""
    found = Listing()
    with git.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit) as process:
        output, rest = _pipe(process.stdout), b""
        while piece := output.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\0")
            found.add(map(_file, lines))
            if len(found) > _MAX_FILES:
                raise SourceError(f"more than {_MAX_FILES:,} files")
        _, errors = process.communicate()
    if process.returncode:
        raise SourceError(first_error(errors.decode("utf-8", "replace")))
    return found


def _file(line: bytes) -> StoredFile:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode("ascii").split()
    return StoredFile(path, int(size) if size.isdigit() else 0, blob, mode)


def _read_blob(process: "subprocess.Popen[bytes]", file: StoredFile) -> bytes:
    """Return the content of a file. Raises SourceError: the repository does not have it, or is damaged."""
    name, (into, out) = file.path.decode("utf-8", "replace"), (_pipe(process.stdin), _pipe(process.stdout))
    try:
        into.write(f"{file.version}\n".encode())
        into.flush()
        if out.readline().split()[1:] != [b"blob", str(file.size).encode()]:
            raise SourceError(f"the content of {name} is missing or damaged")
        body = out.read(file.size + 1)[:-1]
    except BrokenPipeError:
        body = b""
    if len(body) != file.size:
        raise SourceError(f"the content of {name} is damaged")
    return body


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - the process was started with a pipe
    return stream
