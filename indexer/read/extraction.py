"""The text that a reader finds in a document, and the form in which it leaves the reader process.

That process has read a file from a stranger, so nothing it says is trusted: its answer is JSON whose every part is
checked, and every text is cleaned of invisible characters here, once for all formats.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from indexer.errors import ParseError
from indexer.filter import MOST_VALUES, folded, is_day, primary_language
from indexer.read.access_list import checked_names
from indexer.records import Declared, Extraction, Section, SectionBlock
from indexer.text import reader_notes
from indexer.text.cleaning import fold, one_line, shorten, visible

LONGEST_NAME = 64  # characters; what is longer is left out, since half a value would match nothing
LONGEST_VALUE = 256
_DEEPEST = 12  # headings in a path
_LONGEST_HEADING = 200  # characters
_LONGEST_ANCHOR = 200  # characters; one that is cut leads nowhere
_LONGEST_NOTE = 120  # characters
_EMPTY_LINES = re.compile(r"\n{3,}")
_LONGEST_DELAY = 60  # seconds; pages that send on later are made to be read, or wait for something
_LONGEST_REFRESH = 3_000  # characters of a value
# seconds, of which fractions do not count, a separator, url=, an address in quotes or without
_REFRESH = re.compile(r"(\d{0,9})[\d.]*[\s;,]*(url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_NO_LANGUAGE = ("und", "mul", "zxx")  # unknown, several, none
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


def to_json(content: Extraction) -> dict[str, Any]:
    """Return lists, dictionaries and texts that `from_json` understands."""
    text = "\n".join(section.text for section in content.sections)
    declared = content.declared
    # templates say English of every page
    is_doubtful = declared.language == "en" and not text.isascii() and _has_foreign_letters(text)
    detected = detect_language(text) if is_doubtful or not declared.language else None
    return {
        "title": content.title,
        "sections": [[part.path, part.anchor, part.text, part.marks, part.blocks] for part in content.sections],
        "language": detected or "en" if is_doubtful else declared.language,
        "date": declared.date,
        "metadata": dict(declared.metadata),
        "access": declared.access,
        "is_link_list": content.is_link_list,
        "detected": detected,
        "scanned": content.scanned,
        "notes": (*content.notes, *reader_notes.take()),
    }


def from_json(answer: Mapping[str, Any]) -> Extraction:
    """Read an extraction from an answer, and clean it; raises ParseError if it is not one."""
    try:
        pairs = [(name, value) for name, values in answer["metadata"].items() for value in values]
        access = checked_names(answer.get("access"))
        return Extraction(
            title=_line(answer["title"] or "") or None,
            sections=tuple(section for fields in answer["sections"] if (section := _section(*fields))),
            declared=Declared(language_of(answer["language"]), day_of(answer["date"]), collect(pairs), access),
            is_link_list=answer.get("is_link_list") is True,
            detected=language_of(answer.get("detected")),
            scanned=tuple(page for page in answer.get("scanned", ()) if isinstance(page, int)),
            notes=clean_notes(answer.get("notes", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _section(path: list[Any], anchor: Any, text: Any, marks: list[Any], wholes: list[Any]) -> Section | None:
    """Return a section of an answer, without places that are not in its text, or None if there is no text."""
    cleaned = clean(text)
    if not cleaned:
        return None
    found_marks, found_wholes = list[tuple[int, str]](), list[SectionBlock]()
    if cleaned == text:
        for place, name in marks:
            if (mark := _anchor(name)) and isinstance(place, int) and 0 <= place < len(text):
                found_marks.append((place, mark))
        for start, end, head in wholes:
            after = found_wholes[-1].end if found_wholes else 0
            if isinstance(start, int) and isinstance(end, int) and after <= start < end <= len(text):
                found_wholes.append(SectionBlock(start, end, None if head is None else visible(head)))
    headings = tuple(heading for name in path[:_DEEPEST] if (heading := _line(name)))
    marks_in_order = tuple(sorted(found_marks, key=lambda mark: mark[0]))
    return Section(headings, _anchor(anchor), cleaned, marks_in_order, tuple(found_wholes))


def clean_notes(found: object) -> tuple[str, ...]:
    """Return the notes of an untrusted answer as short single lines; raises TypeError if they are not a list."""
    if not isinstance(found, list | tuple):
        raise TypeError("notes are not a list")
    lines = (shorten(one_line(str(note)).replace(";", ","), _LONGEST_NOTE) for note in found[: reader_notes.MAX_NOTES])
    return tuple(dict.fromkeys(line for line in lines if line))


def clean(text: str) -> str:
    """Remove invisible characters, and empty lines at both ends; within, code stays as it is written."""
    shown = visible(text)
    start, end = len(shown) - len(shown.lstrip()), len(shown.rstrip())
    if start >= end:
        return ""
    # the indentation of the first line stays, and so do spaces at the end of the last
    begin, newline = shown.rfind("\n", 0, start) + 1, shown.find("\n", end)
    return shown[begin : newline if newline >= 0 else len(shown)]


def tidy(text: str) -> str:
    """Remove spaces at line ends, and all but one of several empty lines: for texts whose shape was never meant."""
    return _EMPTY_LINES.sub("\n\n", "\n".join(line.rstrip() for line in visible(text).split("\n")))


def _line(text: str) -> str:
    return shorten(fold(text), _LONGEST_HEADING)


def _anchor(anchor: str | None) -> str | None:
    line = fold(anchor) if anchor is not None else ""
    return line if 0 < len(line) <= _LONGEST_ANCHOR else None


def language_of(tag: str | None) -> str | None:
    """Return the primary subtag of a language tag in lower case, or None where it names no language."""
    language = primary_language((tag or "").strip())
    return None if language in _NO_LANGUAGE else language


def refresh_in(value: str) -> tuple[int, str] | None:
    """Return the seconds and the address of a refresh, or None if it leads nowhere, or late."""
    found = _REFRESH.match(value[:_LONGEST_REFRESH].strip())
    if found is None or not (found[1] or found[2]):
        return None
    seconds, address = int(found[1] or 0), found[3].strip()
    if address[:1] in ("'", '"'):
        address = address[1:].partition(address[0])[0].strip()
    return (seconds, address) if address and seconds <= _LONGEST_DELAY else None


def day_of(moment: str | None) -> str | None:
    """Return the day of an ISO 8601 or HTTP date as YYYY-MM-DD, as it is written there, or None where it is neither."""
    moment = (moment or "").strip()
    if iso := _DAY.match(moment):
        return iso[0] if is_day(iso[0]) else None
    try:
        return parsedate_to_datetime(moment).date().isoformat()
    except (TypeError, ValueError, IndexError, OverflowError):  # whatever the parser trips over
        return None


def first_day(moments: Iterable[str | None]) -> str | None:
    """Return the day of the first of several dates that can be read."""
    return next((day for moment in moments if (day := day_of(moment))), None)


def collect(pairs: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """Group values by name, in the order given; blank and overlong ones, and those past the limits, are left out."""
    found: dict[str, list[str]] = {}
    for name, value in ((folded(visible(name)), folded(visible(value))) for name, value in pairs):
        if not 0 < len(name) <= LONGEST_NAME or not 0 < len(value) <= LONGEST_VALUE:
            continue
        if name not in found and len(found) == MOST_VALUES:
            continue
        values = found.setdefault(name, [])
        if value not in values and len(values) < MOST_VALUES:
            values.append(value)
    return {name: tuple(values) for name, values in found.items()}


_READ = 2_000  # characters; more would hardly change the answer
_SHORTEST = 40  # characters; a guess from less is worth nothing
_CONFIDENT = 0.8  # of 1; below it are code, tables and mixtures
_FOREIGN = 0.01  # of the letters, which are not ASCII; of English prose one in thousands
_DIALECTS = {"ary": "ar", "arz": "ar", "wuu": "zh", "yue": "zh"}  # which share the probability of their language


def detect_language(text: str) -> str | None:
    """Return the two- or three-letter code of the language a text is in, or None where that is not plain."""
    if len(text) < _SHORTEST:
        return None
    found: Counter[str] = Counter()
    for name, share in _identifier().rank(text[:_READ]):
        found[_DIALECTS.get(name, name)] += share
    [(language, confidence)] = found.most_common(1)
    return language_of(language) if confidence >= _CONFIDENT else None


def _has_foreign_letters(text: str) -> bool:
    letters = [letter for letter in text[:_READ] if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) > _FOREIGN * len(letters)


@cache
def _identifier() -> Any:
    # imported here: its model takes a third of a second and 100 MB, which is for the processes that read documents
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
