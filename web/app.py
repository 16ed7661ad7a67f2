"""The application factory."""

import hashlib
import threading
from pathlib import Path

from flask import Flask, Response, url_for
from werkzeug.middleware.proxy_fix import ProxyFix

from rag.insights.recorder import Recorder
from rag.settings import Settings
from web import compiled_templates, insights, openapi, problems
from web.api import answers, documents, health, jobs, openai, search
from web.encoding import JsonProvider
from web.guards import access, cors, limits
from web.observe import telemetry
from web.pages import assets, document_page, operator_pages, search_page
from web.path_prefix import PathPrefix
from web.retriever import Jobs, Pushes, Retriever
from web.security_headers import SECURITY_HEADERS
from web.sizes import MAX_BODY_BYTES

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

_PROTECTION = {**SECURITY_HEADERS, "Cache-Control": "no-store"}  # answers change when the index does


def create_app(
    retriever: Retriever,
    settings: Settings,
    builds: Jobs | None = None,
    pushes: Pushes | None = None,
    recorder: Recorder | None = None,
) -> Flask:
    """Build the Flask application around a retriever; the caller starts and closes the retriever, and the recorder.

    Raises SettingsError for an origin or a path prefix that is none, or a logo or colour that cannot be used.
    """
    app = Flask(__name__)
    app.url_map.merge_slashes = False  # whatever Host is given would stand in a redirect
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES + 1
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
    if settings.proxies:
        app.wsgi_app = PathPrefix(app.wsgi_app, own_segments)  # type: ignore[method-assign]
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxies, x_proto=settings.proxies)  # type: ignore[method-assign]

    versions = _asset_versions(Path(app.static_folder or ""))

    def asset(name: str) -> str:
        return url_for("static", filename=name, v=versions[name])

    app.jinja_env.globals["asset"] = asset
    compiled_templates.configure(app)
    return app


def _protect(response: Response) -> Response:
    given = {name.lower() for name, _ in response.headers}  # a route may have a stricter policy of its own
    response.headers.extend([(name, value) for name, value in _PROTECTION.items() if name.lower() not in given])
    return response


def _asset_versions(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in folder.iterdir()}
