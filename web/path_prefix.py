"""Serves below a path of another site, such as /search/: every address in an answer begins with that path.

The path is what a trusted reverse proxy says in X-Forwarded-Prefix. A proxy may have taken it off the address already,
or may not have: both come out right, and so do probes that ask the server itself.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

HEADER = "HTTP_X_FORWARDED_PREFIX"
# One or more segments that no browser reads as another host, a parent folder or a script.
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+")
_MAX_LENGTH = 200  # characters

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class PathPrefix:
    """Middleware that sets SCRIPT_NAME, which Flask puts before every address it makes."""

    def __init__(self, app: Wsgi, own_segments: frozenset[str]) -> None:
        """Take the application, and the first segments of its addresses, which no prefix may have."""
        self._app = app
        self._own_segments = own_segments

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        if prefix := self._from_header(environ):
            environ["SCRIPT_NAME"] = prefix
            path = environ.get("PATH_INFO", "")
            if path == prefix or path.startswith(prefix + "/"):
                environ["PATH_INFO"] = path[len(prefix) :] or "/"
        return self._app(environ, start_response)

    def _from_header(self, environ: dict[str, Any]) -> str:
        """Return the prefix of the nearest proxy; empty for one that cannot be used."""
        prefix = str(environ.get(HEADER, "")).rpartition(",")[2].strip().rstrip("/")
        return prefix if is_prefix(prefix) and prefix.split("/")[1] not in self._own_segments else ""


def is_prefix(text: str) -> bool:
    """Return whether a text is a path below which pages can be served."""
    return len(text) <= _MAX_LENGTH and _PREFIX.fullmatch(text) is not None
