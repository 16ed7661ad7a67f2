"""Metadata that a page declares, brought into the one form that is stored and filtered by."""

import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime

from indexer.decoding import visible
from indexer.filter import MOST_VALUES, folded, is_day, primary_language
from indexer.records import Declared as Declared  # for the readers

LONGEST_NAME = 64  # characters; what is longer is left out, since half a value would match nothing
LONGEST_VALUE = 256
_NO_LANGUAGE = ("und", "mul", "zxx")  # unknown, several, none
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


def language_of(tag: str | None) -> str | None:
    """Return the primary subtag of a language tag in lower case, or None where it names no language."""
    language = primary_language((tag or "").strip())
    return None if language in _NO_LANGUAGE else language


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
