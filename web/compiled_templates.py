"""The templates of the pages, each compiled once in a process and in what it forks, whatever the applications."""

from types import CodeType

from flask import Flask
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket


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
_PAGE = ("base.html", "hits.html", "page.html", "parts.html", "reading.html", "state.html")


def configure(app: Flask) -> None:
    """Set how an application reads templates, and where it finds those that are compiled."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.bytecode_cache = _COMPILED


def compile_page() -> None:
    """Compile the templates of the search page, so that no worker does it for its first reader."""
    app = Flask("web")
    configure(app)
    for name in _PAGE:
        app.jinja_env.get_template(name)
