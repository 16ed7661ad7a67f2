"""Find documents that a source has in several formats: a page as HTML, as its source text, and in a PDF or EPUB book.

The sketch of a document has the hashes of an eighth of its runs of five words. Two documents of different formats match
if most of the shorter sketch is in the longer one. A document is a twin of its better structured matches if these
together have most of its sketch.
"""

import sqlite3
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TABLES = """
CREATE TABLE sketches (document INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
CREATE TABLE twins (
    document INTEGER NOT NULL, better INTEGER NOT NULL, PRIMARY KEY (document, better)
) STRICT, WITHOUT ROWID;
"""
_RUN_WORDS = 5
_HASH_LIMIT = 1 << 29
_MAX_HASHES = 16_384
_MAX_DOCUMENTS_PER_HASH = 32
_MIN_HASHES = 8
_MIN_SHARE = 0.6  # markup and page breaks change up to a third of the runs
_HTML = ("text/html", "application/xhtml+xml")
_SEVERAL = "SELECT source FROM documents GROUP BY source HAVING count(DISTINCT content_type) > 1 ORDER BY source"
_FACTS = """
SELECT id, url, content_type, hashes,
  (SELECT avg(section != '') FROM chunks WHERE row BETWEEN first_row AND first_row + documents.chunks - 1)
FROM documents JOIN sketches ON document = id WHERE source = ? ORDER BY url
"""
Hashes = npt.NDArray[np.uint32]


class _Sketched(NamedTuple):
    """A document with the hashes of its sketch, ascending and complete up to a limit; a lower `rank` is better."""

    number: int
    rank: tuple[bool, bool, int, str]
    content_type: str
    hashes: Hashes
    limit: int


def sketch(words: npt.NDArray[np.uint64]) -> bytes:
    """Return the sketch of a document from the hashes of its words, (n,)."""
    runs = np.zeros(max(len(words) - _RUN_WORDS + 1, 0), np.uint64)
    for place in range(_RUN_WORDS):
        runs = (runs * np.uint64(0x9E3779B97F4A7C15)) ^ words[place : place + len(runs)]
        runs ^= runs >> np.uint64(29)
    hashes = np.unique((runs * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(32)).astype(np.uint32))
    return hashes[hashes < _HASH_LIMIT][:_MAX_HASHES].astype("<u4").tobytes()


def write_twins(database: sqlite3.Connection) -> None:
    """Find the twins of each source, and fill their table."""
    for (source,) in database.execute(_SEVERAL).fetchall():
        documents = []
        for number, url, content_type, raw, sections in database.execute(_FACTS, (source,)):
            hashes = np.frombuffer(raw, "<u4")
            rank = (sections < 0.5, content_type not in _HTML, len(hashes), url)
            limit = int(hashes[-1]) if len(hashes) == _MAX_HASHES else _HASH_LIMIT
            documents.append(_Sketched(number, rank, content_type, hashes, limit))
        pairs = [(one.number, other.number) for one, other in _find_twins(documents)]
        database.executemany("INSERT INTO twins VALUES (?, ?)", pairs)


def _find_twins(documents: list[_Sketched]) -> list[tuple[_Sketched, _Sketched]]:
    """Return each twin with each of its better structured documents."""
    better: dict[int, list[_Sketched]] = defaultdict(list)
    for first, second, count in _count_shared_hashes(documents):
        one, other = documents[first], documents[second]
        shorter = min(_count_up_to(one, other.limit), _count_up_to(other, one.limit))
        if shorter >= _MIN_HASHES and count >= _MIN_SHARE * shorter:
            worse = first if one.rank > other.rank else second
            better[worse].append(other if worse == first else one)
    pairs = []
    for place, several in better.items():
        document = documents[place]
        covered = np.isin(document.hashes, np.concatenate([each.hashes for each in several])).sum()
        if covered >= _MIN_SHARE * _count_up_to(document, max(each.limit for each in several)):
            pairs += [(document, each) for each in several]
    return pairs


def _count_up_to(document: _Sketched, limit: int) -> int:
    """Return the number of hashes up to a limit."""
    return int(np.searchsorted(document.hashes, limit, side="right"))


def _count_shared_hashes(documents: list[_Sketched]) -> list[tuple[int, int, int]]:
    """Return the indexes of two documents of different formats, and the number of hashes that they share."""
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
