"""Files that pages are made of, public: the operator's name, logo and colour, and the search box for other sites."""

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
# The backgrounds on which links stand, the least favourable ones of page.css, and the contrast that WCAG AA asks for.
LIGHT, DARK, CONTRAST = (0xF4, 0xF2, 0xEC), (0x1D, 0x1D, 0x22), 4.6
_COLOUR = re.compile(r"#([0-9a-fA-F]{6})")

Colour = tuple[int, ...]  # red, green, blue; 0 to 255

blueprint = Blueprint("assets", __name__)


@dataclass(frozen=True, slots=True)
class Brand:
    """The looks of one application."""

    name: str
    logo: bytes | None
    logo_type: str
    style: str  # CSS; empty for our own colour


def register(app: Flask, settings: Settings) -> None:
    """Give all pages the brand. Raises SettingsError."""
    name = " ".join(settings.site_name.split())
    if not 0 < len(name) <= MOST_NAME:
        raise SettingsError(f"--site-name must have 1 to {MOST_NAME} characters, not {len(name)}")
    logo, logo_type = _read_logo(settings.site_logo) if settings.site_logo else (None, "")
    brand = Brand(name, logo, logo_type, _style(settings.site_accent) if settings.site_accent else "")

    def address(file: str, content: bytes) -> str:
        return url_for("assets.branding", file=file, v=hashlib.sha256(content).hexdigest()[:12])

    app.extensions["brand"] = brand
    app.jinja_env.globals["brand"] = brand
    app.jinja_env.globals["logo"] = lambda: address("logo", brand.logo or b"")
    app.jinja_env.globals["accent"] = lambda: address("style.css", brand.style.encode())


@blueprint.get("/brand/<file>")
def branding(file: str) -> Response:
    """Answer with the operator's logo, or colour as a style sheet."""
    brand: Brand = current_app.extensions["brand"]
    if file == "style.css" and brand.style:
        response = Response(brand.style, mimetype="text/css")
    elif file == "logo" and brand.logo is not None:
        response = Response(brand.logo, mimetype=brand.logo_type)
        # an SVG that is opened by itself is a document, which could have scripts
        response.headers["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    else:
        raise NotFound
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


def _style(text: str) -> str:
    found = _COLOUR.fullmatch(text.strip())
    if not found:
        raise SettingsError(f"--site-accent must be a colour such as #b3261e, not {text!r}")
    accent: Colour = tuple(bytes.fromhex(found[1]))
    light, dark = (bytes(legible(accent, background)).hex() for background in (LIGHT, DARK))
    return f":root {{ --accent: #{found[1].lower()}; --link: light-dark(#{light}, #{dark}); }}\n"


def legible(colour: Colour, background: Colour) -> Colour:
    """Return the colour, made darker or lighter by as much as it takes to be read on a background."""
    towards = 0 if _luminance(background) > 0.5 else 255
    for step in range(20):
        mixed = tuple(round(part + (towards - part) * step / 20) for part in colour)
        if contrast(mixed, background) >= CONTRAST:
            return mixed
    return (towards, towards, towards)


def contrast(one: Colour, other: Colour) -> float:
    """Return the contrast ratio of WCAG 2.2, from 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    linear = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
