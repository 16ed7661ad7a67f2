"""The script that gives any other site a search box: one file, for everybody, without a version in its address."""

import gzip
import hashlib
from functools import cache
from pathlib import Path

from flask import Blueprint, Response, request

FRESH_S = 3600  # a page that has the script asks for a newer one after this time
_FILE = Path(__file__).parents[1] / "static" / "embed.js"

blueprint = Blueprint("embed", __name__)


@blueprint.get("/embed.js")
def script() -> Response:
    """Answer with the script, which pages of every origin may load; 304 where the browser has this one."""
    plain, packed, tag = _contents()
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
def _contents() -> tuple[bytes, bytes, str]:
    plain = _FILE.read_bytes()
    return plain, gzip.compress(plain, mtime=0), hashlib.sha256(plain).hexdigest()[:16]
