"""What a site is asked with, as a user describes it: where each secret is, and never what it is.

Secrets are read just before they are used, by `indexer.crawl.access`. A description may be shown and kept anywhere.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from indexer.errors import ConfigError, CredentialsError
from indexer.urls import has_user, is_loopback, normalise, origin

_MOST = 1_000_000  # bytes of a file with a secret: a cookies.txt may be a browser's


class Secret:
    """A text that is shown only to who asks for it by `reveal`."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret stays in its process")


@dataclass(frozen=True, slots=True)
class InEnvironment:
    """A variable of the environment."""

    name: str

    def read(self) -> Secret:
        """Return its value. Raises CredentialsError."""
        text = os.environ.get(self.name, "").strip("\r\n")
        if not text:
            raise CredentialsError(f"the environment variable {self.name} is not set")
        return Secret(text)

    def __str__(self) -> str:
        return f"variable {self.name}"


@dataclass(frozen=True, slots=True)
class InFile:
    """A file that only its owner may read: this user, or root."""

    path: Path

    def read(self) -> Secret:
        """Return its text. Raises CredentialsError."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # not held up by a pipe
            with open(handle, "rb") as file:
                _check_private(self.path, os.fstat(handle))
                text = file.read(_MOST + 1).decode("utf-8-sig").strip("\r\n")  # editors of Windows begin with a mark
        except OSError as error:
            raise CredentialsError(f"{self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise CredentialsError(f"{self.path} is not text in UTF-8") from None
        if not text or len(text) > _MOST:
            raise CredentialsError(f"{self.path} is {'larger than a secret can be' if text else 'empty'}")
        return Secret(text)

    def __str__(self) -> str:
        return f"file {self.path}"


Place = InEnvironment | InFile


@dataclass(frozen=True, slots=True)
class Basic:
    """User name and password of HTTP's basic authentication."""

    user: str | Place
    password: Place


@dataclass(frozen=True, slots=True)
class Success:
    """The signs of a login that worked: all that are given."""

    cookie: str = ""  # name of a cookie that the site sets
    text: str = ""  # on the page that comes after the form
    path: str = ""  # how the path of that page begins


@dataclass(frozen=True, slots=True)
class Login:
    """A form to fill in."""

    url: str  # normalised, on the origin
    fields: Mapping[str, str | Place]  # by name: a text that is no secret, or the place of one
    success: Success


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that this side shows, in PEM."""

    file: Path
    key: Path | None = None  # None: it is in the same file
    key_password: Place | None = None


@dataclass(frozen=True, slots=True)
class Credential:
    """All that one origin is asked with. Without anything but the origin, only the cookies that the site sets."""

    origin: str  # as `indexer.urls.origin` gives it
    bearer: Place | None = None
    basic: Basic | None = None
    headers: Mapping[str, Place] = field(default_factory=dict)
    cookies: Place | None = None  # of a cookies.txt
    login: Login | None = None
    client_certificate: ClientCertificate | None = None

    def kinds(self) -> tuple[str, ...]:
        """Return what there is, in words: for a person, and without a secret."""
        found = {
            "bearer token": self.bearer,
            "user name and password": self.basic,
            "headers": self.headers,
            "cookies": self.cookies,
            "login": self.login,
            "client certificate": self.client_certificate,
        }
        return tuple(kind for kind, there in found.items() if there)

    def places(self) -> tuple[Place, ...]:
        """Return where its secrets are, those of `client_certificate` but for its files."""
        found: list[object] = [self.bearer, self.cookies, *self.headers.values()]
        found += [self.basic.user, self.basic.password] if self.basic else []
        found += self.login.fields.values() if self.login else []
        found += [self.client_certificate.key_password] if self.client_certificate else []
        return tuple(place for place in found if isinstance(place, Place))


def credential_for(source: str, credentials: Iterable[Credential]) -> Credential | None:
    """Return the credential that a source is read with: that of its origin, or of the same host over https."""
    url = normalise(source.removeprefix("git+"), "") if "://" in source else None
    host = urlsplit(url).netloc if url else ""
    origins = (origin(url), f"https://{host}") if url else ()
    return next((credential for credential in credentials if credential.origin in origins), None)


def site_of(text: str) -> str:
    """Return the origin that a user names, if secrets may be sent there.

    Raises ConfigError unless it is https, or this machine, and no more than scheme, host and port.
    """
    url = normalise(text, "")
    if url is None or urlsplit(url).path != "/" or "?" in text or "#" in text or has_user(text):
        raise ConfigError("origin must be scheme, host and port, such as https://wiki.example.org")
    if not url.startswith("https:") and not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(f"{origin(url)}: secrets are sent only over https, or to this machine")
    return origin(url)


def check_private_file(path: Path) -> None:
    """Raise CredentialsError unless a file is there and only its owner may read it: this user, or root."""
    try:
        _check_private(path, path.stat())
    except OSError as error:
        raise CredentialsError(f"{path} cannot be read: {error.strerror}") from None


def _check_private(path: Path, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise CredentialsError(f"{path} is not a file")
    if info.st_uid not in (os.geteuid(), 0):
        raise CredentialsError(
            f"{path} belongs to user {info.st_uid}: a secret must be in a file of your own, or root's"
        )
    if info.st_mode & 0o077:
        raise CredentialsError(f"{path} may be read by others (mode {info.st_mode & 0o777:o}): chmod 600 it")
