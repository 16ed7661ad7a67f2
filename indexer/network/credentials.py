"""Manage the credentials that a user configures for origins, and login sessions with these origins during a build.

A credential names files and environment variables that contain secrets. The secrets are read just before they are sent,
and are redacted in responses.

A refused page does not prove that a session has ended: the page may be for other users only. Therefore the session
stores a few witnesses, which are pages that it could read. The session has ended if a witness can be read neither with
the credentials nor without them.
"""

import base64
import html
import json
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.cookiejar import Cookie, CookieJar
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit
from urllib.request import Request

from indexer.errors import ConfigError, CredentialsError
from indexer.network.urls import has_user, is_loopback, normalise, origin

_MAX_BYTES = 1_000_000
_MAX_COOKIES, _MAX_COOKIE_CHARS = 180, 4_096
_HTTP_ONLY = "#HttpOnly_"
_COOKIE_FIELDS = 7
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]+")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_MIN_SECRET_CHARS, _MIN_COOKIE_CHARS = 8, 16  # shorter values are not redacted, because they may be words
_MAX_COOKIE_VALUES = 200
_MAX_WITNESSES = 3
# Matches path segments and query words that log out, such as logout, sign_out, Logout.action and Special:UserLogout.
_LOGOUT = re.compile(r"(?:special:)?(?:user)?[-_]?(?:log|sign)[-_]?(?:out|off)(?:\.\w+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InEnvironment:
    """An environment variable that contains a secret."""

    name: str

    def read(self) -> str:
        """Return the secret. Raises CredentialsError if the variable is not set."""
        text = os.environ.get(self.name, "").strip("\r\n")
        if not text:
            raise CredentialsError(f"the environment variable {self.name} is not set")
        return text

    def __str__(self) -> str:
        return f"variable {self.name}"


@dataclass(frozen=True, slots=True)
class InFile:
    """A file that contains a secret. Its owner must be this user or root, and only the owner may read it."""

    path: Path

    def read(self) -> str:
        """Return the secret. Raises CredentialsError if the file cannot be read or others can read it."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # opening a pipe must not block
            with open(handle, "rb") as file:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise CredentialsError(f"{self.path} is not a file")
                if status.st_uid not in (os.geteuid(), 0):
                    owner = f"belongs to user {status.st_uid}"
                    raise CredentialsError(f"{self.path} {owner}: a secret must be in a file that you or root own")
                if status.st_mode & 0o077:
                    mode = f"{status.st_mode & 0o777:o}"
                    raise CredentialsError(f"{self.path} can be read by others (mode {mode}): chmod 600 it")
                text = file.read(_MAX_BYTES + 1).decode("utf-8-sig").strip("\r\n")
        except OSError as error:
            raise CredentialsError(f"{self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise CredentialsError(f"{self.path} is not text in UTF-8") from None
        if not text or len(text) > _MAX_BYTES:
            raise CredentialsError(f"{self.path} is {f'larger than {_MAX_BYTES:,} bytes' if text else 'empty'}")
        return text

    def __str__(self) -> str:
        return f"file {self.path}"


SecretPlace = InEnvironment | InFile


@dataclass(frozen=True, slots=True)
class Basic:
    """User name and password of HTTP's basic authentication."""

    user: str
    password: SecretPlace


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials for one origin. If there are no secrets, only cookies that the site has set are sent."""

    origin: str
    bearer: SecretPlace | None = None
    basic: Basic | None = None
    headers: Mapping[str, SecretPlace] = field(default_factory=dict)
    cookies: SecretPlace | None = None

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of secrets in this credential, such as "bearer token" and "cookies"."""
        values = (self.bearer, self.basic, self.headers, self.cookies)
        names = ("bearer token", "user name and password", "headers", "cookies")
        return tuple(name for name, value in zip(names, values, strict=True) if value)


def credential_for(source: str, credentials: Iterable[Credential]) -> Credential | None:
    """Return the credential for the origin of a source, or for the same host over https, or None if neither exists."""
    url = normalise(source.removeprefix("git+"), "") if "://" in source else None
    host = urlsplit(url).netloc if url else ""
    origins = (origin(url), f"https://{host}") if url else ()
    return next((credential for credential in credentials if credential.origin in origins), None)


def parse_origin(text: str) -> str:
    """Normalise an origin that a user has configured, such as `https://wiki.example.org:8443`.

    Raises ConfigError if the text has more than scheme, host and port, or uses http for a host other than this machine.
    """
    url = normalise(text, "")
    if url is None or urlsplit(url).path != "/" or "?" in text or "#" in text or has_user(text):
        raise ConfigError("origin must be scheme, host and optionally a port, such as https://wiki.example.org:8443")
    if not url.startswith("https:") and not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(f"{origin(url)}: secrets are sent only over https, or to this machine")
    return origin(url)


class Session:
    """A login session with one origin. Threads may share it."""

    def __init__(self, credential: Credential) -> None:
        self.kinds = credential.kinds()
        self._credential = credential
        self._lock = threading.Lock()
        self._headers: dict[str, str] | None = None
        self._cookies = CookieJar()
        self._secrets: set[str] = set()
        self._cookie_values: dict[str, None] = {}
        self._redacted_texts: tuple[bytes, ...] = ()
        self._witnesses: deque[str] = deque(maxlen=_MAX_WITNESSES)
        self._certain_witness = ""

    def headers(self, url: str) -> dict[str, str]:
        """Return the secret headers and cookies for a request. Raises CredentialsError if a secret cannot be read."""
        with self._lock:
            if self._headers is None:
                try:
                    self._headers = self._read_headers()
                    self._load_cookies()
                except CredentialsError as error:
                    raise CredentialsError(f"credentials of {self._credential.origin}: {error}") from None
                self._redact_cookies()
        request = Request(url)  # noqa: S310 - not sent: a cookie jar reads the address from a request
        self._cookies.add_cookie_header(request)
        cookie = request.get_header("Cookie")
        return {**self._headers, "Cookie": cookie} if cookie else self._headers

    def store_cookies(self, url: str, lines: Iterable[str]) -> None:
        """Store the cookies in the Set-Cookie headers of a response, except cookies that `url` must not set."""
        message = Message()
        for line in islice(lines, _MAX_COOKIES):
            if len(line) <= _MAX_COOKIE_CHARS:
                message["Set-Cookie"] = line
        if message and len(self._cookies) < _MAX_COOKIES:
            answer: Any = SimpleNamespace(info=lambda: message)
            with self._lock:
                self._cookies.extract_cookies(answer, Request(url))  # noqa: S310 - as above
                self._redact_cookies()

    def redact(self, text: bytes) -> bytes:
        """Remove the secrets of the session from a response, because a page may repeat headers of the request."""
        for secret in self._redacted_texts:
            text = text.replace(secret, b"")
        return text

    def refusal(self, url: str) -> str | None:
        """Return a reason to skip an address if fetching it would end the session, or None."""
        url_parts = urlsplit(url)
        words = [*url_parts.path.split("/"), *(word for pair in parse_qsl(url_parts.query) for word in pair)]
        return "a link that logs out" if self.kinds and any(map(_LOGOUT.fullmatch, words)) else None

    def add_witness(self, url: str) -> None:
        """Store the address of a page that this session could read. `is_alive` tries the last few of these pages."""
        if url not in self._witnesses:
            self._witnesses.append(url)

    def is_alive(self, is_refused: Callable[[str, bool], bool]) -> bool | None:
        """Return whether the session is still valid, or None if no stored page requires a login.

        `is_refused(url, is_anonymous)` requests an address, without credentials if `is_anonymous` is true, and returns
        whether the site refuses the request.
        """
        for url in [self._certain_witness] if self._certain_witness else [*self._witnesses]:
            if self._certain_witness or is_refused(url, True):
                self._certain_witness = url
                return not is_refused(url, False)
        return None

    def _read_headers(self) -> dict[str, str]:
        credential = self._credential
        headers = {name: _read_secret(place, _HEADER_VALUE) for name, place in credential.headers.items()}
        secrets = [*headers.values(), *(value.rpartition(" ")[2] for value in headers.values())]
        if credential.bearer is not None:
            secrets.append(_read_secret(credential.bearer, _TOKEN))
            headers["Authorization"] = f"Bearer {secrets[-1]}"
        if (basic := credential.basic) is not None:
            password = basic.password.read()
            pair = base64.b64encode(f"{basic.user}:{password}".encode()).decode()
            secrets += [password, pair]
            headers["Authorization"] = f"Basic {pair}"
        self._secrets.update(secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS)
        return headers

    def _load_cookies(self) -> None:
        """Load cookies from a cookies.txt file. Raises CredentialsError, with a message that quotes no values."""
        place, host = self._credential.cookies, urlsplit(self._credential.origin).hostname or ""
        if place is None:
            return
        for number, line in enumerate(place.read().split("\n"), start=1):  # splitlines might also split cookie values
            line = line.removesuffix("\r").removeprefix(_HTTP_ONLY)
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.split("\t")
            if len(fields) != _COOKIE_FIELDS or not fields[4].partition(".")[0].lstrip("-").isdecimal():
                expected = f"a cookie in Netscape format, which has {_COOKIE_FIELDS} tab-separated fields"
                raise CredentialsError(f"{place}, line {number}: not {expected}")
            domain, subdomains, path, secure, expiry, name, value = fields
            domain = domain.lstrip(".").lower()
            if host == domain or (subdomains == "TRUE" and host.endswith(f".{domain}")):
                owner = f"[{host}]" if ":" in host else host
                owner = owner if "." in owner else f"{owner}.local"  # cookie jars append .local to hosts without a dot
                expires = int(float(expiry)) or None
                where, tls, no_comment = (owner, False, False, path, True), secure == "TRUE", (None, None)
                cookie = Cookie(0, name, value, None, False, *where, tls, expires, not expires, *no_comment, {})
                self._cookies.set_cookie(cookie)
        self._cookies.clear_expired_cookies()
        if not len(self._cookies):
            lacks = f"{place} has no valid cookie for {self._credential.origin}"
            raise CredentialsError(f"{lacks}: export the cookies again, or check the host")

    def _redact_cookies(self) -> None:
        """Redact the current cookie values, and still redact earlier values, because pages may still contain them."""
        for cookie in self._cookies:
            if cookie.value and len(cookie.value) >= _MIN_COOKIE_CHARS:
                self._cookie_values.pop(cookie.value, None)
                self._cookie_values[cookie.value] = None
        self._cookie_values = dict.fromkeys([*self._cookie_values][-_MAX_COOKIE_VALUES:])
        spellings = {text.encode() for secret in (*self._secrets, *self._cookie_values) for text in _spellings(secret)}
        self._redacted_texts = tuple(sorted(spellings, key=len, reverse=True))


def _spellings(secret: str) -> tuple[str, ...]:
    return secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret), json.dumps(secret)[1:-1]


def _read_secret(place: SecretPlace, allowed: re.Pattern[str]) -> str:
    text = place.read()
    if not allowed.fullmatch(text):
        raise CredentialsError(f"{place} has characters that a header must not contain")
    return text
