"""Convert errors to responses: problem details (RFC 9457), or HTML pages for browsers."""

import json
import logging
import sqlite3
from collections.abc import Mapping

from flask import Request, Response, current_app, g, render_template, request
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from rag import errors
from rag.query.request import FilterError

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
MEDIA_TYPE = "application/problem+json"
_NO_HTML_PATHS = tuple("/api /v1 /livez /readyz /metrics /openapi.json /static /mcp /llms.txt".split())
RETRY_AFTER_S = 2
HEADERS = frozenset({"Allow", "Retry-After", "WWW-Authenticate"})
REASONS = {413: "too_large", 429: "rate"}
OPENAI_ERRORS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
FRAMING_PROBLEMS = {
    "LimitRequestLine": (414, "The address is longer than 8190 bytes; send long queries by POST."),
    "LimitRequestHeaders": (431, "The request has too many headers, or one that is too long."),
    "UnsupportedTransferCoding": (501, "The only transfer coding supported is chunked."),
    "ExpectationFailed": (417, "This server does not support the value of the Expect header."),
}
DETAILS = {
    400: "The request is not valid.",
    404: "There is nothing at this address.",
    405: "This address does not support that method; see the Allow header.",
    413: "The body is too large.",
    415: "Send the body as application/json.",
    500: "The request failed; see the server's log.",
}

log = logging.getLogger("pilotlight")


def this_request() -> Request:
    """Return the current request object, which is faster than Flask's proxy `request`."""
    return request._get_current_object()  # type: ignore[attr-defined,no-any-return]  # the proxy has the type Request


def problem(status: int, detail: str, *, field: str | None = None) -> dict[str, object]:
    """Return a problem details object. `field` is the name of an invalid field."""
    # In RFC 9457, the type about:blank means that the status code says everything about the problem.
    body = {"type": "about:blank", "title": HTTP_STATUS_CODES[status], "status": status, "detail": detail}
    return body if field is None else body | {"field": field}


def respond(body: dict[str, object]) -> Response:
    """Return problem details as a JSON response. For status 429 and 503, the response has the header Retry-After."""
    status = int(str(body["status"]))
    if request.path.startswith("/v1/"):
        kind, code = OPENAI_ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
        error = {"message": body["detail"], "type": kind, "param": body.get("field"), "code": code}
        body = body | {"message": body["detail"], "error": error}
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status in (429, 503) else None
    return Response(json.dumps(body), status, headers, content_type=MEDIA_TYPE)


def raw_response(error: BaseException) -> bytes:
    """Return the bytes of the HTTP response to an error outside of the Flask application."""
    invalid = (400, "The request is not valid HTTP.") if isinstance(error, ParseException) else None
    failed = (500, "The server failed to handle this request.")
    return raw_problem(*(FRAMING_PROBLEMS.get(type(error).__name__) or invalid or failed), {"Connection": "close"})


def raw_problem(status: int, detail: str, further_headers: Mapping[str, object]) -> bytes:
    """Return the bytes of an HTTP response with problem details, to send outside of the Flask application."""
    body = json.dumps(problem(status, detail)).encode()
    headers = {"Content-Type": MEDIA_TYPE, "Content-Length": len(body), "Cache-Control": "no-store"}
    headers |= {**SECURITY_HEADERS, **further_headers}
    lines = [f"HTTP/1.1 {status} {HTTP_STATUS_CODES[status]}", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def answer_error(error: Exception) -> Response | HTTPException:
    """Return the response to an error in the application: a page for browsers, otherwise problem details."""
    if isinstance(error, HTTPException) and (error.code is None or error.code < 400):
        return error
    body = problem_of(error)
    if wants_page():
        state = "waiting" if body["status"] == 503 else "error"
        form = g.get("form") or {"query": request.args.get("q", "")}  # `g.form` is not set if a field was invalid
        html = render_template("page.html", state=state, problem=body, **form)
        response = Response(html, status=int(str(body["status"])), mimetype="text/html")
        if state == "waiting":
            response.headers["Retry-After"] = str(RETRY_AFTER_S)
    else:
        response = respond(body)
    if isinstance(error, HTTPException):
        for name, value in error.get_headers(request.environ):
            if name in HEADERS:
                response.headers[name] = value
    return response


def problem_of(error: Exception) -> dict[str, object]:
    """Return the problem details of an error. If the error is unexpected, log it."""
    field = getattr(error, "field", None)
    if isinstance(error, HTTPException) and error.code is not None:
        if error.code in REASONS:
            current_app.extensions["metrics"].note("requests_refused", REASONS[error.code], "")
        own_words = error.description if error.description != type(error).description else None
        detail = own_words or DETAILS.get(error.code) or HTTP_STATUS_CODES.get(error.code, "Error")
        return problem(error.code, detail, field=field)
    if isinstance(error, errors.DeadlinePassed):
        current_app.extensions["metrics"].note("requests_refused", "deadline", "")
    status = 400 if isinstance(error, FilterError) else getattr(error, "status", None)
    if status is not None:
        return problem(status, str(error), field=field)
    if isinstance(error, OSError | sqlite3.Error):
        log.error("%s %r failed: %s", request.method, request.path, error)
        return problem(503, "The server cannot read or write its files now; see its log.")
    if isinstance(error, errors.KeysError):
        log.error("%s", error)
        return problem(503, "The server cannot read its keys or access rules; see its log.")
    # %r escapes line breaks in the path. Otherwise, clients could forge log lines.
    log.error("%s %r failed", request.method, request.path, exc_info=error)
    return problem(500, DETAILS[500])


def wants_page() -> bool:
    """Return whether the client prefers an HTML page to problem details."""
    if request.path.startswith(_NO_HTML_PATHS):
        return False
    return request.accept_mimetypes.best_match([MEDIA_TYPE, "text/html"]) == "text/html"
