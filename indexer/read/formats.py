"""Map media types and file suffixes to readers, as defined in `formats.toml`."""

import re
import tomllib
from mimetypes import MimeTypes
from pathlib import Path, PurePosixPath
from typing import Any

from indexer.text.charsets import has_only_text

_READERS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("formats.toml").read_text("utf-8"))
_TYPES = {reader: table.get("types", {}) for reader, table in _READERS.items()}
_READER_BY_TYPE = {kind: reader for reader, kinds in _TYPES.items() for kind in kinds}
_TYPE_BY_SUFFIX = {end: kind for kinds in _TYPES.values() for kind, ends in kinds.items() for end in ends.split()}
_TYPED_BY_NAME = frozenset(reader for reader, table in _READERS.items() if "is_named" in table)

CONTAINER = "container"
MAIL, ATTACHMENTS = "mail", "attachments"
LISTING = "listing"
HTML, ASCIIDOC, PLAIN = "html", "asciidoc", "plain"
PAGE = "page"
SCANS = "scans"
OCR_OFF = "OCR is off"
MAX_SITEMAP_LENGTH = 50 * 1024 * 1024  # decompressed bytes, as defined by sitemaps.org
MAX_ENTRIES = 50_000
FUNCTIONS = {reader: table["function"] for reader, table in _READERS.items() if "function" in table}
TEXT_READERS = _TYPED_BY_NAME | {HTML, PLAIN}  # these readers get no files with NUL bytes
# The media types that a crawl reads. Archives are often copies of pages, and images are often decoration.
CONTENT_TYPES = frozenset(kind for kind, reader in _READER_BY_TYPE.items() if reader not in (CONTAINER, SCANS))
OPENAPI = "application/openapi+json"
_DATA_TYPES = {".json": OPENAPI} | dict.fromkeys((".yaml", ".yml"), "application/openapi+yaml")
_BOM_AND_BLANKS = b"\xef\xbb\xbf \t\r\n"
_JSON_VERSION = re.compile(rb"\"(?:openapi|swagger)\"\s{0,9}:\s{0,9}\"[23]\.")
_YAML_VERSION = re.compile(
    rb"^(?:\xef\xbb\xbf)?[\"']?(?:openapi|swagger)[\"']?[ \t]{0,9}:[ \t]{0,9}[\"']?[23]\.", re.MULTILINE
)
IMAGE_TYPES = frozenset(_TYPES[SCANS])
_MBOX = re.compile(rb"From [^\n]*\n[\w-]+:")
_PUBLIC_TYPES = MimeTypes()


def content_type_of(name: str) -> str | None:
    """Return the media type that the suffix of a file name implies, or None if no reader handles this suffix."""
    path = PurePosixPath(name.lower())
    return _TYPE_BY_SUFFIX.get("".join(path.suffixes[-2:])) or _TYPE_BY_SUFFIX.get(path.suffix)


def type_by_content(name: str, body: bytes) -> str | None:
    """Return the media type of a file from its suffix or content, or None if files of this type are not read."""
    suffix = PurePosixPath(name.lower()).suffix
    if suffix in _DATA_TYPES:
        return _DATA_TYPES[suffix] if is_openapi(body) else None
    content_type = content_type_of(name)
    if content_type is None and body and not has_format(name) and has_only_text(body):
        content_type = "text/plain"
    return "application/mbox" if content_type == "text/plain" and _MBOX.match(body) else content_type


def has_format(name: str) -> bool:
    """Return whether the suffix of a file name may denote a format. In `README.Debian` and `NEWS.old` it does not."""
    path = PurePosixPath(name)
    is_in_capitals = path.stem.isalpha() and path.stem.isupper()
    is_proper_name = path.suffix[1:].istitle() and path.suffix[2:].isalpha()
    return bool(path.suffix and (_PUBLIC_TYPES.guess_type(name)[0] or not (is_in_capitals or is_proper_name)))


def is_openapi(body: bytes) -> bool:
    """Return whether a JSON or YAML file has a key `openapi` or `swagger` with a version number."""
    return (_JSON_VERSION if body.lstrip(_BOM_AND_BLANKS).startswith(b"{") else _YAML_VERSION).search(body) is not None


def refusal_of(name: str, no_images: str = OCR_OFF, *, is_by_name: bool = False) -> str:
    """Return the reason not to read a file, or "" if it is read.

    Args:
        name: the file name, with or without folders.
        no_images: the reason not to read images, or "" to read them.
        is_by_name: whether to refuse a file whose name does not tell its type.
    """
    content_type, suffix = content_type_of(name), PurePosixPath(name.lower()).suffix
    if content_type is None:
        may_be_read = not is_by_name and (suffix in _DATA_TYPES or not has_format(name))
        kind = f"file type {suffix}" if suffix else "a file without suffix"
        return "" if may_be_read else f"{kind} is not read"
    return f"an image: {no_images}" if no_images and content_type in IMAGE_TYPES else ""


def effective_type(content_type: str, name: str) -> str:
    """Return the declared media type. If plain text is declared for `x.md`, return the type of Markdown instead."""
    if content_type != "text/plain":
        return content_type
    by_name = content_type_of(name)
    return by_name if by_name and _READER_BY_TYPE[by_name] in _TYPED_BY_NAME else content_type


def reader_of(content_type: str) -> str | None:
    """Return the name of the reader of a media type, or None if the type is not read."""
    return _READER_BY_TYPE.get(content_type)


def is_source_code(content_type: str) -> bool:
    """Return whether a media type is source code."""
    return reader_of(content_type) == "source_code"
