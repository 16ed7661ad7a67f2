"""Login by a form: its page is read, the form filled in and sent, and what comes of it looked at."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from indexer.crawl.access.cookies import Cookies
from indexer.crawl.access.exchange import Reply
from indexer.credentials import Login
from indexer.decoding import decode, one_line, shorten
from indexer.errors import CredentialsError, FetchError, LoginFailed, ParseError
from indexer.read.formats import FORMS
from indexer.read.reader_process import borrowed
from indexer.urls import normalise, origin

_MARKUP = ("text/html", "application/xhtml+xml")
_MOST_REDIRECTS = 10


@dataclass(frozen=True, slots=True)
class Form:
    """A form, and what a browser would send of it untouched."""

    action: str  # normalised
    method: str
    fields: tuple[tuple[str, str, str], ...]  # name, value and type of each

    @property
    def names(self) -> set[str]:
        """Names of its fields."""
        return {name for name, _, _ in self.fields}

    @property
    def asks_password(self) -> bool:
        """Whether it has a field for a password."""
        return any(kind == "password" for _, _, kind in self.fields)


class Send(Protocol):
    """Sends a request with the cookies there are, and keeps those that come back."""

    def __call__(self, url: str, form: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        """Return the answer to a GET, or with a form a POST. Raises FetchError."""
        ...


def log_in(login: Login, values: Mapping[str, str], send: Send, cookies: Cookies) -> None:
    """Fill in `values` and send the form; afterwards the cookies are those of the session.

    Raises:
        LoginFailed: the page has no such form, or what comes of it is not what `success` says.
        CredentialsError: a password is given as plain text.
    """
    site = origin(login.url)
    try:
        page = _followed(send, send(login.url), site)
        forms = read_forms(page)
        form = next((form for form in forms if form.names >= set(login.fields)), None)
        if form is None:
            found = shorten(one_line("; ".join(", ".join(sorted(form.names)) for form in forms)), 200) or "none"
            wanted = ", ".join(login.fields)
            raise LoginFailed(f"{login.url} (HTTP {page.status}) has no form with the fields {wanted}; found: {found}")
        if form.method != "post" or origin(form.action) != site:
            where = "GET, which would put it into addresses" if form.method != "post" else origin(form.action)
            raise LoginFailed(f"the form of {login.url} sends what is filled in by {where}: it is not sent")
        headers = {"Origin": site, "Referer": page.url}  # frameworks that check where a form was filled in
        reply = _followed(send, send(form.action, _filled(login, values, form), headers), site)
        again = any(form.names >= set(login.fields) for form in read_forms(reply))
    except (FetchError, ParseError) as error:
        raise LoginFailed(f"cannot log in to {site}: {error}") from error
    missing = _missing(login, reply, cookies)
    if again or missing or reply.status >= 400:
        told = "the form came back" if again else missing or "an error came back"
        raise LoginFailed(f"cannot log in to {site}: {told} (HTTP {reply.status}); check the fields of its login")


def read_forms(reply: Reply) -> list[Form]:
    """Return the forms of a page; none if it is no HTML. Raises ParseError."""
    if reply.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in _MARKUP:
        return []
    with borrowed() as process, closing(process.ask(FORMS, reply.charset, reply.body)) as answers:
        [(answer, _)] = answers
    try:
        base = normalise(reply.url, answer["base"] or "") or reply.url
        return [form for given in answer["forms"] if (form := _form(given, base)) is not None]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _form(given: dict[str, Any], base: str) -> Form | None:
    action = normalise(base, str(given["action"]))
    fields = tuple((str(name), str(value), str(kind)) for name, value, kind in given["fields"])
    return Form(action, str(given["method"]), fields) if action else None


def _filled(login: Login, values: Mapping[str, str], form: Form) -> bytes:
    plain = {name for name, given in login.fields.items() if isinstance(given, str)}
    for name, _, kind in form.fields:
        if kind == "password" and name in plain:
            raise CredentialsError(f"{login.url}: the field {name} is a password: write {{env = …}} or {{file = …}}")
    return urlencode({**{name: value for name, value, _ in form.fields}, **values}).encode()


def _followed(send: Send, reply: Reply, site: str) -> Reply:
    """Follow redirects on the site; one that leads elsewhere is the last answer."""
    for _ in range(_MOST_REDIRECTS):
        target = reply.target
        if target is None or origin(target) != site:
            break
        reply = send(target)
    return reply


def _missing(login: Login, reply: Reply, cookies: Cookies) -> str:
    """Say which sign of success is missing; empty if none is."""
    wanted = login.success
    if wanted.cookie and not cookies.has(wanted.cookie):
        return f"no cookie {wanted.cookie} came"
    if wanted.path and not urlsplit(reply.url).path.startswith(wanted.path):
        return f"the page after it is not at {wanted.path}"
    if wanted.text and wanted.text not in decode(reply.body, reply.charset, markup=True):
        return f"the page after it does not have the text {wanted.text!r}"
    return ""
