"""Pages of repositories, and the copies of remote ones: one commit without its history, updated by what has changed.

Git runs without the user's settings, hooks or prompts. Its settings, secrets among them, are in a file that has no
name: neither arguments nor the environment show them. A file of the same blob as in the build before is not read again.
"""

import hashlib
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

import certifi

from indexer.config import CrawlLimits
from indexer.crawl.guard import resolve
from indexer.credentials import Credential, Session, credential_for
from indexer.decoding import one_line
from indexer.errors import CredentialsError, NotWanted, SourceError
from indexer.read.container import with_parts
from indexer.records import Item, Skip
from indexer.source_context import SourceContext
from indexer.sources.addresses import GitAddress, address_kind
from indexer.sources.stored_files import StoredFile, StoredFiles, listing

_TIP = "refs/pilotlight/tip"
_MIN_VERSION = (2, 37)  # has http.curloptResolve, which holds it to addresses that have been checked
_BLOCK = 512  # bytes that `ulimit -f` counts in
_MAX_PACKS = 20  # of updates, after which everything is fetched again, and unneeded objects go
_LEFTOVERS = "objects/pack/tmp_*"  # of fetches that were cut off
_SECONDS, _FETCH_SECONDS = 60.0, 3_600.0  # time limits of commands
_LATE = -signal.SIGKILL
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fetch.recurseSubmodules": "no",
    "fetch.unpackLimit": "1",  # a pack for each fetch, however small
    "transfer.credentialsInUrl": "die",
    "http.proxy": "",
    "http.followRedirects": "false",  # which covers alternates that a server names, too
    "http.cookieFile": "",
}
_NO_REF = ("couldn't find remote ref", "not our ref")
_NO_LOGIN = ("could not read Username", "Authentication failed", "error: 401", "error: 403")
_NO_ANSWER = ("unable to access", "RPC failed", "hung up", "early EOF")
_OF_SERVER = (*_NO_REF, *_NO_LOGIN, *_NO_ANSWER)  # errors of which the copy is not the cause
_MEMORY = 1 << 20  # KiB of a command
_MAX_OUTPUT = 1 << 20  # bytes of what a command says
_PIECE = 1 << 20  # bytes read at once
_UNREAD_MODES = {"120000": "symbolic link", "160000": "a submodule"}
_POINTER, _MAX_POINTER = b"version https://git-lfs.github.com/spec/", 1_024  # bytes
Config = Mapping[str, str | Sequence[str]]


def version() -> str:
    """Return the version of git on this machine; empty where there is none, or it does not start."""
    try:
        done = subprocess.run(["git", "version"], capture_output=True, text=True, check=True, timeout=10, env=_path())
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.removeprefix("git version ").strip()


@dataclass(frozen=True, slots=True)
class Git:
    """The program, for one repository."""

    folder: Path  # of the repository, as --git-dir
    protocols: str = "none"  # allowed: none, or https

    @contextmanager
    def start(
        self,
        *arguments: str,
        config: Config | None = None,
        most: int | None = None,
        seconds: float | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command with these settings and yield its process, which is killed at the end.

        No file that it writes may be larger than `most` bytes; after so many seconds it is killed, and returns `_LATE`.
        Raises SourceError: it cannot be started.
        """
        lines = []
        for name, values in {**_SETTINGS, **(config or {})}.items():
            section, _, key = name.rpartition(".")
            for value in [values] if isinstance(values, str) else values:
                for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
                    value = value.replace(character, escape)
                lines.append(f'[{section}]\n\t{key} = "{value}"\n')
        settings = os.memfd_create("git-config")
        environment = {
            **_path(),
            "HOME": "/nonexistent",  # where curl would look for a netrc
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": f"/proc/self/fd/{settings}",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            # the authorities of this machine, or of SSL_CERT_FILE
            "GIT_SSL_CAINFO": ssl.get_default_verify_paths().cafile or certifi.where(),
        }
        limits = f"ulimit -d {_MEMORY}; " + (f"ulimit -f {-(-most // _BLOCK)}; " if most is not None else "")
        limits += "exec " + (f"timeout -s KILL {seconds:g} " if seconds is not None else "")
        command = ["sh", "-c", f'{limits}"$0" "$@"', "git", f"--git-dir={self.folder}", *arguments]
        try:
            os.write(settings, "".join(lines).encode("utf-8", "surrogateescape"))
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=[settings],
                start_new_session=True,  # so that its children end with it
            )
        except OSError as error:
            raise SourceError(f"cannot start git: {error.strerror}") from error
        finally:
            os.close(settings)
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(
        self, *arguments: str, config: Config | None = None, most: int | None = None, seconds: float = _SECONDS
    ) -> tuple[bool, str, str]:
        """Run a command to its end; return whether it succeeded, its output, and its errors.

        Raises SourceError: it takes longer than these seconds, or cannot be started.
        """
        with (
            self.start(*arguments, config=config, most=most, seconds=seconds) as process,
            ThreadPoolExecutor(1) as pool,
        ):
            said = pool.submit(_pipe(process.stderr).read, _MAX_OUTPUT)
            output = _pipe(process.stdout).read(_MAX_OUTPUT)
            errors = said.result()
            if is_endless := len(errors) == _MAX_OUTPUT:  # a server may send messages for ever
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode == _LATE and not is_endless:
            raise SourceError(f"git {arguments[0]} did not end within {seconds:,.0f} seconds")
        return process.returncode == 0, output.decode("utf-8", "replace").strip(), errors.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The copies that belong to an index, one for each source, in one folder."""

    folder: Path
    credentials: Collection[Credential] = ()

    def update(self, address: GitAddress, limits: CrawlLimits) -> Path:
        """Bring the copy of a repository up to date, and return its folder.

        Raises:
            SourceError: it cannot be reached or read, or has no such ref. The copy stays as it is.
            CredentialsError: a secret cannot be used.
        """
        if (found := version()) and tuple(map(int, re.findall(r"\d+", found)[:2])) < _MIN_VERSION:
            raise SourceError(f"git {found} is too old for git+https: it needs {'.'.join(map(str, _MIN_VERSION))}")
        source, most = address.source, limits.max_total_bytes
        config: dict[str, str | Sequence[str]] = {**_network_config(address, limits)}
        credential = credential_for(source, self.credentials)
        if credential is not None and credential.cookies:
            ways = "a repository is read with basic, bearer or headers, not with cookies"
            raise CredentialsError(f"credentials of {credential.origin}: {ways}")
        session = Session(credential) if credential else None
        if session is not None:
            headers = session.headers(address.remote)
            config["http.extraHeader"] = [f"{name}: {value}" for name, value in headers.items()]
        git = Git(self._place_of(source), protocols="https")
        if len(list(git.folder.glob("objects/pack/*.pack"))) > _MAX_PACKS:
            self.drop(source)
        is_new = not git.folder.exists()
        git.folder.parent.mkdir(parents=True, exist_ok=True)
        succeeded, _, errors = git.run("init", "--quiet", "--bare", "--template=")  # repairs one that was cut off, too
        if not succeeded:
            raise SourceError(f"{source}: cannot make a copy: {_first_error(errors)}")
        for leftover in [*git.folder.glob(_LEFTOVERS), *git.folder.rglob("*.lock")]:  # of a fetch that was killed
            leftover.unlink()
        options = ("--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        fetch = ("fetch", *options, "--", address.remote, f"+{address.ref}:{_TIP}")
        succeeded, _, errors = git.run(*fetch, config=config, most=most, seconds=_FETCH_SECONDS)
        if succeeded:
            return git.folder
        if any(leftover.stat().st_size >= most for leftover in git.folder.glob(_LEFTOVERS)):
            self.drop(source)
            raise SourceError(f"{source}: larger than {most:,} bytes")
        if is_new or not any(words in errors for words in _OF_SERVER):
            self.drop(source)
        if not is_new and not git.folder.exists():  # the copy was damaged
            return self.update(address, limits)
        if session is not None:
            errors = session.redact(errors.encode()).decode()
        raise SourceError(f"{source}: {_why_not(address, errors, credential)}")

    def drop(self, source: str) -> None:
        """Remove the copy of a source, and the folder if it is the last one."""
        shutil.rmtree(self._place_of(source), ignore_errors=True)
        with suppress(OSError):
            self.folder.rmdir()

    def keep(self, sources: Iterable[str]) -> None:
        """Remove the copies of all other sources."""
        kept = {self._place_of(source) for source in sources if address_kind(source) == "repository"}
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            if entry not in kept:
                shutil.rmtree(entry, ignore_errors=True)
        with suppress(OSError):  # not empty, or never made
            self.folder.rmdir()

    def _place_of(self, source: str) -> Path:
        return self.folder / hashlib.sha256(source.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _first_error(errors: str) -> str:
    """Return the first error in what git prints, in one line."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line.partition(": ")[2] for line in lines if line.startswith(("fatal:", "error:"))]
    return one_line((marked or lines[-1:] or ["it does not say why"])[0])


def _why_not(address: GitAddress, errors: str, credential: Credential | None) -> str:
    """Return what errors of a fetch mean, and what to do."""
    if any(words in errors for words in _NO_REF):
        missing = "commit yet" if address.ref == "HEAD" else f"branch, tag or commit {address.ref}"
        return f"the repository has no {missing}"
    if any(words in errors for words in _NO_LOGIN):
        if credential is not None:
            return "the server does not take the credentials of its origin"
        return "there is no such repository, or it needs a login: describe one under [[credentials]]"
    if "requested URL returned error: 3" in errors:
        return "the server redirects, which is not followed: name the address it leads to"
    return f"cannot be fetched: {_first_error(errors)}"


def _network_config(address: GitAddress, limits: CrawlLimits) -> dict[str, str]:
    """Return settings that hold git to checked addresses of the host, and to the limits. Raises SourceError."""
    parts = urlsplit(address.remote)
    host, port = parts.hostname or "", parts.port or 443
    try:
        resolved = resolve(host, port, allow_private=limits.allow_private)
    except NotWanted as error:
        raise SourceError(f"{address.source}: {error}") from error
    except OSError as error:
        raise SourceError(f"{address.source}: cannot resolve {host}: {error.strerror or error}") from error
    addresses = ",".join(f"[{one}]" if ":" in one else one for one in resolved)
    return {
        "http.curloptResolve": f"{host}:{port}:{quote(addresses, safe='[]:.,')}",
        "http.userAgent": limits.user_agent,
        "http.lowSpeedLimit": "1",  # bytes a second
        "http.lowSpeedTime": str(max(1, round(limits.timeout))),
        "protocol.version": "2",
    }


def _path() -> dict[str, str]:
    """Return all that git gets of the environment of this process."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


def read_repository(context: SourceContext, mirrors: Mirrors | None = None) -> Generator[Item, None, None]:
    """Read the files of a commit; a remote repository is fetched first, which needs `mirrors`.

    Raises:
        SourceError: there is no such repository or ref, or it cannot be read.
        CredentialsError: a secret cannot be used.
    """
    source, address = context.source, GitAddress.read(context.source)
    if not version():
        raise SourceError("reading a repository needs the program git: apt-get install git")
    if address.is_local:
        folder = Path(address.remote)
        folder = folder / ".git" if (folder / ".git").exists() else folder
        if _leads_elsewhere(folder):
            raise SourceError(f"{source}: {folder} leads to another repository; name that one")
        git, ref, mirrors = Git(folder), address.ref, None
    elif mirrors is None:
        raise SourceError(f"{source}: there is no folder for a copy of the repository")
    else:
        git, ref = Git(mirrors.update(address, context.limits)), _TIP
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


def _leads_elsewhere(folder: Path) -> bool:
    """Return whether a repository is that of another folder, or has objects of one."""
    if not folder.is_dir() or folder.is_symlink():
        return folder.exists()
    objects = [str(folder / "objects")]
    objects += (os.path.join(here, name) for here, *names in os.walk(objects[0]) for name in chain(*names))
    names = ("commondir", "objects/info/alternates")
    return any((folder / name).exists() for name in names) or any(map(os.path.islink, objects))


def _read_commit(context: SourceContext, git: Git, ref: str, commit: str) -> Generator[Item, None, None]:
    """Yield the item of each file. Raises SourceError."""
    files = StoredFiles(context, listing(_list_files(git, commit)), root=context.source, ref=ref)

    def read(file: StoredFile) -> Sequence[Item]:
        if known := files.known(file.path, file.version):
            return known
        body = _read_blob(blobs, file)
        if len(body) < _MAX_POINTER and body.startswith(_POINTER):
            return [Skip(files.url(file.path), "a Git LFS pointer")]
        return [files.page(file, body)]  # a commit has a date, its files have none

    context.report_due(sum(isinstance(file, StoredFile) for file in files.wanted()))
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as blobs:
        for file in files.wanted():
            for item in read(file) if isinstance(file, StoredFile) else [file]:
                yield from with_parts(item, context.limits.max_bytes, context.no_images)


def _list_files(git: Git, commit: str) -> Iterator[Iterable[StoredFile]]:
    """Yield the files of a commit, some at a time. Raises SourceError."""
    with git.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit, seconds=_SECONDS) as process:
        output, rest = _pipe(process.stdout), b""
        while piece := output.read(_PIECE):
            *lines, rest = (rest + piece).split(b"\0")
            yield map(_file, lines)
        _, errors = process.communicate()
    if process.returncode == _LATE:  # folders in folders may have no end
        raise SourceError(f"its folders cannot be listed within {_SECONDS:,.0f} seconds")
    if process.returncode:
        raise SourceError(_first_error(errors.decode("utf-8", "replace")))


def _file(line: bytes) -> StoredFile:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode("ascii").split()
    return StoredFile(path, int(size) if size.isdigit() else 0, blob, _UNREAD_MODES.get(mode, ""))


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
