"""The session with an origin, for the length of a build: what requests are sent with, and whether that still holds.

Whether a session has ended cannot be told from one page: any may be for others, or be the login page itself. So some
pages that were read are kept as witnesses: one that a stranger is refused, and we are given, shows that it lives.
"""

import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, urlsplit

from indexer.crawl.access.certificate import tls_context
from indexer.crawl.access.cookies import Cookies
from indexer.crawl.access.exchange import Access, Exchange, Reply
from indexer.crawl.access.login import log_in, read_forms
from indexer.crawl.access.material import headers_of, read_secrets, secrets_of, version_of
from indexer.crawl.access.redaction import Redaction
from indexer.credentials import Credential, Place
from indexer.errors import ParseError, SessionEnded, SourceError
from indexer.urls import origin

_WITNESSES = 3
_STRANGER = Access(0, {})
# a step of a path, or a word of a query: logout, sign_out, Logout.action, Special:UserLogout
_LOGOUT = re.compile(r"(?:special:)?(?:user)?[-_]?(?:log|sign)[-_]?(?:out|off)(?:\.\w+)?", re.IGNORECASE)


class Sessions:
    """The sessions of a build, by origin."""

    def __init__(self, credentials: Iterable[Credential] = ()) -> None:
        self._by_origin = {credential.origin: Session(credential) for credential in credentials}

    def of(self, url: str) -> "Session | None":
        """Return the session with the origin of a normalised address; None where it is asked as by anyone."""
        return self._by_origin.get(origin(url))


class Session:
    """What one origin is asked with. Safe to share between threads, all of which wait while it logs in."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential
        self._site = credential.origin
        self.is_known = bool(credential.kinds())  # whether the origin is asked as by somebody, not just with cookies
        self._lock = threading.Lock()
        self._access = _STRANGER
        self._cookies = Cookies(self._site)
        self._texts: Mapping[Place, str] = {}
        self._version: tuple[int, ...] = ()  # of the certificate
        self._redaction = Redaction()
        self._renewed_for = ""  # the address that showed that the first session had ended
        self._failure: SourceError | None = None  # after which nothing more is asked
        self._witnesses: deque[str] = deque(maxlen=_WITNESSES)
        self._proven = ""  # one of them that strangers are refused

    def access(self, url: str, exchange: Exchange) -> Access:
        """Return what a request to an address of the origin is sent with; the first one logs in.

        Raises:
            CredentialsError: a secret cannot be used.
            LoginFailed: the site does not let us in.
            SessionEnded: it did so, and does no more.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if not self._access.number:
                self._begin(exchange)
            return self._to(url)

    def take(self, number: int, url: str, lines: list[str]) -> None:
        """Keep the cookies that an answer sets, from its Set-Cookie headers; `number` is of what it was asked with.

        Those of an answer to a session that is over would end the new one.
        """
        cookies = self._cookies  # before the number, which changes first
        if lines and number == self._access.number:
            cookies.take(url, lines)
            self._redaction.learn((), cookies.values())

    def hidden(self, text: bytes) -> bytes:
        """Return what a site has answered without the secrets that it was asked with."""
        return self._redaction.of(text)

    def saw(self, url: str) -> None:
        """Note a page that was read as it should be."""
        with self._lock:
            if url not in self._witnesses:
                self._witnesses.append(url)

    def refusal(self, url: str) -> str | None:
        """Say why an address is not asked for, if it is not: it would end the session, or begin one."""
        parts = urlsplit(url)
        words = [*parts.path.split("/"), *(word for pair in parse_qsl(parts.query) for word in pair)]
        if self.is_known and any(map(_LOGOUT.fullmatch, words)):
            return "a link that logs out"
        return "the login page" if self.logs_in(url) else None

    def logs_in(self, url: str) -> bool:
        """Return whether an address is that of the login form, maybe with more in its query."""
        if self._credential.login is None:
            return False
        form, parts = urlsplit(self._credential.login.url), urlsplit(url)
        if origin(url) != self._site or form.path != parts.path or (form.path == "/" and not form.query):
            return False
        return set(parse_qsl(form.query)) <= set(parse_qsl(parts.query))

    def is_renewed(self, number: int, url: str, exchange: Exchange, *, sure: bool) -> bool:
        """Find out whether the session has ended, and if so begin it anew, once.

        Args:
            number: of the `Access` that an address was asked with.
            url: the address, whose answer looks as if it had.
            exchange: sends what has to be asked.
            sure: whether that answer alone says so, where there is no witness.

        Returns: whether the address is to be asked for again; False if its answer is the one it has.

        Raises:
            SessionEnded, LoginFailed, CredentialsError: it cannot be begun anew, or was before.
            FetchError: a witness could not be asked.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if number != self._access.number:
                return True
            if not self.is_known:
                return False
            lives = self._lives(exchange)
            has_just_begun = self._credential.login is not None and self._renewed_for == url
            if lives or (lives is None and (has_just_begun or not sure)):
                return False
            if self._renewed_for:
                self._failure = SessionEnded(f"{self._ended(url)}, although the session was renewed once in this build")
                raise self._failure
            self._renewed_for = url
            self._begin(exchange)
            return True

    def _begin(self, exchange: Exchange) -> None:
        """Read the secrets and log in. A failure holds until the build ends: sites lock out who tries again."""
        try:
            given, before = self._credential, (self._texts, self._version)
            self._texts, self._version = read_secrets(given), version_of(given.client_certificate)
            if given.login is None and self._access.number and (self._texts, self._version) == before:
                kinds = ", ".join(given.kinds())
                raise SessionEnded(f"{self._ended(self._renewed_for)}: its {kinds} must be renewed")
            cookies = Cookies(self._site)
            if given.cookies is not None:
                cookies.load(given.cookies, self._texts[given.cookies])
            context = tls_context(given.client_certificate) if given.client_certificate else None
            self._access = Access(self._access.number + 1, headers_of(given, self._texts), context)
            self._cookies = cookies
            self._redaction.learn(secrets_of(given, self._texts), cookies.values())
            if given.login is not None:
                self._log_in(exchange)
        except SourceError as error:
            self._failure = error
            raise

    def _log_in(self, exchange: Exchange) -> None:
        login = self._credential.login
        assert login is not None  # noqa: S101 - by the caller

        def send(url: str, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
            access = self._to(url, headers or {})
            reply = exchange(url, access, form, login.url)
            self.take(access.number, url, reply.headers.get_list("Set-Cookie"))
            return reply

        values = {name: given if isinstance(given, str) else self._texts[given] for name, given in login.fields.items()}
        log_in(login, values, send, self._cookies)

    def _lives(self, exchange: Exchange) -> bool | None:
        """Whether the session has not ended; None where no witness can tell."""
        for url in [self._proven] if self._proven else [*self._witnesses]:
            if self._proven or self._is_refused(exchange(url, _STRANGER)):
                self._proven = url
                reply = exchange(url, self._to(url))
                if self._is_refused(reply):
                    return False
                if reply.status < 300:
                    return True
                self._proven = ""  # it may have moved since
        return None

    def _is_refused(self, reply: Reply) -> bool:
        """Whether an answer is what one gets who is not logged in."""
        if 300 <= reply.status < 400 or reply.status in (401, 403):  # it was read at this address, and without a detour
            return True
        try:
            return any(form.asks_password for form in read_forms(reply))
        except ParseError:
            return False

    def _to(self, url: str, more: Mapping[str, str] | None = None) -> Access:
        cookie = self._cookies.header(url)
        headers = {**self._access.headers, **({"Cookie": cookie} if cookie else {}), **(more or {})}
        return Access(self._access.number, headers, self._access.context)

    def _ended(self, url: str) -> str:
        return f"{self._site} asks to log in at {url}"
