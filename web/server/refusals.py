"""Answers that a worker gives without the application: to requests that it turns away, and to what is no request."""

import json
import re

from flask import Flask
from gunicorn.http import errors as http_errors

from web.problems import MACHINE_PATHS, MEDIA_TYPE, page, problem
from web.security_headers import SECURITY_HEADERS
from web.server.receive_buffer import Verdict

MAX_REQUEST_LINE = 8190  # bytes, the most gunicorn takes
BUSY = "The server is overloaded: try again."
LONG_HEAD = "The request has too many headers, or one that is too long."
MALFORMED = "The request is not valid HTTP."
UNKNOWN_CODING = "The only transfer coding supported is chunked."
FRAMING_PROBLEMS = {
    http_errors.LimitRequestLine: (
        414,
        f"The address is longer than {MAX_REQUEST_LINE} bytes; send long queries by POST.",
    ),
    http_errors.LimitRequestHeaders: (431, LONG_HEAD),
    http_errors.UnsupportedTransferCoding: (501, UNKNOWN_CODING),
    http_errors.ExpectationFailed: (417, "The Expect header asks for something this server does not support."),
}
REFUSALS = {
    Verdict.HEAD_TOO_LARGE: (431, LONG_HEAD, "too_large"),
    Verdict.BODY_TOO_LARGE: (413, "The body is too large.", "too_large"),
    Verdict.MALFORMED: (400, MALFORMED, "malformed"),
    Verdict.UNKNOWN_CODING: (501, UNKNOWN_CODING, "malformed"),
}
_TO_MACHINES = tuple(f"GET {path}".encode() for path in MACHINE_PATHS)
_ACCEPTS_PAGES = re.compile(rb"\r\naccept:[^\r]*text/html", re.IGNORECASE)


def refusal(status: int, detail: str, *, closes: bool = False, retry_after: int | None = None) -> bytes:
    """Return a whole HTTP/1.1 answer with a problem; `retry_after` is in seconds."""
    said = problem(status, detail)
    return _answer(said, MEDIA_TYPE, json.dumps(said).encode(), closes=closes, retry_after=retry_after)


def busy_page(app: Flask, *, retry_after: int) -> bytes:
    """Return a whole answer 503 for a browser: a page that asks for its address again by itself."""
    said = problem(503, BUSY)
    with app.test_request_context("/", environ_overrides={"SCRIPT_NAME": app.extensions["path_prefix"]}):
        shown = page(said)
    return _answer(said, shown.headers["Content-Type"], shown.get_data(), closes=False, retry_after=retry_after)


def asks_for_page(head: bytes) -> bool:
    """Return whether a browser asks for a page; `problems.wants_page` for a request that is not read yet."""
    return head.startswith(b"GET /") and not head.startswith(_TO_MACHINES) and bool(_ACCEPTS_PAGES.search(head))


def _answer(said: dict[str, object], media_type: str, body: bytes, *, closes: bool, retry_after: int | None) -> bytes:
    head = [f"HTTP/1.1 {said['status']} {said['title']}"]
    head += [f"Content-Type: {media_type}", f"Content-Length: {len(body)}", "Cache-Control: no-store"]
    head += [f"{name}: {value}" for name, value in SECURITY_HEADERS.items()]
    head += ["Connection: close"] if closes else []
    head += [f"Retry-After: {retry_after}"] if retry_after else []
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
