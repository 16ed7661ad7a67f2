"""Credentials of origins as a user describes them: where each secret is, and never the secret itself.

Secrets are read just before they are used, by `indexer.crawl.sessions`.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from indexer.errors import ConfigError, CredentialsError
from indexer.urls import has_user, is_loopback, normalise, origin

_MAX_BYTES = 1_000_000  # of a file with a secret; a cookies.txt may be a whole browser's


@dataclass(frozen=True, slots=True)
class InEnvironment:
    """A variable of the environment that holds a secret."""

    name: str

    def read(self) -> str:
        """Return the secret. Raises CredentialsError."""
        text = os.environ.get(self.name, "").strip("\r\n")
        if not text:
            raise CredentialsError(f"the environment variable {self.name} is not set")
        return text

    def __str__(self) -> str:
        return f"variable {self.name}"


@dataclass(frozen=True, slots=True)
class InFile:
    """A file that holds a secret and that only its owner may read: this user, or root."""

    path: Path

    def read(self) -> str:
        """Return the secret. Raises CredentialsError."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not block
            with open(handle, "rb") as file:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise CredentialsError(f"{self.path} is not a file")
                if status.st_uid not in (os.geteuid(), 0):
                    owner = f"belongs to user {status.st_uid}"
                    raise CredentialsError(f"{self.path} {owner}: a secret must be in a file of your own, or root's")
                if status.st_mode & 0o077:
                    mode = f"{status.st_mode & 0o777:o}"
                    raise CredentialsError(f"{self.path} may be read by others (mode {mode}): chmod 600 it")
                text = file.read(_MAX_BYTES + 1).decode("utf-8-sig").strip("\r\n")
        except OSError as error:
            raise CredentialsError(f"{self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise CredentialsError(f"{self.path} is not text in UTF-8") from None
        if not text or len(text) > _MAX_BYTES:
            raise CredentialsError(f"{self.path} is {'larger than a secret can be' if text else 'empty'}")
        return text

    def __str__(self) -> str:
        return f"file {self.path}"


Place = InEnvironment | InFile


@dataclass(frozen=True, slots=True)
class Basic:
    """User name and password of HTTP's basic authentication."""

    user: str | Place
    password: Place


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials of one origin; with nothing but the origin, only cookies that the site sets are sent back."""

    origin: str  # as `indexer.urls.origin` returns it
    bearer: Place | None = None
    basic: Basic | None = None
    headers: Mapping[str, Place] = field(default_factory=dict)
    cookies: Place | None = None  # of a cookies.txt

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of secrets in words, without a secret."""
        values = (self.bearer, self.basic, self.headers, self.cookies)
        names = ("bearer token", "user name and password", "headers", "cookies")
        return tuple(name for name, value in zip(names, values, strict=True) if value)


def credential_for(source: str, credentials: Iterable[Credential]) -> Credential | None:
    """Return the credential of a source's origin, or of the same host over https."""
    url = normalise(source.removeprefix("git+"), "") if "://" in source else None
    host = urlsplit(url).netloc if url else ""
    origins = (origin(url), f"https://{host}") if url else ()
    return next((credential for credential in credentials if credential.origin in origins), None)


def site_of(text: str) -> str:
    """Return the origin that a user names.

    Raises ConfigError unless it is https, or this machine, and no more than scheme, host and port.
    """
    url = normalise(text, "")
    if url is None or urlsplit(url).path != "/" or "?" in text or "#" in text or has_user(text):
        raise ConfigError("origin must be scheme, host and port, such as https://wiki.example.org")
    if not url.startswith("https:") and not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(f"{origin(url)}: secrets are sent only over https, or to this machine")
    return origin(url)
