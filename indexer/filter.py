"""Define the filters of searches, which are conditions on the terms and the date of a document.

A term combines a field and a value, such as `language:en`. Each store translates the result of `Filter.conditions`.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import unquote

from indexer.errors import FilterError
from indexer.network.urls import normalise
from indexer.records import AccessLists, Document
from indexer.text.cleaning import without_joiners

LISTS = ("source", "url_prefix", "path", "language", "content_type", "version")
FIELDS = (*LISTS, "date", "metadata")
MAX_VALUES = 32
MAX_VALUE_CHARS = 2_000
ACCESS_PREFIX = "access."
_MAX_LEVELS = 32
_MAX_TERM_BYTES = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]{0,40}://", re.IGNORECASE)
_LANGUAGE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*")


class HasTerm(NamedTuple):
    """Matches documents that have at least one of the terms. If `terms` is empty, no document matches."""

    terms: tuple[str, ...]


class LacksTerm(NamedTuple):
    """Matches documents that do not have the term."""

    term: str


class Dated(NamedTuple):
    """Matches documents with a date from `first` to `last`, inclusive. None means no limit."""

    first: str | None
    last: str | None


class AnyOf(NamedTuple):
    """Matches documents that meet all conditions of at least one alternative."""

    alternatives: tuple[tuple["Condition", ...], ...]


Condition = HasTerm | LacksTerm | Dated | AnyOf


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on documents. For each field that is set, a document must have one of the field's values. Hashable.

    `path` is like `url_prefix`, but without scheme and host. `versions.resolve_versions` replaces `version` with URLs.
    `metadata` is case-sensitive. `readers` has the user and group names of the caller. Each access list of a document
    must contain one of these names, unless `readers` is None. Each set in `also` is a condition too: the document must
    match at least one filter in the set.
    """

    source: tuple[str, ...] = ()
    url_prefix: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    content_type: tuple[str, ...] = ()
    version: tuple[str, ...] = ()
    date_from: str | None = None  # YYYY-MM-DD
    date_to: str | None = None
    metadata: tuple[tuple[str, tuple[str, ...]], ...] = ()
    readers: frozenset[str] | None = None
    also: "frozenset[frozenset[Filter]]" = frozenset()

    def __bool__(self) -> bool:
        return self.readers is not None or any(getattr(self, name) for name in self.__slots__)

    @classmethod
    def parse(cls, fields: object) -> "Filter":
        """Parse a JSON object with the fields in `FIELDS`. Raises FilterError if a field is not valid.

        The value of a field is a string or a list of strings, with two exceptions. `date` is an object with "from" and
        "to". `metadata` is an object that maps names to strings or lists of strings.
        """
        if not isinstance(fields, Mapping):
            raise FilterError("filter", 'must be an object, such as {"language": "en"}')
        if unknown := [name for name in fields if name not in FIELDS]:
            raise FilterError(
                f"filter.{_shown(unknown[0])}", f"is not a filter field; known fields are: {', '.join(FIELDS)}"
            )
        lists: dict[str, Any] = {name: _texts(f"filter.{name}", fields[name]) for name in LISTS if name in fields}
        if not all(_ADDRESS.match(text) for text in lists.get("url_prefix", ())):
            raise FilterError(
                "filter.url_prefix", "must be an address with its scheme, such as https://docs.example/guide"
            )
        if "language" in lists:
            languages = set(map(primary_language, lists["language"]))
            if None in languages:
                raise FilterError("filter.language", 'must be a language tag, such as "en" or "pt-BR"')
            lists["language"] = _unique(language for language in languages if language)
        if "content_type" in lists:
            lists["content_type"] = _unique(text.lower() for text in lists["content_type"])
        dates, metadata = fields.get("date", {}), fields.get("metadata", {})
        if not isinstance(dates, Mapping) or dates.keys() - {"from", "to"}:
            raise FilterError("filter.date", 'must be an object with "from", "to" or both')
        for name, day in dates.items():
            if day is not None and not is_day(day):
                raise FilterError(f"filter.date.{name}", "must be a day, such as 2026-01-31")
        first, last = dates.get("from"), dates.get("to")
        if first and last and first > last:
            raise FilterError("filter.date.from", "must not be later than `to`")
        if not isinstance(metadata, Mapping) or len(metadata) > MAX_VALUES:
            raise FilterError("filter.metadata", f"must be an object of at most {MAX_VALUES} names")
        pairs: dict[str, tuple[str, ...]] = {}
        for name, texts in metadata.items():
            field = f"filter.metadata.{_shown(name)}"
            [key] = map(folded, _texts(field, [name]))
            if key in pairs:
                raise FilterError(field, "is given more than once")
            pairs[key] = _unique(map(folded, _texts(field, texts)))
        return cls(date_from=first, date_to=last, metadata=tuple(sorted(pairs.items())), **lists)

    @classmethod
    def any_of(cls, filters: "Iterable[Filter]") -> "Filter":
        """Return the union of filters. The union of no filters matches no document."""
        alternatives = frozenset(filters)
        return next(iter(alternatives)) if len(alternatives) == 1 else cls(also=frozenset([alternatives]))

    def __and__(self, other: "Filter") -> "Filter":
        """Return the intersection of two filters. `as_dict` of the result has only the fields of the first filter."""
        return replace(self, also=self.also | {frozenset([other])})

    def as_dict(self) -> dict[str, Any]:
        """Return the filter as a JSON object for `parse`, without empty fields, `readers` and `also`."""
        fields: dict[str, Any] = {name: list(getattr(self, name)) for name in LISTS if getattr(self, name)}
        dates = {"from": self.date_from, "to": self.date_to}
        if any(dates.values()):
            fields["date"] = {name: day for name, day in dates.items() if day}
        if self.metadata:
            fields["metadata"] = {name: list(values) for name, values in self.metadata}
        return fields

    def without_readers(self) -> "Filter":
        """Return a copy of the filter without conditions on readers, for indexes without access lists."""
        also = frozenset(frozenset(each.without_readers() for each in alternatives) for alternatives in self.also)
        return replace(self, readers=None, also=also)

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the filter. A document must meet all of them."""
        groups = [
            [_term(name, value) for value in getattr(self, name)]
            for name in ("source", "language", "content_type", "version")
        ]
        groups.append([_term("url", _levels(*_split(value))[-1]) for value in self.url_prefix])
        groups.append([_term("path", _levels("", value)[-1]) for value in self.path])
        groups += [[_term("metadata", value, name) for value in values] for name, values in self.metadata]
        tests: list[Condition] = [HasTerm(tuple(group)) for group in groups if group]
        if self.date_from or self.date_to:
            tests.append(Dated(self.date_from, self.date_to))
        for lists in AccessLists._fields if self.readers is not None else ():
            kind = f"{ACCESS_PREFIX}{lists}:"
            names = HasTerm(tuple(f"{kind}{name}" for name in sorted(self.readers or ())))
            tests.append(AnyOf(((LacksTerm(kind),), (names,))))
        for alternatives in self.also:
            each = tuple(one.conditions() for one in alternatives)
            if () not in each:  # an alternative without conditions matches every document
                tests += each[0] if len(each) == 1 else (AnyOf(each),)
        return tuple(tests)


@dataclass(frozen=True, slots=True)
class EachFilter(Filter):
    """One filter for each of several collections. A filter that is None matches all documents of its collection."""

    parts: tuple[Filter | None, ...] = ()

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the union of all filters."""
        return Filter.any_of(part or Filter() for part in self.parts).conditions()


def parts_of(filter: Filter | None, count: int) -> Sequence[Filter | None]:
    """Return the filter for each of `count` collections."""
    return filter.parts if isinstance(filter, EachFilter) else [filter] * count


def terms_of(document: Document) -> list[str]:
    """Return the distinct terms of a document. Only terms of access lists may be longer than 300 bytes of UTF-8."""
    top, path = _split(document.url)
    terms = [_term("source", document.source), _term("content_type", document.content_type)]
    if document.language is not None:
        terms.append(_term("language", document.language))
    terms += [_term("url", level) for level in _levels(top, path)]
    terms += [_term("path", level) for level in _levels("", path)]
    terms += [_term("metadata", value, name) for name, values in document.metadata.items() for value in values]
    for lists, names in document.access._asdict().items():
        if names is not None:
            # The term with an empty name shows that the list exists, even if it has no names. Names are not hashed,
            # because the next build reads them.
            terms += [f"{ACCESS_PREFIX}{lists}:{name}" for name in ("", *names)]
    return list(dict.fromkeys(terms))


def access_of(terms: Iterable[str]) -> AccessLists:
    """Return the access lists of a document from its terms, such as `access.declared:group:staff`."""
    names_by_list: dict[str, list[str]] = {}
    for term in terms:
        if term.startswith(ACCESS_PREFIX):
            lists, _, name = term.removeprefix(ACCESS_PREFIX).partition(":")
            names_by_list.setdefault(lists, []).extend([name] if name else [])
    return AccessLists(*(tuple(names_by_list[name]) if name in names_by_list else None for name in AccessLists._fields))


def folded(text: str) -> str:
    """Normalise a name or value of metadata to NFC, with single spaces and without joiners."""
    return unicodedata.normalize("NFC", " ".join(without_joiners(text).split()))


def primary_language(tag: str) -> str | None:
    """Return the primary subtag of a language tag in lower case, such as "en" for "en-GB", or None."""
    match = _LANGUAGE.fullmatch(tag)
    return match[1].lower() if match else None


def is_day(value: object) -> bool:
    """Return whether a value is a date YYYY-MM-DD."""
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _term(field: str, value: str, name: str = "") -> str:
    # the length of the name shows where the value begins
    value = f"{len(name)}:{name}={value}" if field == "metadata" else value
    data = value.encode("utf-8", "replace")
    if len(data) <= _MAX_TERM_BYTES:
        return f"{field}:{data.decode()}"
    return f"{field}#{hashlib.sha256(data).hexdigest()}"


def _levels(top: str, path: str) -> list[str]:
    """Return `top/a`, `top/a/b` and so on for each folder of a path, and finally the whole address, percent-decoded."""
    path, mark, query = path.partition("?")
    folders = unquote(path).strip("/").split("/") if path.strip("/") else []
    levels = [top]
    for folder in folders[: _MAX_LEVELS - 1]:
        levels.append(f"{levels[-1]}/{folder}")
    if len(folders) >= _MAX_LEVELS:
        levels.append(f"{levels[-1]}/{'/'.join(folders[_MAX_LEVELS - 1 :])}")
    return [*levels, f"{levels[-1]}?{unquote(query)}"] if mark else levels


def _split(url: str) -> tuple[str, str]:
    scheme, mark, rest = (normalise(url, "") or url.partition("#")[0]).partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}{mark}{host}".lower(), path


def _texts(field: str, value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts or not all(isinstance(text, str) for text in texts):
        raise FilterError(field, "must be a text or a list of texts")
    if len(texts) > MAX_VALUES:
        raise FilterError(field, f"has {len(texts)} values; at most {MAX_VALUES} are allowed")
    for text in texts:
        if len(text) > MAX_VALUE_CHARS:
            raise FilterError(field, f"has a value of {len(text)} characters; at most {MAX_VALUE_CHARS} are allowed")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise FilterError(field, "contains half of a surrogate pair, which is not a character")
        if not text.strip():
            raise FilterError(field, "is empty: give a value or leave it out")
    return _unique(text.strip() for text in texts)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(texts)))


def _shown(name: object) -> str:
    text = str(name)
    return text if len(text) <= 40 and text.isprintable() else ascii(text[:40])[1:-1] + "…"
