"""Read the files of one commit of a repository. Remote repositories are fetched first, without their history.

Git runs without the user's settings, hooks or prompts. Settings and secrets are passed in an anonymous file, because
other processes could read them in arguments or the environment. Unchanged files are not read again.
"""

import os
import re
import signal
import ssl
import subprocess
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from urllib.parse import quote, urlsplit

import certifi

from indexer.config import CrawlLimits
from indexer.crawl.guard import resolve_checked
from indexer.errors import CredentialsError, NotWanted, SourceError
from indexer.network.credentials import Session
from indexer.network.http import proxy_for, proxy_hint
from indexer.network.urls import GitAddress, origin
from indexer.read.container import with_members
from indexer.read.markup.includes import Includes
from indexer.records import Item, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import is_below_list
from indexer.sources.stored_files import StoredFile, StoredFiles, listing
from indexer.text.cleaning import one_line

_FETCHED_REF = "refs/pilotlight/tip"
_MIN_VERSION = (2, 37)  # introduced http.curloptResolve, which restricts git to checked addresses
_BLOCK_BYTES = 512
_UNFINISHED_PACKS = "objects/pack/tmp_*"
_RUN_SECONDS, _FETCH_SECONDS = 60.0, 3_600.0
_TIMEOUT_CODE = -signal.SIGKILL
_SETTINGS = Path(__file__).with_name("git.config").read_text("utf-8")
_MISSING_REF_ERRORS = ("couldn't find remote ref", "not our ref")
_LOGIN_ERRORS = ("could not read Username", "Authentication failed", "error: 401", "error: 403")
_MAX_MEMORY_KIB = 1 << 20
_MAX_OUTPUT_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_UNREAD_MODES = {"120000": "symbolic link", "160000": "a submodule"}
_LFS_POINTER, _MAX_POINTER_BYTES = b"version https://git-lfs.github.com/spec/", 1_024
Config = Mapping[str, str | Sequence[str]]


def version() -> str:
    """Return the version of git on this machine, or an empty string if git does not start."""
    try:
        done = subprocess.run(["git", "version"], capture_output=True, text=True, check=True, timeout=10, env=_path())
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.removeprefix("git version ").strip()


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one repository. Git may use only the network protocols in `protocols`."""

    folder: Path
    protocols: str = "none"

    @contextmanager
    def start(
        self,
        *arguments: str,
        config: Config | None = None,
        max_bytes: int | None = None,
        seconds: float | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a git command with `config` and yield its process. The process is killed at the end of the block.

        The command may write files of at most `max_bytes`. After `seconds`, it is killed, and its return code is
        `_TIMEOUT_CODE`. Raises SourceError if it cannot be started.
        """
        lines = [_SETTINGS]
        for name, values in (config or {}).items():
            section, _, key = name.rpartition(".")
            for value in [values] if isinstance(values, str) else values:
                for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
                    value = value.replace(character, escape)
                lines.append(f'[{section}]\n\t{key} = "{value}"\n')
        settings = os.memfd_create("git-config")
        environment = {
            **_path(),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": f"/proc/self/fd/{settings}",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSL_CAINFO": ssl.get_default_verify_paths().cafile or certifi.where(),
        }
        limits = f"ulimit -d {_MAX_MEMORY_KIB}; "
        limits += f"ulimit -f {-(-max_bytes // _BLOCK_BYTES)}; " if max_bytes is not None else ""
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
                start_new_session=True,
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
        self, *arguments: str, config: Config | None = None, max_bytes: int | None = None, seconds: float = _RUN_SECONDS
    ) -> tuple[bool, str, str]:
        """Run a git command. Return whether it succeeded, its output and its errors. Raises SourceError on timeout."""
        command = self.start(*arguments, config=config, max_bytes=max_bytes, seconds=seconds)
        with ThreadPoolExecutor(2) as pool, command as process:  # kills the process before awaiting the threads

            def read(stream: IO[bytes]) -> bytes:
                content = stream.read(_MAX_OUTPUT_BYTES)
                if len(content) == _MAX_OUTPUT_BYTES:  # the server may send messages forever
                    os.killpg(process.pid, signal.SIGKILL)
                return content

            output, errors = pool.map(read, (_pipe(process.stdout), _pipe(process.stderr)))
            process.wait()
        if process.returncode == _TIMEOUT_CODE and _MAX_OUTPUT_BYTES not in (len(output), len(errors)):
            raise SourceError(f"git {arguments[0]} did not end within {seconds:,.0f} seconds")
        return process.returncode == 0, output.decode("utf-8", "replace").strip(), errors.decode("utf-8", "replace")


def _fetch(address: GitAddress, git: Git, limits: CrawlLimits, session: Session | None) -> None:
    """Fetch one commit of a remote repository, without its history. Raises SourceError if this fails."""
    if tuple(map(int, re.findall(r"\d+", version())[:2])) < _MIN_VERSION:
        raise SourceError(f"git {version()} is too old: git+https needs {'.'.join(map(str, _MIN_VERSION))} or later")
    source, max_bytes = address.source, limits.max_total_bytes
    config: dict[str, str | Sequence[str]] = {**_network_config(address, limits)}
    if session is not None:
        if "cookies" in session.kinds:
            ways = "a repository can be read with basic, bearer or headers, but not with cookies"
            raise CredentialsError(f"credentials of {origin(address.remote)}: {ways}")
        headers = session.headers(address.remote)
        config["http.extraHeader"] = [f"{name}: {value}" for name, value in headers.items()]
    succeeded, _, errors = git.run("init", "--quiet", "--bare", "--template=")
    if not succeeded:
        raise SourceError(f"{source}: cannot create a temporary repository: {_first_error(errors)}")
    options = ("--quiet", "--depth=1", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
    fetch = ("fetch", *options, "--", address.remote, f"+{address.ref}:{_FETCHED_REF}")
    succeeded, _, errors = git.run(*fetch, config=config, max_bytes=max_bytes, seconds=_FETCH_SECONDS)
    if any(pack.stat().st_size >= max_bytes for pack in git.folder.glob(_UNFINISHED_PACKS)):
        raise SourceError(f"{source}: larger than {max_bytes:,} bytes")
    if not succeeded:
        errors = session.redact(errors.encode()).decode() if session else errors
        raise SourceError(f"{source}: {_explain_failure(address, errors, has_login=session is not None)}")


def _first_error(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    marked = [line.partition(": ")[2] for line in lines if line.startswith(("fatal:", "error:"))]
    return one_line((marked or lines[-1:] or ["git gave no reason"])[0])


def _explain_failure(address: GitAddress, errors: str, *, has_login: bool) -> str:
    if any(words in errors for words in _MISSING_REF_ERRORS):
        missing = "commit yet" if address.ref == "HEAD" else f"branch, tag or commit {address.ref}"
        return f"the repository has no {missing}"
    if any(words in errors for words in _LOGIN_ERRORS):
        if has_login:
            return "the server rejects the credentials of its origin"
        return "there is no such repository, or it needs a login: configure one under [[credentials]]"
    if "requested URL returned error: 3" in errors:
        return "the server redirects, and redirects are not followed: use the address that it redirects to"
    return f"cannot be fetched: {_first_error(errors)}"


def _network_config(address: GitAddress, limits: CrawlLimits) -> dict[str, str]:
    """Return git settings: proxy, timeout and permitted IP addresses. Raises SourceError if the host has none."""
    remote = urlsplit(address.remote)
    host, port = remote.hostname or "", remote.port or 443
    proxy = proxy_for(address.remote, limits.http_proxy) or ""
    try:
        resolved = resolve_checked(host, port, allow_private=limits.allow_private)
    except NotWanted as error:
        raise SourceError(f"{address.source}: {error}") from error
    except OSError as error:
        if not (proxy and limits.allow_private is True):
            hint = "" if proxy else proxy_hint(address.remote, limits.http_proxy)
            raise SourceError(f"{address.source}: cannot resolve {host}: {error.strerror or error}{hint}") from error
        resolved = []
    addresses = ",".join(f"[{one}]" if ":" in one else one for one in resolved)
    return {
        "http.proxy": proxy,
        **({"http.curloptResolve": f"{host}:{port}:{quote(addresses, safe='[]:.,')}"} if resolved else {}),
        "http.userAgent": limits.user_agent,
        "http.lowSpeedLimit": "1",
        "http.lowSpeedTime": str(max(1, round(limits.timeout))),
        "protocol.version": "2",
    }


def _path() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}


def read_repository(
    context: SourceContext, sessions: Mapping[str, Session] | None = None, scratch: Path | None = None
) -> Generator[Item, None, None]:
    """Read the files of a commit. A remote repository is first fetched into a temporary folder in `scratch`.

    Raises:
        SourceError: there is no such repository or ref, or it cannot be read.
        CredentialsError: a secret cannot be used.
    """
    source, address = context.source, GitAddress.read(context.source)
    if not version():
        raise SourceError("reading a repository needs the program git: apt-get install git")
    with TemporaryDirectory(prefix="repository-", dir=scratch) as copy:
        if address.is_local:
            folder, ref = Path(address.remote), address.ref
            folder = folder / ".git" if (folder / ".git").exists() else folder
            if _refers_outside(folder):
                raise SourceError(f"{source}: {folder} refers to another repository: name that repository instead")
        else:
            folder, ref = Path(copy), _FETCHED_REF
            session = (sessions or {}).get(origin(address.remote))
            _fetch(address, Git(folder, protocols="https"), context.limits, session)
        git = Git(folder)
        _, commit, _ = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if not commit and not git.run("rev-parse", "--git-dir")[0]:
            raise SourceError(f"{source}: {folder} is not a repository")
        if not commit:
            reason = "no commit yet" if ref == "HEAD" else f"no branch, tag or commit {ref}"
            raise SourceError(f"{source}: the repository has {reason}")
        closed = ("",) if address.is_local and is_below_list(Path(address.remote)) else ()
        try:
            yield from _read_commit(context, git, address.ref, commit, closed)
        except SourceError as error:
            raise SourceError(f"{source}: {error}{'; run git fsck' if address.is_local else ''}") from error


def _refers_outside(folder: Path) -> bool:
    """Return whether a repository uses files or objects of another repository."""
    if not folder.is_dir() or folder.is_symlink():
        return folder.exists()
    objects = [str(folder / "objects")]
    objects += (os.path.join(parent, name) for parent, *names in os.walk(objects[0]) for name in chain(*names))
    names = ("commondir", "objects/info/alternates")
    return any((folder / name).exists() for name in names) or any(map(os.path.islink, objects))


def _read_commit(
    context: SourceContext, git: Git, ref: str, commit: str, closed: Collection[str]
) -> Generator[Item, None, None]:
    """Yield the pages of a commit. Skips files below `closed`, to which access lists outside the repository apply."""
    files = StoredFiles(context, listing(_list_files(git, commit)), root=context.source, ref=ref, closed=closed)

    def read(file: StoredFile) -> Sequence[Item]:
        unchanged = files.unchanged(file)
        if unchanged and not includes.covers(file.name):
            return unchanged
        body = _read_blob(blobs, file)
        if len(body) < _MAX_POINTER_BYTES and body.startswith(_LFS_POINTER):
            return [Skip(files.url(file.path), "a Git LFS pointer")]
        page = files.page(file, body)
        return [includes.resolve(file.name, page) if isinstance(page, Page) else page]

    stored = {file.name: file for file in files.select() if isinstance(file, StoredFile)}
    context.report_due(len(stored))
    with git.start("cat-file", "--batch", stdin=subprocess.PIPE) as blobs:
        readers = dict.fromkeys(stored)
        includes = Includes(readers, lambda name: _read_blob(blobs, stored[name]), context.limits.max_bytes)
        for file in files.select():
            for item in read(file) if isinstance(file, StoredFile) else [file]:
                yield from with_members(item, context.limits.max_bytes, context.no_images)


def _list_files(git: Git, commit: str) -> Iterator[Iterable[StoredFile]]:
    with git.start("ls-tree", "-r", "-l", "-z", "--full-tree", commit, seconds=_RUN_SECONDS) as process:
        output, rest = _pipe(process.stdout), b""
        while piece := output.read(_READ_BYTES):
            *lines, rest = (rest + piece).split(b"\0")
            yield map(_file, lines)
        _, errors = process.communicate()
    if process.returncode == _TIMEOUT_CODE:  # a crafted tree may nest folders endlessly
        raise SourceError(f"its folders cannot be listed within {_RUN_SECONDS:,.0f} seconds")
    if process.returncode:
        raise SourceError(_first_error(errors.decode("utf-8", "replace")))


def _file(line: bytes) -> StoredFile:
    head, _, path = line.partition(b"\t")
    mode, _, blob, size = head.decode("ascii").split()
    return StoredFile(path, int(size) if size.isdigit() else 0, blob, _UNREAD_MODES.get(mode, ""))


def _read_blob(process: "subprocess.Popen[bytes]", file: StoredFile) -> bytes:
    into, out = _pipe(process.stdin), _pipe(process.stdout)
    try:
        into.write(f"{file.version}\n".encode())
        into.flush()
        if out.readline().split()[1:] != [b"blob", str(file.size).encode()]:
            raise SourceError(f"the content of {file.name} is missing or damaged")
        body = out.read(file.size + 1)[:-1]
    except BrokenPipeError:
        body = b""
    if len(body) != file.size:
        raise SourceError(f"the content of {file.name} is damaged")
    return body


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - the process was started with a pipe
    return stream
