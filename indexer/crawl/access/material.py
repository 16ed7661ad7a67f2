"""The secrets of a credential, read where they are: what requests are sent with, and what no answer may show."""

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from indexer.crawl.access.certificate import tls_context
from indexer.crawl.access.cookies import Cookies
from indexer.credentials import ClientCertificate, Credential, Place
from indexer.errors import CredentialsError

_VALUE = re.compile(r"[\x20-\x7e\t]+")  # of a header
_TOKEN = re.compile(r"[\x21-\x7e]+")
Texts = Mapping[Place, str]


def read_secrets(credential: Credential) -> dict[Place, str]:
    """Return what each place of a credential has now. Raises CredentialsError, which names the origin."""
    with _named(credential):
        return _texts_of(credential)


def check_credential(credential: Credential) -> None:
    """Look whether all that a credential describes can be used, without asking its site. Raises as `read_secrets`."""
    with _named(credential):
        texts = _texts_of(credential)
        headers_of(credential, texts)
        if credential.cookies is not None:
            Cookies(credential.origin).load(credential.cookies, texts[credential.cookies])
        if credential.client_certificate is not None:
            tls_context(credential.client_certificate)


@contextmanager
def _named(credential: Credential) -> Iterator[None]:
    try:
        yield
    except CredentialsError as error:
        raise CredentialsError(f"credentials of {credential.origin}: {error}") from None


def _texts_of(credential: Credential) -> dict[Place, str]:
    return {place: place.read().reveal() for place in credential.places()}


def headers_of(credential: Credential, texts: Texts) -> dict[str, str]:
    """Return the headers that every request to the origin has. Raises CredentialsError."""
    headers = {name: _checked(place, texts, _VALUE) for name, place in credential.headers.items()}
    if credential.bearer is not None:
        headers["Authorization"] = f"Bearer {_checked(credential.bearer, texts, _TOKEN)}"
    if (basic := credential.basic) is not None:
        user = basic.user if isinstance(basic.user, str) else texts[basic.user]
        pair = f"{user}:{texts[basic.password]}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return headers


def version_of(certificate: ClientCertificate | None) -> tuple[int, ...]:
    """Return what changes when a certificate is renewed. Raises CredentialsError."""
    files = [file for file in (certificate.file, certificate.key) if file] if certificate else []
    try:
        return tuple(file.stat().st_mtime_ns for file in files)
    except OSError as error:
        raise CredentialsError(f"{error.filename} cannot be read: {error.strerror}") from None


def secrets_of(credential: Credential, texts: Texts) -> set[str]:
    """Return what no answer may show, as it is and as it is sent; of cookies, the jar knows."""
    headers = headers_of(credential, texts)
    sent = {headers["Authorization"].rpartition(" ")[2]} if "Authorization" in headers else set()
    return sent | {text for place, text in texts.items() if place != credential.cookies}


def _checked(place: Place, texts: Texts, allowed: re.Pattern[str]) -> str:
    text = texts[place]
    if not allowed.fullmatch(text):
        raise CredentialsError(f"{place} has characters that no header can have")
    return text
