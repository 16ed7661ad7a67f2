"""The application: `create_app` puts its parts together, `application` starts all that a worker serves with."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType
from typing import Any

import msgspec
from flask import Flask, Response, url_for
from flask.json.provider import DefaultJSONProvider
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.sansio.response import Response as AnyResponse

from rag.errors import SettingsError
from rag.insights.recorder import Recorder
from rag.serving.job_manager import JobManager
from rag.serving.live import LiveRetriever
from rag.serving.pushed_queue import PushedQueue
from rag.settings import Settings, load
from web import insights, openapi, problems
from web.api import answers, documents, health, jobs, openai, search
from web.guards import access, cors, limits
from web.observe import telemetry
from web.pages import assets, document_page, operator_pages, search_page
from web.problems import SECURITY_HEADERS

BLUEPRINTS = (
    search.blueprint,
    answers.blueprint,
    search_page.blueprint,
    operator_pages.status,
    operator_pages.insights,
    health.blueprint,
    openapi.blueprint,
    openai.blueprint,
    documents.blueprint,
    jobs.blueprint,
    document_page.blueprint,
    assets.blueprint,
)

# one or more segments that no browser reads as another host, a parent folder or a script
_PREFIX = re.compile(r"(?=.{1,200}\Z)(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+")
_PAGE = ("base.html", "hits.html", "page.html", "parts.html", "reading.html", "state.html")  # templates of the page
_PROTECTION = {**SECURITY_HEADERS, "Cache-Control": "no-store"}  # answers change when the index does


def create_app(
    retriever: LiveRetriever,
    settings: Settings,
    builds: JobManager | None = None,
    pushes: PushedQueue | None = None,
    recorder: Recorder | None = None,
) -> Flask:
    """Build the Flask application around a retriever; the caller starts and closes the retriever, and the recorder.

    Raises SettingsError for an origin or a path prefix that is none, or a logo or colour that cannot be used.
    """
    app = Flask(__name__)
    app.url_map.merge_slashes = False  # whatever Host is given would stand in a redirect
    app.config["MAX_CONTENT_LENGTH"] = limits.MAX_BODY_BYTES + 1
    app.extensions["draining"] = threading.Event()  # set by the server once it is told to stop
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = assets.YEAR_S  # safe because `asset` names a file by its content
    app.json = JsonProvider(app)
    app.extensions["retriever"] = retriever
    app.extensions["limits"] = settings
    app.extensions["jobs"] = builds
    app.extensions["pushes"] = pushes
    telemetry.install(app, retriever, pushes)  # first, so that it sees what others refuse
    insights.install(app, recorder)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    assets.register(app, settings)
    problems.register(app)
    access.register(app, settings)
    cors.register(app, settings)
    app.after_request(_protect)
    limits.register_queue(app, settings.queue)
    limits.register(app, settings)
    own_segments = frozenset(rule.rule.split("/")[1] for rule in app.url_map.iter_rules())
    prefix = settings.path_prefix.strip().strip("/")
    if prefix:
        prefix = f"/{prefix}"
        if not _is_prefix(prefix, own_segments):
            raise SettingsError(
                f"--path-prefix {prefix[:80]!r} must be a path such as /search, and no route may begin with it"
            )
    if prefix or settings.proxies:
        app.wsgi_app = PathPrefix(app.wsgi_app, own_segments, prefix)  # type: ignore[method-assign]
    if settings.proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxies, x_proto=settings.proxies)  # type: ignore[method-assign]

    versions = _asset_versions(Path(app.static_folder or ""))

    def asset(name: str) -> str:
        return url_for("static", filename=name, v=versions[name])

    app.jinja_env.globals["asset"] = asset
    _configure_templates(app)
    return app


def application(settings: Settings | None = None) -> Flask:
    """Build the application, from the environment unless it is told; the model loads in the background.

    Raises SettingsError.
    """
    settings = settings or load()
    retriever = LiveRetriever(settings)
    retriever.start()
    pushes = PushedQueue(settings)
    recorder = Recorder(settings) if settings.insights else None
    app = create_app(retriever, settings, JobManager(settings), pushes, recorder)
    pushes.start()
    if recorder:
        recorder.start()
    retriever.on_run = app.extensions["metrics"].batch
    return app


def _protect(response: Response) -> Response:
    given = {name.lower() for name, _ in response.headers}  # a route may have a stricter policy of its own
    response.headers.extend([(name, value) for name, value in _PROTECTION.items() if name.lower() not in given])
    return response


def _asset_versions(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in folder.iterdir()}


class JsonProvider(DefaultJSONProvider):
    """Flask's own, but that answers are UTF-8, may be structs, and keep the order of their keys."""

    sort_keys = False

    def response(self, *args: Any, **kwargs: Any) -> AnyResponse:
        """Return an answer as `flask.jsonify` does. Raises TypeError for a value that JSON cannot hold."""
        value = self._prepare_response_obj(args, kwargs)
        try:
            body = msgspec.json.encode(value)
        except (OverflowError, UnicodeEncodeError):  # whole numbers beyond 64 bits, half a surrogate pair
            return super().response(msgspec.to_builtins(value))
        return Response(body, mimetype=self.mimetype)


def _is_prefix(path: str, own_segments: frozenset[str]) -> bool:
    return _PREFIX.fullmatch(path) is not None and path.split("/")[1] not in own_segments


class PathPrefix:
    """Middleware that serves below a path of another site: it sets SCRIPT_NAME, which Flask puts before every address.

    The setting says the path, or else the nearest proxy in X-Forwarded-Prefix. The proxy may have taken it off the
    address already, or not.
    """

    def __init__(
        self, app: Callable[[dict[str, Any], Any], Iterable[bytes]], own_segments: frozenset[str], prefix: str
    ) -> None:
        """Take the application, the first segments of its addresses, which no prefix may have, and the setting."""
        self._app = app
        self._own_segments = own_segments
        self._prefix = prefix

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        header = str(environ.get("HTTP_X_FORWARDED_PREFIX", "")).rpartition(",")[2].strip().rstrip("/")
        prefix = self._prefix or header
        if _is_prefix(prefix, self._own_segments):
            environ["SCRIPT_NAME"] = prefix
            path = environ.get("PATH_INFO", "")
            if path == prefix or path.startswith(prefix + "/"):
                environ["PATH_INFO"] = path[len(prefix) :] or "/"
        return self._app(environ, start_response)


class CompiledTemplates(BytecodeCache):
    """Keeps the code of templates in memory."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Give a template its code, if this source of it has been compiled."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template."""
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


def _configure_templates(app: Flask) -> None:
    """Set how an application reads templates, and where it finds those that are compiled."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.bytecode_cache = _COMPILED


def compile_page() -> None:
    """Compile the templates of the search page, so that no worker does it for its first reader."""
    app = Flask("web")
    _configure_templates(app)
    for name in _PAGE:
        app.jinja_env.get_template(name)
