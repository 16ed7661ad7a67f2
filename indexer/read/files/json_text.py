"""JSON and JSON Lines to content: every record that has a field of text is a section."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from indexer.decoding import decode
from indexer.errors import ParseError
from indexer.read.extraction import Extraction
from indexer.records import Section

_TEXTS = ("text", "content", "body", "contents", "page_content", "passage")
_TITLES = ("title", "name", "subject", "heading")


def read(body: bytes, charset: str | None) -> Extraction:
    """Read a record, a list of records, an object that holds one, or a record in each line; raises ParseError.

    JSON in which no record has text, such as settings, gives no section.
    """
    text = decode(body, charset, markup=False)
    records: Iterable[Any]
    try:
        records = _records(json.loads(text))
    except json.JSONDecodeError as error:
        records = _lines(text, error)
    except ValueError as error:  # such as a number of too many digits
        raise ParseError(f"JSON that cannot be read: {error}") from error
    sections = tuple(section for record in records if (section := _section(record)))
    alone = sections[0].path[0] if len(sections) == 1 and sections[0].path else None
    return Extraction(alone, sections)


def _lines(text: str, whole: json.JSONDecodeError) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                first = number == 1
                where = f"line {whole.lineno}: {whole.msg}" if first else f"line {number}: {error}"
                raise ParseError(f"neither JSON nor a record in each line, see {where}") from error


def _records(value: object) -> list[Any]:
    if isinstance(value, dict) and not _field(value, _TEXTS):
        return next((held for held in value.values() if isinstance(held, list) and held), [])
    return value if isinstance(value, list) else [value]


def _section(record: object) -> Section | None:
    if not isinstance(record, dict):
        return None
    text, title = _field(record, _TEXTS), _field(record, _TITLES)
    return Section((title,) if title else (), None, text) if text else None


def _field(record: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := record.get(name), str) and value.strip()), "")
