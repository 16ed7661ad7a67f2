"""The application factory."""

import hashlib
from pathlib import Path

from flask import Flask, Response, url_for

from web import health, page, problems, search
from web.retriever import Limits, Retriever

YEAR_S = 365 * 24 * 3600
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
}


def create_app(retriever: Retriever, settings: Limits) -> Flask:
    """Build the Flask application around a retriever; the caller starts and closes the retriever."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = search.MAX_BODY_BYTES + 1
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = YEAR_S  # safe because `asset` names a file by its content
    app.json.sort_keys = False  # type: ignore[attr-defined]  # the default provider, which is never replaced, has it
    app.extensions["retriever"] = retriever
    app.extensions["limits"] = settings
    for blueprint in (search.blueprint, page.blueprint, health.blueprint):
        app.register_blueprint(blueprint)
    problems.register(app)
    app.after_request(_protect)

    versions = _asset_versions(Path(app.static_folder or ""))

    def asset(name: str) -> str:
        return url_for("static", filename=name, v=versions[name])

    app.jinja_env.globals["asset"] = asset
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    return app


def _protect(response: Response) -> Response:
    response.headers.update(SECURITY_HEADERS)
    # answers change when the index does
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _asset_versions(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in folder.iterdir()}
