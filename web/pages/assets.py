"""Files that pages are made of, public: the operator's name and logo, and the search box for other sites."""

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from flask import Blueprint, Flask, Response, current_app, request, url_for
from werkzeug.exceptions import NotFound

from rag.errors import SettingsError
from rag.settings import Settings

YEAR_S = 365 * 24 * 3600  # safe because each address has a digest of what is there
FRESH_S = 3600  # a page that has the script of the search box asks for a newer one after this time
LARGEST_LOGO = 500_000  # bytes
MOST_NAME = 60  # characters
KINDS = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}

blueprint = Blueprint("assets", __name__)


class Brand(NamedTuple):
    """The looks of one application."""

    name: str
    logo: bytes | None
    logo_type: str


def register(app: Flask, settings: Settings) -> None:
    """Give all pages the brand. Raises SettingsError."""
    name = " ".join(settings.site_name.split())
    if not 0 < len(name) <= MOST_NAME:
        raise SettingsError(f"--site-name must have 1 to {MOST_NAME} characters, not {len(name)}")
    brand = Brand(name, *(_read_logo(settings.site_logo) if settings.site_logo else (None, "")))
    version = hashlib.sha256(brand.logo or b"").hexdigest()[:12]
    app.extensions["brand"] = brand
    app.jinja_env.globals["brand"] = brand
    app.jinja_env.globals["logo"] = lambda: url_for("assets.branding", file="logo", v=version)


@blueprint.get("/brand/<file>")
def branding(file: str) -> Response:
    """Answer with the operator's logo."""
    brand: Brand = current_app.extensions["brand"]
    if file != "logo" or brand.logo is None:
        raise NotFound
    response = Response(brand.logo, mimetype=brand.logo_type)
    # an SVG that is opened by itself is a document, which could have scripts
    response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    response.headers["Cache-Control"] = f"public, max-age={YEAR_S}, immutable"
    return response


@blueprint.get("/embed.js")
def script() -> Response:
    """Answer with the script, which pages of every origin may load; 304 where the browser has this one."""
    plain, packed, tag = _packed_script()
    is_packed = request.accept_encodings.quality("gzip") > 0
    response = Response(packed if is_packed else plain, mimetype="text/javascript")
    if is_packed:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.headers["Cache-Control"] = f"public, max-age={FRESH_S}"
    response.vary.add("Accept-Encoding")
    response.set_etag(tag, weak=True)  # of what it says, packed or not
    response.make_conditional(request)
    return response


@cache
def _packed_script() -> tuple[bytes, bytes, str]:
    plain = (Path(__file__).parents[1] / "static" / "embed.js").read_bytes()
    return plain, gzip.compress(plain, mtime=0), hashlib.sha256(plain).hexdigest()[:16]


def _read_logo(text: str) -> tuple[bytes, str]:
    path = Path(text).expanduser()
    media_type = KINDS.get(path.suffix.lower())
    if media_type is None:
        raise SettingsError(f"--site-logo must be a file of type {', '.join(KINDS)}, not {text!r}")
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_LOGO + 1)
    except OSError as error:
        raise SettingsError(f"--site-logo {text} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST_LOGO:
        raise SettingsError(f"--site-logo {text} has more than {LARGEST_LOGO:,} bytes: use a smaller image")
    return content, media_type
