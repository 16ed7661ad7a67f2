"""Repositories for tests, and a server of them."""

import os
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.indexer.server import Reply, Route, Site, send, trusted_tls

CLEAN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "t@t.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Repository:
    """A repository with a worktree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, data: str = "") -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=CLEAN, capture_output=True, check=True, input=data.encode()
        )
        return done.stdout.decode().strip()

    def commit(self, *gone: str, **files: str) -> str:
        """Commit these files; in their names, a double underscore is a dot, a single one a slash."""
        return self.commit_files(
            {name.replace("__", ".").replace("_", "/"): text for name, text in files.items()}, gone
        )

    def commit_files(self, files: Mapping[str, str | bytes], gone: tuple[str, ...] = ()) -> str:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        for name in gone:
            (self.folder / name).unlink()
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=more")
        return self.git("rev-parse", "HEAD")

    @property
    def source(self) -> str:
        return f"git+file://{self.folder}"


class GitSite(Site):
    """Serves the repositories below a folder over TLS, to those with the right header if one is asked for."""

    def __init__(self, folder: Path, tls: ssl.SSLContext) -> None:
        super().__init__(tls=tls)
        self.wanted = ""  # Authorization
        self.sent: list[str] = []  # values of it that came
        site = self

        class Backend(dict[str, Route]):
            def get(self, key: str, default: object = None) -> Route:  # type: ignore[override]
                return dict.get(self, key) or answer

        def answer(handler: BaseHTTPRequestHandler) -> None:
            given = handler.headers.get("Authorization", "")
            site.sent.append(given)
            if site.wanted and given != site.wanted:
                send(handler, Reply(b"no", 401, {"WWW-Authenticate": "Basic"}))
                return
            path, _, query = handler.path.partition("?")
            variables = {
                "GIT_PROJECT_ROOT": str(folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
                "REQUEST_METHOD": handler.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            }
            body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
            done = subprocess.run(
                ["git", "http-backend"], input=body, env=CLEAN | variables, capture_output=True, check=True
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            send(handler, Reply(content, int(headers.pop("Status", "200").split()[0]), headers))

        self.routes = Backend()

    @property
    def source(self) -> str:
        return f"git+{self.url}"


@contextmanager
def serving(folder: Path, private: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[GitSite]:
    """Serve the repositories of a folder as `localhost` and by other names; `private` is for what is trusted here."""
    site = GitSite(folder, trusted_tls(private, monkeypatch, "localhost", *names))
    try:
        yield site
    finally:
        site.close()
