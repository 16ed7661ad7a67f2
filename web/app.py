"""Create the Flask application (`create_app`), and start the services of a worker process (`application`)."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from flask import Blueprint, Flask, Response, current_app, jsonify, send_from_directory, url_for
from flask.json.provider import DefaultJSONProvider
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.sansio.response import Response as AnyResponse

from rag.errors import SettingsError
from rag.insights.store import Recorder
from rag.jobs.jobs import JobManager
from rag.jobs.pushes import PushedQueue
from rag.messages import Status
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import Settings, load
from web import metrics, openapi, problems
from web.api import documents, protocols, search
from web.api.requests import retriever as visible_retriever
from web.guards import access, limits
from web.openapi import Operation
from web.pages import document_pages, operator_pages, search_page
from web.problems import SECURITY_HEADERS, problem, respond

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

health = Blueprint("health", __name__)
BLUEPRINTS = (
    search.blueprint,
    search.answers,
    search_page.blueprint,
    operator_pages.status,
    operator_pages.insights,
    health,
    openapi.blueprint,
    protocols.openai,
    documents.blueprint,
    documents.jobs,
    protocols.mcp,
    document_pages.blueprint,
    document_pages.changes,
)

ASSET_MAX_AGE_S = 365 * 24 * 3600
SEARCH_BOX_MAX_AGE_S = 3600
MAX_NAME_CHARS = 60
# Matches a path prefix that browsers cannot interpret as a host, a parent folder or a script.
_PREFIX = re.compile(r"(?=.{1,200}\Z)(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+")
# Werkzeug fails on some dates in these request headers. Browsers can use ETags instead.
_REMOVED_HEADERS = ("HTTP_IF_MODIFIED_SINCE", "HTTP_IF_UNMODIFIED_SINCE", "HTTP_IF_RANGE", "HTTP_RANGE")
_DEFAULT_HEADERS = {**SECURITY_HEADERS, "Cache-Control": "no-store"}


@health.get("/livez")
@Operation(role=None, responses={200: dict[str, bool]})
def livez() -> Response:
    """Check that the server process responds."""
    return jsonify(live=True)


@health.get("/readyz")
@Operation(role=None, responses={200: Status}, errors=(503,))
def readyz() -> Response:
    """Check whether the server is ready, and describe it."""
    status = visible_retriever().status()
    if current_app.extensions["draining"].is_set():
        return respond(problem(503, "The server is shutting down: it finishes running requests, then stops."))
    if status["ready"]:
        return jsonify({**status, "ready": True})
    return respond(problem(503, str(status.get("reason") or "The model and the index are still loading.")))


def search_box() -> Response:
    """Return the script of the search box. Pages of all origins may load it."""
    response = send_from_directory(str(current_app.static_folder), "embed.js", max_age=SEARCH_BOX_MAX_AGE_S)
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response


class JsonProvider(DefaultJSONProvider):
    """A JSON provider that encodes structs and does not sort keys or escape non-ASCII characters."""

    def response(self, *args: Any, **kwargs: Any) -> AnyResponse:
        """Return a JSON response as `flask.jsonify` does. Raises TypeError if a value cannot be encoded."""
        return Response(msgspec.json.encode(self._prepare_response_obj(args, kwargs)), mimetype=self.mimetype)


def create_app(
    retriever: LiveRetriever,
    settings: Settings,
    builds: JobManager | None = None,
    pushes: PushedQueue | None = None,
    recorder: Recorder | None = None,
) -> Flask:
    """Create the application. The caller starts and closes the retriever. Raises SettingsError for invalid settings."""
    app = Flask(__name__)
    app.ensure_sync = cache(app.ensure_sync)  # type: ignore[method-assign]  # cached, because it is slow
    app.url_map.merge_slashes = False  # Flask would redirect to the host in a forged Host header
    app.config["MAX_CONTENT_LENGTH"] = limits.MAX_BODY_BYTES + 1
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = ASSET_MAX_AGE_S  # the address contains a hash of the content
    app.json = JsonProvider(app)
    app.extensions |= {"retriever": retriever, "settings": settings, "jobs": builds, "pushes": pushes}
    app.extensions |= {"insights": recorder, "draining": threading.Event()}
    metrics.install(app, retriever)
    note = app.extensions["metrics"].note
    if recorder:
        recorder.count = lambda outcome, number: note("insights_searches", outcome, value=number)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.add_url_rule("/embed.js", view_func=search_box)
    app.register_error_handler(Exception, problems.answer_error)
    access.register(app, settings)
    limits.register(app, settings, access.name_caller)
    app.wsgi_app = _with_default_headers(_behind_proxy(app, settings))  # type: ignore[assignment,method-assign]

    name = " ".join(settings.site_name.split())
    if not 0 < len(name) <= MAX_NAME_CHARS:
        raise SettingsError(f"--site-name must have 1 to {MAX_NAME_CHARS} characters, not {len(name)}")
    static = Path(app.static_folder or "")
    versions = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in static.iterdir()}
    environment = app.jinja_env
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.globals["asset"] = lambda name: url_for("static", filename=name, v=versions[name])
    environment.globals["site_name"] = name
    environment.globals["keeps_searches"] = lambda: recorder is not None
    return app


def application(settings: Settings | None = None) -> Flask:
    """Create the application and start its services. Raises SettingsError if settings are invalid."""
    settings = settings or load()
    follower = Follower(settings)
    follower.start()
    pushes = PushedQueue(settings)
    recorder = Recorder(settings.insights_folder, settings.insights) if settings.insights else None
    app = create_app(LiveRetriever(follower), settings, JobManager(settings), pushes, recorder)
    # Compile the templates in the background, before the first request.
    templates = app.jinja_env
    threading.Thread(target=lambda: list(map(templates.get_template, templates.list_templates())), daemon=True).start()
    pushes.start()
    if recorder:
        recorder.start()
    note = app.extensions["metrics"].note
    follower.cache.on_lookup = lambda kind, is_hit: note("query_cache_lookups", kind, "hit" if is_hit else "miss")
    return app


def close_app(app: Flask | None) -> None:
    """Stop the services of an application, and write queued metrics and searches to disk."""
    if app is None:
        return
    app.extensions["retriever"].close()
    app.extensions["metrics"].flush()
    app.extensions["stop_tracing"]()
    if recorder := app.extensions["insights"]:
        recorder.close()


def _with_default_headers(inner: Wsgi) -> Wsgi:
    """Wrap an application to remove _REMOVED_HEADERS from requests, and to add security headers to responses."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            missing = (_DEFAULT_HEADERS | dict(headers)).items() - headers
            return start_response(status, [*headers, *missing], *error)

        for name in _REMOVED_HEADERS:
            environ.pop(name, None)
        return inner(environ, start)

    return answer


def _behind_proxy(app: Flask, settings: Settings) -> Wsgi:
    """Wrap an application to accept paths below the prefix in `path_prefix` or X-Forwarded-Prefix."""
    inner = app.wsgi_app
    own_segments = frozenset(rule.rule.split("/")[1] for rule in app.url_map.iter_rules())

    def is_prefix(path: str) -> bool:
        return _PREFIX.fullmatch(path) is not None and path.split("/")[1] not in own_segments

    fixed = settings.path_prefix.strip().strip("/")
    if fixed:
        fixed = f"/{fixed}"
        if not is_prefix(fixed):
            raise SettingsError(
                f"--path-prefix {fixed[:80]!r} is not a path such as /search, or a route of this server begins with it"
            )

    def below_prefix(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        header = str(environ.get("HTTP_X_FORWARDED_PREFIX", "")).rpartition(",")[2].strip().rstrip("/")
        prefix = fixed or header
        if is_prefix(prefix):
            environ["SCRIPT_NAME"] = prefix
            path = environ.get("PATH_INFO", "")
            if path == prefix or path.startswith(prefix + "/"):
                environ["PATH_INFO"] = path[len(prefix) :] or "/"
        return inner(environ, start_response)

    if settings.proxies:
        return ProxyFix(below_prefix, x_for=settings.proxies, x_proto=settings.proxies)
    return below_prefix if fixed else inner
