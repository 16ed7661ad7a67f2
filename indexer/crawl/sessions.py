"""Sessions with origins for the length of a build: headers and cookies of requests, and answers without secrets.

One page cannot tell whether a session has ended: any may be for other users, or hold a form for a password. So a few
that were read are kept as witnesses: one that strangers are refused, and the session is not, shows that it lives.
"""

import base64
import html
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from email.message import Message
from http.cookiejar import Cookie, CookieJar
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit
from urllib.request import Request

from indexer.credentials import Credential, Place
from indexer.errors import CredentialsError
from indexer.urls import origin

_MAX_COOKIES, _MAX_COOKIE = 180, 4_096  # cookies of an origin, and characters of one, as in browsers
_HTTP_ONLY = "#HttpOnly_"
_COOKIE_FIELDS = 7  # domain, whether subdomains too, path, whether TLS only, expiry, name, value
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]+")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_MIN_SECRET, _MIN_COOKIE = 8, 16  # characters; shorter secrets may be words, and are not searched in answers
_MAX_VALUES = 200  # of cookies that are taken out of answers, the newest; some sites set a new one with each answer
_WITNESSES = 3
# a step of a path, or a word of a query: logout, sign_out, Logout.action, Special:UserLogout
_LOGOUT = re.compile(r"(?:special:)?(?:user)?[-_]?(?:log|sign)[-_]?(?:out|off)(?:\.\w+)?", re.IGNORECASE)


class Sessions:
    """The sessions of a build, by origin."""

    def __init__(self, credentials: Iterable[Credential] = ()) -> None:
        self._by_origin = {credential.origin: Session(credential) for credential in credentials}

    def of(self, url: str) -> "Session | None":
        """Return the session with the origin of a normalised address, None where there are no credentials."""
        return self._by_origin.get(origin(url))


class Session:
    """A session with one origin. Safe to share between threads."""

    def __init__(self, credential: Credential) -> None:
        self.kinds = credential.kinds()  # empty: only cookies that the site sets are sent
        self._credential = credential
        self._lock = threading.Lock()
        self._headers: dict[str, str] | None = None  # None: no request yet
        self._cookies = CookieJar()
        self._redaction = Redaction()
        self.redact = self._redaction.redact  # returns an answer without the secrets that the origin was sent
        self._witnesses: deque[str] = deque(maxlen=_WITNESSES)
        self._proven = ""  # a witness that strangers are refused

    def headers(self, url: str) -> dict[str, str]:
        """Return the headers of a request to an address of the origin. Raises CredentialsError."""
        with self._lock:
            if self._headers is None:
                self._headers = headers_of(self._credential, self._redaction)
                load_cookies(self._credential, self._cookies)
                self._redaction.learn((), [cookie.value or "" for cookie in self._cookies])
        request = Request(url)  # noqa: S310 - nothing is fetched: a jar takes addresses in this form
        self._cookies.add_cookie_header(request)
        cookie = request.get_header("Cookie")
        return {**self._headers, "Cookie": cookie} if cookie else self._headers

    def take_cookies(self, url: str, lines: Iterable[str]) -> None:
        """Store the cookies of Set-Cookie headers, as far as the origin may set them."""
        message = Message()
        for line in lines:
            if len(line) <= _MAX_COOKIE:
                message["Set-Cookie"] = line
        if message and len(self._cookies) < _MAX_COOKIES:
            answer: Any = SimpleNamespace(info=lambda: message)
            self._cookies.extract_cookies(answer, Request(url))  # noqa: S310 - as above
            self._redaction.learn((), [cookie.value or "" for cookie in self._cookies])

    def refusal(self, url: str) -> str | None:
        """Return why an address is not fetched with the session: it would end it."""
        parts = urlsplit(url)
        words = [*parts.path.split("/"), *(word for pair in parse_qsl(parts.query) for word in pair)]
        return "a link that logs out" if self.kinds and any(map(_LOGOUT.fullmatch, words)) else None

    def add_witness(self, url: str) -> None:
        """Remember a page that was read with the session."""
        if url not in self._witnesses:
            self._witnesses.append(url)

    def is_alive(self, is_refused: Callable[[str, bool], bool]) -> bool | None:
        """Return whether a page that strangers are refused can still be read; None if no such page is known.

        `is_refused` fetches an address, as a stranger if its second argument says so. Its errors are passed on.
        """
        for url in [self._proven] if self._proven else [*self._witnesses]:
            if self._proven or is_refused(url, True):
                self._proven = url
                return not is_refused(url, False)
        return None


class Redaction:
    """Takes secrets out of answers: a site may repeat anything that it was sent. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: set[str] = set()
        self._cookies: dict[str, None] = {}  # the newest last
        self._spellings: tuple[bytes, ...] = ()  # the longest first

    def learn(self, secrets: Iterable[str], cookies: Iterable[str]) -> None:
        """Add secrets, and values of cookies; earlier ones stay, as answers to earlier requests may still come."""
        with self._lock:
            before = {*self._secrets, *self._cookies}
            self._secrets.update(secret for secret in secrets if len(secret) >= _MIN_SECRET)
            for value in cookies:
                if len(value) >= _MIN_COOKIE:
                    self._cookies.pop(value, None)
                    self._cookies[value] = None
            for value in [*self._cookies][:-_MAX_VALUES]:
                del self._cookies[value]
            if before != (known := {*self._secrets, *self._cookies}):
                spellings = {text.encode() for secret in known for text in _spellings(secret)}
                self._spellings = tuple(sorted(spellings, key=len, reverse=True))

    def redact(self, text: bytes) -> bytes:
        """Return a text without the secrets."""
        for secret in self._spellings:
            text = text.replace(secret, b"")
        return text


def _spellings(secret: str) -> tuple[str, ...]:
    """Return a secret as it is written in text, addresses, forms, HTML and JSON."""
    return secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret), json.dumps(secret)[1:-1]


def headers_of(credential: Credential, redaction: Redaction) -> dict[str, str]:
    """Read the secrets of a credential and return them as headers. Raises CredentialsError, which names the origin."""
    with _naming(credential):
        headers = {name: _read(place, _HEADER_VALUE) for name, place in credential.headers.items()}
        secrets = [*headers.values(), *(value.rpartition(" ")[2] for value in headers.values())]  # Bearer TOKEN
        if credential.bearer is not None:
            secrets.append(_read(credential.bearer, _TOKEN))
            headers["Authorization"] = f"Bearer {secrets[-1]}"
        if (basic := credential.basic) is not None:
            user = basic.user if isinstance(basic.user, str) else basic.user.read()
            password = basic.password.read()
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            secrets += [password, pair] if basic.user == user else [user, password, pair]
            headers["Authorization"] = f"Basic {pair}"
    redaction.learn(secrets, ())
    return headers


def load_cookies(credential: Credential, jar: CookieJar) -> None:
    """Add the cookies of a credential's cookies.txt that belong to its origin.

    Raises CredentialsError, which quotes no line: the file has no valid cookie for the origin, or is of another format.
    """
    place, host = credential.cookies, urlsplit(credential.origin).hostname or ""
    if place is None:
        return
    with _naming(credential):
        for number, line in enumerate(place.read().split("\n"), start=1):  # other line ends may be part of a value
            line = line.removesuffix("\r").removeprefix(_HTTP_ONLY)
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.split("\t")
            if len(fields) != _COOKIE_FIELDS or not fields[4].partition(".")[0].lstrip("-").isdecimal():
                wanted = f"a cookie in Netscape format, which has {_COOKIE_FIELDS} fields between tabs"
                raise CredentialsError(f"{place}, line {number}: not {wanted}")
            domain, subdomains, path, secure, expiry, name, value = fields
            domain = domain.lstrip(".").lower()
            if host == domain or (subdomains == "TRUE" and host.endswith(f".{domain}")):
                owner = f"[{host}]" if ":" in host else host
                owner = owner if "." in owner else f"{owner}.local"  # as the jar names hosts without a dot
                expires = int(float(expiry)) or None  # 0: the end of the browser's session
                where, tls, no_comment = (owner, False, False, path, True), secure == "TRUE", (None, None)
                jar.set_cookie(Cookie(0, name, value, None, False, *where, tls, expires, not expires, *no_comment, {}))
        jar.clear_expired_cookies()
        if not len(jar):
            raise CredentialsError(
                f"{place} has no valid cookie for {credential.origin}: export it again, or check the host"
            )


def check_credential(credential: Credential) -> None:
    """Raise CredentialsError unless all secrets of a credential can be read and sent; its site is asked nothing."""
    headers_of(credential, Redaction())
    load_cookies(credential, CookieJar())


@contextmanager
def _naming(credential: Credential) -> Iterator[None]:
    """Name the origin in errors about its credentials."""
    try:
        yield
    except CredentialsError as error:
        raise CredentialsError(f"credentials of {credential.origin}: {error}") from None


def _read(place: Place, allowed: re.Pattern[str]) -> str:
    text = place.read()
    if not allowed.fullmatch(text):
        raise CredentialsError(f"{place} has characters that no header can have")
    return text
