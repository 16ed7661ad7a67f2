"""Takes secrets out of what a site answers: it may repeat anything that it was asked with."""

import html
import json
import threading
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

_SHORTEST, _SHORTEST_COOKIE = 8, 16  # characters of secrets that answers are searched for: shorter ones may be words
_COOKIES = 200  # values remembered: answers come late, and some sites give a new one with each


class Redaction:
    """Knows all that requests were sent with. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: dict[str, None] = {}
        self._cookies: dict[str, None] = {}  # the newest last
        self._written: tuple[bytes, ...] = ()

    def learn(self, secrets: Iterable[str], cookies: Iterable[str]) -> None:
        """Add secrets, and the values of cookies; those from before stay, as answers to them may still come."""
        with self._lock:
            before = [*self._secrets, *self._cookies]
            self._secrets |= dict.fromkeys(secret for secret in secrets if len(secret) >= _SHORTEST)
            for cookie in cookies:
                if len(cookie) >= _SHORTEST_COOKIE:
                    self._cookies.pop(cookie, None)
                    self._cookies[cookie] = None
            while len(self._cookies) > _COOKIES:
                del self._cookies[next(iter(self._cookies))]
            known = [*self._secrets, *self._cookies]
            if known != before:
                written = {how.encode() for secret in known for how in _spellings(secret)}
                self._written = tuple(sorted(written, key=len, reverse=True))

    def of(self, text: bytes) -> bytes:
        """Return an answer without them."""
        for secret in self._written:
            text = text.replace(secret, b"")
        return text


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as it is written in text, addresses, forms, HTML and JSON."""
    return secret, quote(secret, safe=""), quote_plus(secret), html.escape(secret), json.dumps(secret)[1:-1]
