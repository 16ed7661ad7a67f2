"""Cookies of one origin: those of a cookies.txt, and those that the site sets. They are never written to disk.

`http.cookiejar` has the rules for hosts, paths, Secure and age; a jar for each origin adds scheme and port. It reads
files in Netscape format too, but shows a line that it cannot read, and refuses what browsers' extensions write.
"""

from collections.abc import Iterable
from email.message import Message
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit
from urllib.request import Request

from indexer.credentials import Place
from indexer.errors import CredentialsError

_MOST, _LONGEST = 180, 4_096  # cookies of an origin, and characters of one, as browsers have it
_HTTP_ONLY = "#HttpOnly_"
_FIELDS = 7  # domain, whether for hosts below it, path, whether for TLS only, expiry, name, value


class Cookies:
    """A jar for one origin. Safe to share between threads."""

    def __init__(self, site: str) -> None:
        """Take the origin."""
        self._site = site
        self._jar = CookieJar(_Policy(self))

    def __len__(self) -> int:
        return len(self._jar)

    def load(self, place: Place, text: str) -> None:
        """Add those of a cookies.txt that belong to the origin.

        Raises CredentialsError: it is none, or has none that is still valid. No error quotes a line.
        """
        host = urlsplit(self._site).hostname or ""
        for number, line in enumerate(text.split("\n"), start=1):  # a value may hold what else ends lines
            line = line.removesuffix("\r").removeprefix(_HTTP_ONLY)
            if not line.strip() or line.startswith("#"):
                continue
            fields = line.split("\t")
            if len(fields) != _FIELDS or not fields[4].partition(".")[0].lstrip("-").isdecimal():
                raise CredentialsError(
                    f"{place}, line {number}: not a cookie in Netscape format, which has {_FIELDS} fields between tabs"
                )
            domain, below, path, secure, expires, name, value = fields
            bare = domain.lstrip(".").lower()
            if host != bare and not (below == "TRUE" and host.endswith(f".{bare}")):
                continue
            ends = int(float(expires)) or None  # 0: with the browser's session
            self._jar.set_cookie(_cookie(host, path, name, value, secure=secure == "TRUE", expires=ends))
        self._jar.clear_expired_cookies()
        if not len(self._jar):
            raise CredentialsError(f"{place} has no valid cookie for {self._site}: export it again, or check the host")

    def take(self, url: str, lines: Iterable[str]) -> None:
        """Keep what the Set-Cookie headers of an answer say, as far as they may."""
        message = Message()
        for line in lines:
            message["Set-Cookie"] = line
        if message:
            self._jar.extract_cookies(_Answer(message), _request(url))  # type: ignore[arg-type]  # all that it asks for

    def header(self, url: str) -> str:
        """Return what is sent to an address of the origin; empty if nothing is."""
        request = _request(url)
        self._jar.add_cookie_header(request)
        return request.get_header("Cookie") or ""

    def has(self, name: str) -> bool:
        """Return whether there is a cookie of this name."""
        return any(cookie.name == name for cookie in self._jar)

    def values(self) -> list[str]:
        """Return the values of all."""
        return [cookie.value for cookie in self._jar if cookie.value]


class _Answer:
    """As much of an answer as a jar looks at."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def info(self) -> Message:
        return self._message


class _Policy(DefaultCookiePolicy):
    def __init__(self, cookies: Cookies) -> None:
        super().__init__()
        self._cookies = cookies

    def set_ok(self, cookie: Cookie, request: Request) -> bool:
        short = len(cookie.name) + len(cookie.value or "") <= _LONGEST
        room = len(self._cookies) < _MOST or self._cookies.has(cookie.name)
        return short and room and super().set_ok(cookie, request)


def _request(url: str) -> Request:
    return Request(url)  # noqa: S310 - asks for nothing: a jar takes addresses in this form


def _cookie(host: str, path: str, name: str, value: str, *, secure: bool, expires: int | None) -> Cookie:
    host = f"[{host}]" if ":" in host else host
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=host if "." in host else f"{host}.local",  # as the jar calls hosts without a dot
        domain_specified=False,
        domain_initial_dot=False,
        path=path,
        path_specified=True,
        secure=secure,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )
