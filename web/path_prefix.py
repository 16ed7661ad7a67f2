"""Serves below a path of another site, such as /search/: every address in an answer begins with that path.

The path is a setting, or what a trusted reverse proxy says in X-Forwarded-Prefix. A proxy may have taken it off the
address already, or may not have: both come out right, and so do probes that ask the server itself.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from rag.errors import SettingsError
from rag.settings import Settings

HEADER = "HTTP_X_FORWARDED_PREFIX"
# One or more segments that no browser reads as another host, a parent folder or a script.
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+")
_MAX_LENGTH = 200  # characters

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]


class PathPrefix:
    """Middleware that sets SCRIPT_NAME, which Flask puts before every address it makes."""

    def __init__(self, app: Wsgi, prefix: str, own_segments: frozenset[str], *, trusts_header: bool) -> None:
        """Take the path, which `prefix_of` has checked; the header counts only without one.

        Args:
            app: the application.
            prefix: as `/search`; empty for none.
            own_segments: first segments of the application's own addresses, which no prefix may have.
            trusts_header: whether a proxy sets X-Forwarded-Prefix, and so no caller can.
        """
        self._app = app
        self._prefix = prefix
        self._own_segments = own_segments
        self._trusts_header = trusts_header

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        prefix = self._prefix or (self._from_header(environ) if self._trusts_header else "")
        if prefix:
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


def prefix_of(settings: Settings, own_segments: frozenset[str]) -> str:
    """Return the setting as `/search`, or an empty text. Raises SettingsError for one that cannot be used."""
    prefix = settings.path_prefix.strip().rstrip("/")
    if not prefix:
        return ""
    prefix = prefix if prefix.startswith("/") else f"/{prefix}"
    if not is_prefix(prefix):
        raise SettingsError(f"--path-prefix {prefix[:80]!r} is not a path such as /search")
    if (first := prefix.split("/")[1]) in own_segments:
        raise SettingsError(f"--path-prefix cannot begin with /{first}, which the server has itself: choose another")
    return prefix
