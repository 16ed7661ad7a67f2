"""Runs `git` so that it does what it is asked and nothing else: without the user's settings, hooks or prompts.

What it is told, secrets among it, is in a file that has no name: neither arguments nor the environment show it.
"""

import os
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import certifi

from indexer.decoding import one_line
from indexer.errors import SourceError

_LEAST = (2, 37)  # knows http.curloptResolve, which holds it to addresses that have been checked
_BLOCK = 512  # bytes that `ulimit -f` counts in
_ALWAYS = {
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
Config = Mapping[str, str | Sequence[str]]


def version() -> str:
    """Return the version of git on this machine; empty where there is none, or it does not start."""
    try:
        done = subprocess.run(["git", "version"], capture_output=True, text=True, check=True, timeout=10, env=_path())
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.removeprefix("git version ").strip()


def require(*, remote: bool) -> None:
    """Raise SourceError unless git is there, and for remote repositories new enough."""
    found = version()
    if not found:
        raise SourceError("reading a repository needs the program git: apt-get install git")
    numbers = tuple(int(number) for number in found.split(".")[:2] if number.isdigit())
    if remote and numbers < _LEAST:
        raise SourceError(f"git {found} is too old for git+https: it needs {'.'.join(map(str, _LEAST))}")


@dataclass(frozen=True, slots=True)
class Git:
    """The program, for one repository."""

    folder: Path  # of the repository, as --git-dir
    protocols: str = "none"  # that it may speak: none, or https

    @contextmanager
    def start(
        self, *arguments: str, config: Config | None = None, most: int | None = None, stdin: int = subprocess.DEVNULL
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command, whose output is to be read; it is killed at the end.

        Args:
            arguments: of git.
            config: values by name, which nobody else sees.
            most: bytes of the largest file that it may write.
            stdin: as for Popen.

        Raises:
            SourceError: it cannot be started.
        """
        lines = [
            f"{_name(name)} = {_quoted(value)}\n"
            for name, given in {**_ALWAYS, **(config or {})}.items()
            for value in ([given] if isinstance(given, str) else given)
        ]
        handle = os.memfd_create("git-config")
        try:
            os.write(handle, "".join(lines).encode("utf-8", "surrogateescape"))
            command = ["git", f"--git-dir={self.folder}", *arguments]
            if most is not None:
                command = ["sh", "-c", 'ulimit -f "$0" && exec "$@"', str(-(-most // _BLOCK)), *command]
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(handle),
                pass_fds=[handle],
                start_new_session=True,  # so that what it starts ends with it
            )
        except OSError as error:
            raise SourceError(f"cannot start git: {error.strerror}") from error
        finally:
            os.close(handle)
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(
        self, *arguments: str, config: Config | None = None, most: int | None = None, seconds: float = 60.0
    ) -> tuple[bool, str, str]:
        """Run a command to its end; return whether it went well, its output, and what it says otherwise.

        Raises SourceError: it takes longer than these seconds, or cannot be started.
        """
        with self.start(*arguments, config=config, most=most) as process:
            try:
                out, said = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise SourceError(f"git {arguments[0]} did not end within {seconds:,.0f} seconds") from error
        return process.returncode == 0, out.decode("utf-8", "replace").strip(), said.decode("utf-8", "replace")

    def _environment(self, config: int) -> dict[str, str]:
        default = ssl.get_default_verify_paths()  # which know SSL_CERT_FILE
        authorities = default.cafile or certifi.where()
        return {
            **_path(),
            "HOME": "/nonexistent",  # where curl would look for a netrc
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": f"/proc/self/fd/{config}",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": self.protocols,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSL_CAINFO": authorities,
        }


def _path() -> dict[str, str]:
    """All that git takes from the environment of this process."""
    return {"PATH": os.environ.get("PATH", os.defpath)}


def complaint(said: str) -> str:
    """Return what git says is wrong, in one line: the first that does, without the word before it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines or ["it does not say why"]
    return one_line(telling[0].partition(": ")[2] if telling[0].startswith(("fatal:", "error:")) else telling[-1])


def _name(name: str) -> str:
    """A setting's name as a file of settings has it: a section, and what is in it."""
    section, _, key = name.rpartition(".")
    return f"[{section}]\n\t{key}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
