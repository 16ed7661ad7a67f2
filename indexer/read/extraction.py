"""Clean the text of documents, and convert documents to and from the JSON of reader processes.

A reader process has read an untrusted file, so its response is not trusted either: `from_json` checks every field, and
removes invisible characters from every text.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from indexer.errors import ParseError
from indexer.filter import MAX_VALUES, folded, is_day, primary_language
from indexer.read.access_list import checked_names
from indexer.records import Declared, Extraction, Section, SectionBlock
from indexer.text import reader_notes
from indexer.text.cleaning import fold, one_line, shorten, visible

MAX_NAME_LENGTH = 64
MAX_VALUE_LENGTH = 256
_MAX_HEADING_DEPTH = 12
_MAX_HEADING_LENGTH = 200
_MAX_ANCHOR_LENGTH = 200
_MAX_NOTE_LENGTH = 120
_LINK_TEXT_BYTES = range(12, 200)
_EMPTY_LINES = re.compile(r"\n{3,}")
_MAX_REFRESH_SECONDS = 60
_MAX_REFRESH_LENGTH = 3_000
# delay in seconds, optional "url=", and address
_REFRESH = re.compile(r"(\d{0,9})[\d.]*[\s;,]*(url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_NO_LANGUAGE = ("und", "mul", "zxx")  # unknown, several, none
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


def to_json(content: Extraction) -> dict[str, Any]:
    """Convert an extraction to the JSON values that `from_json` reads."""
    text = "\n".join(section.text for section in content.sections)
    declared = content.declared
    # pages in other languages often declare English, because the template of their site does
    is_doubtful = declared.language == "en" and not text.isascii() and _has_foreign_letters(text)
    detected = detect_language(text) if is_doubtful or not declared.language else None
    return {
        "title": content.title,
        "sections": [[each.path, each.anchor, each.text, each.marks, each.blocks] for each in content.sections],
        "language": detected or "en" if is_doubtful else declared.language,
        "date": declared.date,
        "metadata": dict(declared.metadata),
        "access": declared.access,
        "is_link_list": content.is_link_list,
        "link_texts": [(url, fold(text)) for url, text in content.link_texts if len(text.encode()) in _LINK_TEXT_BYTES],
        "detected": detected,
        "scanned": content.scanned,
        "notes": (*content.notes, *reader_notes.take()),
    }


def from_json(answer: Mapping[str, Any]) -> Extraction:
    """Check and clean the response of a reader process. Raises ParseError if the response is invalid."""
    try:
        pairs = [(name, value) for name, values in answer["metadata"].items() for value in values]
        access = checked_names(answer.get("access"))
        return Extraction(
            title=_clean_heading(answer["title"] or "") or None,
            sections=tuple(section for fields in answer["sections"] if (section := _checked_section(*fields))),
            declared=Declared(language_of(answer["language"]), day_of(answer["date"]), collect(pairs), access),
            is_link_list=answer.get("is_link_list") is True,
            link_texts=tuple((url[:2_000], visible(text)[:200]) for url, text in answer.get("link_texts", ())[:100]),
            detected=language_of(answer.get("detected")),
            scanned=tuple(page for page in answer.get("scanned", ()) if isinstance(page, int)),
            notes=clean_notes(answer.get("notes", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _checked_section(path: list[Any], anchor: Any, text: Any, marks: list[Any], blocks: list[Any]) -> Section | None:
    cleaned = clean(text)
    if not cleaned:
        return None
    checked_marks, checked_blocks = list[tuple[int, str]](), list[SectionBlock]()
    if cleaned == text:
        for place, name in marks:
            if (mark := _clean_anchor(name)) and isinstance(place, int) and 0 <= place < len(text):
                checked_marks.append((place, mark))
        for start, end, head in blocks:
            after = checked_blocks[-1].end if checked_blocks else 0
            if isinstance(start, int) and isinstance(end, int) and after <= start < end <= len(text):
                checked_blocks.append(SectionBlock(start, end, None if head is None else visible(head)))
    headings = tuple(heading for name in path[:_MAX_HEADING_DEPTH] if (heading := _clean_heading(name)))
    marks_in_order = tuple(sorted(checked_marks, key=lambda mark: mark[0]))
    return Section(headings, _clean_anchor(anchor), cleaned, marks_in_order, tuple(checked_blocks))


def clean_notes(untrusted: object) -> tuple[str, ...]:
    """Shorten the notes of a reader process to single lines of 120 characters. Raises TypeError if they are no list."""
    if not isinstance(untrusted, list | tuple):
        raise TypeError("notes are not a list")
    texts = (one_line(str(note)).replace(";", ",") for note in untrusted[: reader_notes.MAX_NOTES])
    lines = (shorten(text, _MAX_NOTE_LENGTH) for text in texts)
    return tuple(dict.fromkeys(line for line in lines if line))


def clean(text: str) -> str:
    """Remove invisible characters from a text, and empty lines from its beginning and end."""
    shown = visible(text)
    start, end = len(shown) - len(shown.lstrip()), len(shown.rstrip())
    if start >= end:
        return ""
    # keep the indentation of the first line, and spaces at the end of the last line
    begin, newline = shown.rfind("\n", 0, start) + 1, shown.find("\n", end)
    return shown[begin : newline if newline >= 0 else len(shown)]


def tidy(text: str) -> str:
    """Remove invisible characters, spaces at line ends, and repeated empty lines."""
    return _EMPTY_LINES.sub("\n\n", "\n".join(line.rstrip() for line in visible(text).split("\n")))


def _clean_heading(text: str) -> str:
    return shorten(fold(text), _MAX_HEADING_LENGTH)


def _clean_anchor(anchor: str | None) -> str | None:
    line = fold(anchor) if anchor is not None else ""
    return line if 0 < len(line) <= _MAX_ANCHOR_LENGTH else None


def language_of(tag: str | None) -> str | None:
    """Return the language of a language tag, such as "de" for "de-AT", or None if the tag names no language."""
    language = primary_language((tag or "").strip())
    return None if language in _NO_LANGUAGE else language


def refresh_in(value: str) -> tuple[int, str] | None:
    """Parse a refresh such as `5; url=/new` to (seconds, address), or None if it has no address or over 60 seconds."""
    match = _REFRESH.match(value[:_MAX_REFRESH_LENGTH].strip())
    if match is None or not (match[1] or match[2]):
        return None
    seconds, address = int(match[1] or 0), match[3].strip()
    if address[:1] in ("'", '"'):
        address = address[1:].partition(address[0])[0].strip()
    return (seconds, address) if address and seconds <= _MAX_REFRESH_SECONDS else None


def day_of(moment: str | None) -> str | None:
    """Return the day of an ISO 8601 or HTTP date as YYYY-MM-DD, or None if the date is invalid."""
    moment = (moment or "").strip()
    if iso := _DAY.match(moment):
        return iso[0] if is_day(iso[0]) else None
    try:
        return parsedate_to_datetime(moment).date().isoformat()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def first_day(moments: Iterable[str | None]) -> str | None:
    """Return the day of the first valid date as YYYY-MM-DD, or None if no date is valid."""
    return next((day for moment in moments if (day := day_of(moment))), None)


def collect(pairs: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """Group metadata values by name, in order. Drop blank or long names and values, and limit their number."""
    result: dict[str, list[str]] = {}
    for name, value in ((folded(visible(name)), folded(visible(value))) for name, value in pairs):
        if not 0 < len(name) <= MAX_NAME_LENGTH or not 0 < len(value) <= MAX_VALUE_LENGTH:
            continue
        if name not in result and len(result) == MAX_VALUES:
            continue
        values = result.setdefault(name, [])
        if value not in values and len(values) < MAX_VALUES:
            values.append(value)
    return {name: tuple(values) for name, values in result.items()}


_LANGUAGE_SAMPLE = 2_000
_MIN_LANGUAGE_SAMPLE = 40
_MIN_CONFIDENCE = 0.8  # probability; source code, tables and mixed languages have less
_MAX_NON_ASCII_SHARE = 0.01  # share of all letters; English text has 0.001
_LANGUAGES_OF_DIALECTS = {"ary": "ar", "arz": "ar", "wuu": "zh", "yue": "zh"}


def detect_language(text: str) -> str | None:
    """Return the two- or three-letter code of a text's language, or None if the language is uncertain."""
    if len(text) < _MIN_LANGUAGE_SAMPLE:
        return None
    scores: Counter[str] = Counter()
    for name, share in _identifier().rank(text[:_LANGUAGE_SAMPLE]):
        scores[_LANGUAGES_OF_DIALECTS.get(name, name)] += share
    [(language, confidence)] = scores.most_common(1)
    return language_of(language) if confidence >= _MIN_CONFIDENCE else None


def _has_foreign_letters(text: str) -> bool:
    letters = [letter for letter in text[:_LANGUAGE_SAMPLE] if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) > _MAX_NON_ASCII_SHARE * len(letters)


@cache
def _identifier() -> Any:
    # imported only in reader processes, because the import takes 0.3 seconds and 100 MB of memory
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
