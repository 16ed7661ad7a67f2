"""Other sites whose pages may call the API: all of it if the settings name them, and search if a key of pages does.

Keys travel in the Authorization header, so no answer ever allows a browser to send its own credentials: then it does
not matter who asks, and `*` is safe.
"""

from flask import Flask, Response, request

from rag.errors import SettingsError
from rag.serving.api_keys import ORIGINS_ARE, is_origin
from rag.settings import Settings
from web.guards.access import FOR_PAGES, Access

PATHS = ("/api/", "/v1/", "/openapi.json")
METHODS = "GET, POST, DELETE"
REQUEST_HEADERS = "Authorization, Content-Type, X-Request-Id"
RESPONSE_HEADERS = "Retry-After, X-Request-Id"
MAX_AGE_S = 600


def parse_origins(text: str) -> frozenset[str]:
    """Read the setting. Raises SettingsError for what is not an origin as browsers write it."""
    origins = frozenset(part.strip() for part in text.split(",") if part.strip())
    for origin in origins:
        if origin != "*" and not is_origin(origin):
            raise SettingsError(f"--cors-origins: {origin!r} is not an origin: {ORIGINS_ARE}")
    return origins


def register(app: Flask, settings: Settings) -> None:
    """Answer preflights, and mark what may be read by other origins. Raises SettingsError."""
    allowed = parse_origins(settings.cors_origins)
    access: Access = app.extensions["access"]

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
        if origin is None or not request.path.startswith(PATHS):
            return False
        if "*" in allowed or origin in allowed:
            return True
        return request.endpoint in FOR_PAGES and origin in access.origins()

    app.before_request(preflight)
    app.after_request(mark)
