"""Records as bytes, for the way to another machine and back: JSON, which both sides can read without running code."""

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from indexer.records import Chunk, Document, Page, Parsed, ScanCounts, Stated, access_from_json

_PAGE = tuple(field.name for field in fields(Page) if field.name not in ("body", "reading"))
_DOCUMENT = tuple(
    field.name for field in fields(Document) if field.name not in ("sections", "metadata", "scans", "access", "notes")
)
_CHUNK = tuple(field.name for field in fields(Chunk))


def pack_page(page: Page) -> bytes:
    """Everything of a page but its body, which is bytes as it is."""
    return pack(_values(page, _PAGE))


def unpack_page(data: bytes, body: bytes) -> Page:
    """The page."""
    given = dict(zip(_PAGE, unpack(data), strict=True))
    stated = Stated.from_json(given["stated"])
    return Page(**given | {"body": body, "links": tuple(given["links"]), "stated": stated})


def pack_parsed(parsed: Parsed) -> bytes:
    """A document that has been cut: with its chunks, and without its sections, which nobody asks for any more."""
    document = parsed.document
    metadata = {name: list(values) for name, values in document.metadata.items()}
    chunks = [_values(chunk, _CHUNK) for chunk in parsed.chunks or ()]
    rest = [metadata, document.scans, document.access, document.notes, chunks, dict(parsed.seconds)]
    return pack([_values(document, _DOCUMENT), *rest])


def unpack_parsed(data: bytes) -> Parsed:
    """The document and its chunks."""
    given, metadata, (pages, lines, left_out, unread), access, notes, chunks, seconds = unpack(data)
    document = Document(
        **dict(zip(_DOCUMENT, given, strict=True)),
        sections=(),
        metadata={name: tuple(values) for name, values in metadata.items()},
        scans=ScanCounts(pages, lines, left_out, tuple((page, reason) for page, reason in unread)),
        access=access_from_json(access),
        notes=tuple(notes),
    )
    cut = [Chunk(**dict(zip(_CHUNK, values, strict=True))) for values in chunks]
    return Parsed(document, cut, seconds)


def _values(record: object, names: Sequence[str]) -> list[Any]:
    return [getattr(record, name) for name in names]


def pack(value: Any) -> bytes:
    """Return a value as JSON can hold it."""
    # half of a surrogate pair, which a page may hold, is no UTF-8 but has to arrive as well
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def unpack(data: bytes) -> Any:
    """Return a value that was packed; tuples come back as lists."""
    return json.loads(data.decode("utf-8", "surrogatepass"))
