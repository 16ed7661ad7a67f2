"""What a worker answers without the application: to requests that it turns away, and to what is no request."""

import json

from gunicorn.http import errors as http_errors

from web.app import SECURITY_HEADERS
from web.intake import Verdict
from web.problems import MEDIA_TYPE, problem

MAX_REQUEST_LINE = 8190  # bytes, the most gunicorn takes
BUSY = "The server has as much to do as it can: try again."
LONG_HEAD = "The request has too many headers, or one that is too long."
MALFORMED = "The request is not valid HTTP."
FRAMING_PROBLEMS = {
    http_errors.LimitRequestLine: (
        414,
        f"The address is longer than {MAX_REQUEST_LINE} bytes; send long queries by POST.",
    ),
    http_errors.LimitRequestHeaders: (431, LONG_HEAD),
    http_errors.UnsupportedTransferCoding: (501, "Of transfer codings only chunked is understood."),
    http_errors.ExpectationFailed: (417, "The Expect header asks for something this server does not do."),
}
REFUSALS = {
    Verdict.HEAD_TOO_LARGE: (431, LONG_HEAD, "too_large"),
    Verdict.BODY_TOO_LARGE: (413, "The body is too large.", "too_large"),
    Verdict.MALFORMED: (400, MALFORMED, "malformed"),
}


def refusal(status: int, detail: str, *, closes: bool = False, retry_after: int | None = None) -> bytes:
    """Return a whole HTTP/1.1 answer with a problem; `retry_after` is in seconds."""
    said = problem(status, detail)
    body = json.dumps(said).encode()
    head = [f"HTTP/1.1 {status} {said['title']}"]
    head += [f"Content-Type: {MEDIA_TYPE}", f"Content-Length: {len(body)}", "Cache-Control: no-store"]
    head += [f"{name}: {value}" for name, value in SECURITY_HEADERS.items()]
    head += ["Connection: close"] if closes else []
    head += [f"Retry-After: {retry_after}"] if retry_after else []
    return "\r\n".join(head).encode("ascii") + b"\r\n\r\n" + body
