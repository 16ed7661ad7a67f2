"""Other sites whose pages may call the API.

Keys travel in the Authorization header, so no answer ever allows a browser to send its own credentials: then it does
not matter who asks, and `*` is safe.
"""

import re

from flask import Flask, Response, request

from rag.errors import SettingsError
from rag.settings import Settings

PATHS = ("/api/", "/v1/", "/openapi.json")
METHODS = "GET, POST, DELETE"
REQUEST_HEADERS = "Authorization, Content-Type, X-Request-Id"
RESPONSE_HEADERS = "Retry-After, X-Request-Id"
MAX_AGE_S = 600
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")


def parse_origins(text: str) -> frozenset[str]:
    """Read the setting. Raises SettingsError for what is not an origin as browsers write it."""
    origins = frozenset(part.strip() for part in text.split(",") if part.strip())
    for origin in origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise SettingsError(
                f"--cors-origins: {origin!r} is not an origin, such as https://docs.example.org or "
                "http://localhost:3000: scheme, name in lower case, port, and nothing after it"
            )
    return origins


def register(app: Flask, settings: Settings) -> None:
    """Answer preflights, and mark what may be read by other origins. Raises SettingsError."""
    allowed = parse_origins(settings.cors_origins)

    def preflight() -> Response | None:
        asked = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        if not asked or not _is_allowed():
            return None
        response = Response(status=204)
        response.headers["Access-Control-Allow-Methods"] = METHODS
        response.headers["Access-Control-Allow-Headers"] = REQUEST_HEADERS
        response.headers["Access-Control-Max-Age"] = str(MAX_AGE_S)
        return response

    def mark(response: Response) -> Response:
        if not request.path.startswith(PATHS):
            return response
        if "*" not in allowed:
            response.vary.add("Origin")
        if _is_allowed():
            response.headers["Access-Control-Allow-Origin"] = "*" if "*" in allowed else request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = RESPONSE_HEADERS
            response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
        return response

    def _is_allowed() -> bool:
        origin = request.headers.get("Origin")
        return request.path.startswith(PATHS) and origin is not None and ("*" in allowed or origin in allowed)

    if allowed:
        app.before_request(preflight)
        app.after_request(mark)
