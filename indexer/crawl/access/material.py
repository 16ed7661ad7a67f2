"""The secrets of a credential, read where they are: what requests are sent with, and what no answer may show."""

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from indexer.crawl.access.certificate import tls_context
from indexer.crawl.access.cookies import Cookies
from indexer.credentials import ClientCertificate, Credential, Place
from indexer.errors import CredentialsError

SHORTEST, SHORTEST_COOKIE = 8, 16  # characters of secrets that answers are searched for: shorter ones may be words
_VALUE = re.compile(r"[\x20-\x7e\t]+")  # of a header
_TOKEN = re.compile(r"[\x21-\x7e]+")
Texts = Mapping[Place, str]


def read_secrets(credential: Credential) -> dict[Place, str]:
    """Return what each place of a credential has now. Raises CredentialsError."""
    return {place: place.read().reveal() for place in credential.places()}


def check_credential(credential: Credential) -> None:
    """Look whether all that a credential describes can be used, without asking its site. Raises CredentialsError."""
    texts = read_secrets(credential)
    headers_of(credential, texts)
    if credential.cookies is not None:
        Cookies(credential.origin).load(credential.cookies, texts[credential.cookies])
    if credential.client_certificate is not None:
        tls_context(credential.client_certificate)


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


def spellings(credential: Credential, texts: Texts, cookies: Iterable[str]) -> tuple[bytes, ...]:
    """Return the secrets as answers may show them: as text, in addresses, HTML and JSON; the longest first."""
    secrets = {text for place, text in texts.items() if place != credential.cookies and len(text) >= SHORTEST}
    secrets |= {
        header.rpartition(" ")[2] for name, header in headers_of(credential, texts).items() if name == "Authorization"
    }
    secrets |= {cookie for cookie in cookies if len(cookie) >= SHORTEST_COOKIE}
    written = {
        how
        for secret in secrets
        for how in (secret, quote(secret, safe=""), html.escape(secret), json.dumps(secret)[1:-1])
    }
    return tuple(sorted((how.encode() for how in written), key=len, reverse=True))


def _checked(place: Place, texts: Texts, allowed: re.Pattern[str]) -> str:
    text = texts[place]
    if not allowed.fullmatch(text):
        raise CredentialsError(f"{place} has characters that no header can have")
    return text
