"""Find other editions of a document: other versions of a manual, and other formats of a page.

Versions occur in addresses: `/docs/17/`, `/v2.1/`, `/en/stable/`, `manual-2.4`. A segment of an address is a version if
enough pages below it exist in other versions too. Two pages are versions of each other if their addresses differ only
in this segment, and they have equal titles or similar first passages. The years of a blog and the page numbers of a
list fail this test. Pages of different sources are never compared. The manifest stores versions as address prefixes.

A page may be available in several formats: as HTML, as its source text, and in a PDF or EPUB book. To detect such
duplicates, each document has a sketch: an eighth of the hashes of its sequences of five words. Two documents of
different formats match if the longer sketch contains most of the shorter one. A document is a twin (a duplicate that is
not shown) if the sketches of better structured documents that match it together contain most of its sketch.
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexer.filter import Filter

Versions = Mapping[str, tuple[str, str]]
"""Maps (source + line feed + address up to a version) to (this address with `*` for the version, the version)."""

_MIN_PAIRED_SHARE = 0.25  # share of pages that have another version, averaged over the versions
_MAX_DIFFERENT_BITS = 22  # similarity hashes of similar texts differ in at most this many of 64 bits
_UNRELEASED = "dev devel develop development main master trunk next nightly edge unstable canary preview beta".split()
_NEWEST_ASCENDING = "latest current stable".split()
_PRERELEASE = r"(?:a|b|c|m|rc|cr|alpha|beta|dev|pre|preview|snapshot|nightly|canary)(?:[-_.]?\d+(?:\.\d+)*)?"
_SEGMENT = re.compile(
    rf"(?:(?P<name>[a-z]+(?:[-_.][a-z]+)*)(?P<joint>[-_.]?))??"
    rf"(?:(?P<number>\d{{1,4}}(?:[._-]\d{{1,8}}){{0,3}}(?:[._-]x)?)(?:(?P<mark>[-_.]?{_PRERELEASE})|[-_.](?:final|ga|lts|stable))?"
    rf"|(?P<word>{'|'.join(_UNRELEASED + _NEWEST_ASCENDING)}))(?P<end>\.[a-z]{{2,5}})?",
    re.IGNORECASE,
)
_VERSION_NAMES = ("", "v", "ver", "version", "r", "rel", "release")
_NUMBERS = re.compile(r"[\d.]+")
_JOINTS = re.compile(r"(?<=\d)[_-](?=[\dx])")
_MAX_SEGMENT_CHARACTERS = 40
_HOST_SEGMENT = 2  # index of the host in an address that is split at slashes
_LETTER = re.compile(r"[^\W\d_]")


class Edition(NamedTuple):
    """One version of a page.

    For https://example.org/v2/setup, `page` is ("https://example.org/*", "setup"), as for all other versions, and
    `beginning` is "https://example.org/v2". If `is_plain`, `version` is an integer without v, so it may be a year.
    """

    page: tuple[str, str]
    version: str
    beginning: str
    is_plain: bool = False


def learn_versions(documents: Iterable[tuple[str, str, str, int]]) -> dict[str, tuple[str, str]]:
    """Learn `Versions` from documents, passed as (source, address, title, similarity hash of the first chunk)."""
    sources: defaultdict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for source, url, title, signature in documents:
        sources[source].append((url, title, signature))
    return {
        f"{source}\n{beginning}": place_and_version
        for source in sorted(sources)
        for beginning, place_and_version in _learn_from_source(sources[source]).items()
    }


def _learn_from_source(documents: Iterable[tuple[str, str, int]]) -> dict[str, tuple[str, str]]:
    pages: dict[tuple[str, str], list[tuple[Edition, str, int]]] = {}
    for url, title, signature in documents:
        for reading in editions_of(url):
            bare = _NUMBERS.sub("", title.replace(reading.version, ""))
            pages.setdefault(reading.page, []).append((reading, bare, signature))
    counts, paired = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    versions: dict[str, tuple[str, str]] = {}
    for (place, _), readings in pages.items():
        are_plain = all(reading.is_plain for reading, *_ in readings)
        counts[place].update(reading.beginning for reading, *_ in readings)
        pairs = dict[str, tuple[str, str]]()
        in_order = sorted(readings, key=lambda each: version_key(each[0].version))
        for (one, title, signature), (other, its_title, its_signature) in pairwise(in_order):
            agreeing = (title == its_title) + ((signature ^ its_signature).bit_count() <= _MAX_DIFFERENT_BITS)
            if one.version != other.version and agreeing > are_plain:
                pairs |= {each.beginning: (place, each.version) for each in (one, other)}
        paired[place].update(pairs.keys())
        versions |= pairs
    shares = {
        place: sum(paired[place][each] / pages[each] for each in pages) / len(pages) for place, pages in counts.items()
    }
    return {each: version for each, version in sorted(versions.items()) if shares[version[0]] >= _MIN_PAIRED_SHARE}


def editions_of(url: str) -> Iterator[Edition]:
    """Yield an `Edition` for each segment of an address that looks like a version."""
    segments = url.partition("?")[0].split("/")
    for number, (segment, beginning) in enumerate(zip(segments, accumulate(segments, "{}/{}".format), strict=True)):
        if len(segment) > _MAX_SEGMENT_CHARACTERS or (number == _HOST_SEGMENT and not segments[1]):
            continue
        match = _SEGMENT.fullmatch(segment)
        if match and not ("-" in (match["number"] or "") and not match["name"]):  # 2024-05 is a date, not a version
            name = (match["name"] or "").lower()
            version = match["word"] or _JOINTS.sub(".", match["number"] + (match["mark"] or ""))
            is_named = name not in _VERSION_NAMES
            before = beginning.removesuffix(segment) + (name + match["joint"] if is_named else "")
            is_plain = version[0].isdigit() and "." not in version and (is_named or not name)
            place, rest = f"{before}*{match['end'] or ''}", url[len(beginning) :].strip("/")
            if not is_plain or _LETTER.search(rest):  # excludes page/2 and blog/2024
                yield Edition((place, rest), version.lower(), beginning, is_plain)


def version_key(version: str) -> tuple[int, tuple[float, ...], str]:
    """Return a key that sorts unreleased versions first, then versions by number, then names such as `stable`."""
    if version in _NEWEST_ASCENDING:
        return 2, (_NEWEST_ASCENDING.index(version),), ""
    number, mark = re.fullmatch(r"([\d.]*+)(.*)", version).groups()  # type: ignore[union-attr]  # matches any text
    numbers = tuple(float(each) for each in number.split(".") if each)
    return (1, (*numbers, float("inf")), "") if mark == "x" else (int(not mark), numbers, mark)


def edition_at(url: str, source: str, versions: Versions) -> Edition | None:
    """Return the `Edition` that a page's address names, or None if the address contains no known version.

    Args:
        source: source of the page's document; versions of other sources do not count.
        versions: `Manifest.versions` of the generation.
    """
    for beginning in accumulate(url.partition("?")[0].split("/"), "{}/{}".format):
        if version := versions.get(f"{source}\n{beginning}"):
            return Edition((f"{source}\n{version[0]}", url[len(beginning) :].strip("/")), version[1], beginning)
    return None


def resolve_versions(filter: Filter, versions: Versions) -> Filter:
    """Replace the versions in a filter by their address prefixes, because vector stores cannot filter by version."""
    also = frozenset(frozenset(resolve_versions(each, versions) for each in group) for group in filter.also)
    bare = replace(filter, version=(), also=also)
    if not filter.version:
        return bare
    places: dict[tuple[str, str], dict[str, list[str]]] = {}
    for key, (place, version) in versions.items():
        source, _, beginning = key.rpartition("\n")
        places.setdefault((source, place), {}).setdefault(version, []).append(beginning)
    beginnings: dict[str, list[str]] = {}
    for (source, _), by_version in places.items():
        newest = max(by_version, key=version_key)
        for requested in (each.lower().removeprefix("v") for each in filter.version):
            for version, prefixes in by_version.items():
                is_newest = requested in _NEWEST_ASCENDING and version == newest and requested not in by_version
                is_within = requested.endswith(".x") and f"{version}.".startswith(requested[:-1])
                if version == requested or is_within or is_newest:
                    beginnings.setdefault(source, []).extend(prefixes)
    by_source = [Filter(source=(source,), url_prefix=tuple(prefixes)) for source, prefixes in beginnings.items()]
    return bare & Filter.any_of(by_source)


TABLES = """
CREATE TABLE sketches (document INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
CREATE TABLE twins (
    document INTEGER NOT NULL, better INTEGER NOT NULL, PRIMARY KEY (document, better)
) STRICT, WITHOUT ROWID;
"""
_SHINGLE_WORDS = 5
_HASH_LIMIT = 1 << 29  # keeps an eighth of all 32-bit hashes
_MAX_HASHES = 16_384
_MAX_DOCUMENTS_PER_HASH = 32
_MIN_SHARED_HASHES = 5
_MIN_SHARED_RATIO = 0.6  # markup and page breaks change up to a third of the hashes
_HTML = ("text/html", "application/xhtml+xml")
_MIXED_SOURCES = "SELECT source FROM documents GROUP BY source HAVING count(DISTINCT content_type) > 1 ORDER BY source"
_FACTS = """
SELECT id, url, content_type, hashes,
  (SELECT avg(section != '') FROM chunks WHERE row BETWEEN first_row AND first_row + documents.chunks - 1)
FROM documents JOIN sketches ON document = id WHERE source = ? ORDER BY url
"""
Hashes = npt.NDArray[np.uint32]


class _Sketched(NamedTuple):
    """A document and its sketch: ascending hashes up to `limit`. A better structured document has a lower `rank`."""

    number: int
    rank: tuple[bool, bool, int, str]
    content_type: str
    hashes: Hashes
    limit: int


def sketch(words: npt.NDArray[np.uint64]) -> bytes:
    """Return a document's sketch from the hashes of its words, (n,). A sketch is ascending uint32 hashes, as bytes."""
    runs = np.zeros(max(len(words) - _SHINGLE_WORDS + 1, 0), np.uint64)
    for place in range(_SHINGLE_WORDS):
        runs = (runs * np.uint64(0x9E3779B97F4A7C15)) ^ words[place : place + len(runs)]
        runs ^= runs >> np.uint64(29)
    hashes = np.unique((runs * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(32)).astype(np.uint32))
    return hashes[hashes < _HASH_LIMIT][:_MAX_HASHES].astype("<u4").tobytes()


def write_twins(database: sqlite3.Connection) -> None:
    """Detect duplicates in other formats within each source, and insert them into the table `twins`."""
    for (source,) in database.execute(_MIXED_SOURCES).fetchall():
        documents = []
        for number, url, content_type, raw, sections in database.execute(_FACTS, (source,)):
            hashes = np.frombuffer(raw, "<u4")
            rank = (sections < 0.5, content_type not in _HTML, len(hashes), url)
            limit = int(hashes[-1]) if len(hashes) == _MAX_HASHES else _HASH_LIMIT
            documents.append(_Sketched(number, rank, content_type, hashes, limit))
        pairs = [(one.number, other.number) for one, other in _find_twins(documents)]
        database.executemany("INSERT INTO twins VALUES (?, ?)", pairs)


def _find_twins(documents: list[_Sketched]) -> list[tuple[_Sketched, _Sketched]]:
    """Return pairs (document, better structured duplicate)."""
    better: dict[int, list[_Sketched]] = defaultdict(list)
    for first, second, count in _count_shared_hashes(documents):
        one, other = documents[first], documents[second]
        shorter = min(_count_up_to(one, other.limit), _count_up_to(other, one.limit))
        if count >= max(_MIN_SHARED_HASHES, _MIN_SHARED_RATIO * shorter):
            worse = first if one.rank > other.rank else second
            better[worse].append(other if worse == first else one)
    pairs = []
    for place, several in better.items():
        document = documents[place]
        covered = np.isin(document.hashes, np.concatenate([each.hashes for each in several])).sum()
        if covered >= _MIN_SHARED_RATIO * _count_up_to(document, max(each.limit for each in several)):
            pairs += [(document, each) for each in several]
    return pairs


def _count_up_to(document: _Sketched, limit: int) -> int:
    return int(np.searchsorted(document.hashes, limit, side="right"))


def _count_shared_hashes(documents: list[_Sketched]) -> list[tuple[int, int, int]]:
    """Return (index, other index, number of rare hashes in common) for pairs of documents in different formats."""
    hashes = np.concatenate([np.empty(0, np.uint32), *(each.hashes for each in documents)])
    owners = np.repeat(np.arange(len(documents)), [len(each.hashes) for each in documents])
    _, types = np.unique([each.content_type for each in documents], return_inverse=True)
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    is_rare = sizes[group] <= _MAX_DOCUMENTS_PER_HASH
    pairs = [np.empty(0, np.int64)]
    for step in range(1, _MAX_DOCUMENTS_PER_HASH):
        alike = (hashes[:-step] == hashes[step:]) & is_rare[step:]
        first, second = owners[:-step][alike], owners[step:][alike]
        differ = types[first] != types[second]
        pairs.append((first * len(documents) + second)[differ])
    keys, counts = np.unique(np.concatenate(pairs), return_counts=True)
    return list(zip(*(column.tolist() for column in (*divmod(keys, max(1, len(documents))), counts)), strict=True))
