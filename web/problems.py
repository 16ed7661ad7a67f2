"""The one place where errors become answers: RFC 9457 problem details, or the page for a reader's browser."""

import json
import logging

from flask import Flask, Response, current_app, g, render_template, request
from werkzeug.exceptions import HTTPException, NotFound
from werkzeug.http import HTTP_STATUS_CODES

from rag.errors import (
    DeadlinePassed,
    DocumentRefused,
    DocumentTooLarge,
    InsightsError,
    InsightsOff,
    JobConflict,
    JobRefused,
    KeysError,
    NotReady,
    NotThere,
    QueryError,
    QueueFull,
    RerankOff,
    StorageFull,
    TypeNotRead,
)
from rag.query.filters import FilterError
from rag.removed import ROUTES

SECURITY_HEADERS = {  # of every answer
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
MACHINE_PATHS = (
    "/api",
    "/v1",
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/static",
)  # never a page
OPENAI_PATHS = ("/v1/",)  # whose clients look for the error in an object of OpenAI's form
RETRY_AFTER_S = 2
HEADERS = frozenset({"Allow", "Retry-After", "WWW-Authenticate"})  # that an error may bring along
REASONS = {413: "too_large", 429: "rate"}  # under which refusals are counted
OPENAI_ERRORS = {  # status: type and code of OpenAI's API
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
DETAILS = {
    400: "The request is not valid.",
    404: "There is nothing at this address.",
    405: "This address does not support that method; see the Allow header.",
    413: "The body is too large.",
    415: "Send the search as application/json.",
    500: "The search failed; see the server's log.",
}

log = logging.getLogger("pilotlight")


def problem(status: int, detail: str, *, field: str | None = None) -> dict[str, object]:
    """Build the problem details object: type, title, status, detail and, where one is at fault, field."""
    body: dict[str, object] = {
        "type": "about:blank",  # RFC 9457: the status code says it all, and the title is its phrase
        "title": HTTP_STATUS_CODES[status],
        "status": status,
        "detail": detail,
    }
    if field is not None:
        body["field"] = field
    return body


def respond(body: dict[str, object]) -> Response:
    """Answer with a problem as JSON; what may pass also says when to come back."""
    if request.path.startswith(OPENAI_PATHS):
        body = body | {"message": body["detail"], "error": _openai_error(body)}
    response = Response(json.dumps(body), status=int(str(body["status"])), content_type=MEDIA_TYPE)
    if response.status_code in (429, 503):
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def register(app: Flask) -> None:
    """Make every error of the application, expected or not, leave through `_answer`."""
    app.register_error_handler(Exception, _answer)


def _answer(error: Exception) -> Response | HTTPException:
    if isinstance(error, HTTPException) and (error.code is None or error.code < 400):
        return error  # a redirect
    body = problem_of(error)
    response = page(body) if wants_page() else respond(body)
    if isinstance(error, HTTPException):
        for name, value in error.get_headers(request.environ):
            if name in HEADERS:
                response.headers[name] = value
    return response


def problem_of(error: Exception) -> dict[str, object]:
    """Return the problem that an error is answered with; one that nobody foresaw goes to the log."""
    if isinstance(error, NotFound) and request.path in ROUTES:
        return problem(410, f"{request.path} was removed: {ROUTES[request.path]}")
    if isinstance(error, HTTPException) and error.code is not None:
        if error.code in REASONS:
            current_app.extensions["metrics"].refuse(REASONS[error.code])
        own_words = error.description if error.description != type(error).description else None
        detail = own_words or DETAILS.get(error.code) or HTTP_STATUS_CODES.get(error.code, "Error")
        return problem(error.code, detail, field=getattr(error, "field", None))
    if isinstance(error, RerankOff | InsightsOff):
        return problem(501, str(error))
    if isinstance(error, QueryError | FilterError):
        return problem(400, str(error), field=getattr(error, "field", None))
    if isinstance(error, DocumentRefused):
        status = 415 if isinstance(error, TypeNotRead) else 413 if isinstance(error, DocumentTooLarge) else 400
        return problem(status, str(error), field=error.field)
    if isinstance(error, QueueFull | StorageFull):
        return problem(429 if isinstance(error, QueueFull) else 507, str(error))
    if isinstance(error, NotThere):
        return problem(404, str(error), field=error.field)
    if isinstance(error, JobRefused):
        return problem(403, str(error), field=error.field)
    if isinstance(error, JobConflict):
        return problem(409, str(error))
    if isinstance(error, NotReady | InsightsError):
        return problem(503, str(error))
    if isinstance(error, DeadlinePassed):
        current_app.extensions["metrics"].refuse("deadline")
        return problem(503, str(error))
    if isinstance(error, KeysError):
        log.error("%s", error)
        return problem(503, "The server cannot read the file that says who may do what; see its log.")
    # %r because a path may hold line breaks, which would forge log lines
    log.error("%s %r failed", request.method, request.path, exc_info=error)
    return problem(500, DETAILS[500])


def _openai_error(body: dict[str, object]) -> dict[str, object]:
    """Return the error object of OpenAI's API, without which its clients say "status code (no body)"."""
    status = int(str(body["status"]))
    kind, code = OPENAI_ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return {"message": body["detail"], "type": kind, "param": body.get("field"), "code": code}


def wants_page() -> bool:
    """Return whether the request is a browser's, for something that people read."""
    if request.path.startswith(MACHINE_PATHS) or request.path in ROUTES:
        return False
    return request.accept_mimetypes.best_match([MEDIA_TYPE, "text/html"]) == "text/html"


def page(body: dict[str, object]) -> Response:
    """Answer with a problem as a page; of 503, with one that asks again by itself."""
    state = "waiting" if body["status"] == 503 else "error"
    form = g.get("form") or {"query": request.args.get("q", "")}  # refused before its parameters were read
    html = render_template("page.html", state=state, problem=body, **form)
    response = Response(html, status=int(str(body["status"])), mimetype="text/html")
    if state == "waiting":
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
