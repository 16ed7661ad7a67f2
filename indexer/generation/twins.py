"""One document in several formats: a page as HTML, as the source it was made from, and within a book as PDF or EPUB.

Each document has a sketch: the hashes of one in eight of its runs of five words, the same eighth in every document. Two
of one source and different formats belong together if most of the shorter one's sketch is in the longer one's. Of these
the better structured one is found, and a document of which the better ones together have most is their twin. This
follows from the documents alone, not from their order, and takes time in proportion to their length.
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
_RUN = 5  # words
_KEPT = 1 << 29  # hashes of 32 bits below this are kept: an eighth
_MOST = 16_384  # hashes of a sketch, the lowest: of a book of about 130,000 words all
_SHARED = 32  # documents that have a run; what more have is furniture or a licence
_LEAST = 8  # hashes that are compared: those of about 64 words
_SHARE = 0.6  # of a sketch: markup and page breaks cost up to a third of all runs
_HTML = ("text/html", "application/xhtml+xml")
_SEVERAL = "SELECT source FROM documents GROUP BY source HAVING count(DISTINCT content_type) > 1 ORDER BY source"
_FACTS = """
SELECT id, url, content_type, hashes,
  (SELECT avg(section != '') FROM chunks WHERE row BETWEEN first_row AND first_row + documents.chunks - 1)
FROM documents JOIN sketches ON document = id WHERE source = ? ORDER BY url
"""
Hashes = npt.NDArray[np.uint32]


class _Sketched(NamedTuple):
    number: int  # id of the document
    rank: tuple[bool, bool, int, str]  # the better structured document first
    content_type: str
    hashes: Hashes  # ascending
    limit: int  # up to which it has all hashes


def sketch(words: npt.NDArray[np.uint64]) -> bytes:
    """Return the sketch of a document, from the hashes of its words in order (n,)."""
    runs = np.zeros(max(len(words) - _RUN + 1, 0), np.uint64)
    for place in range(_RUN):
        runs = (runs * np.uint64(0x9E3779B97F4A7C15)) ^ words[place : place + len(runs)]
        runs ^= runs >> np.uint64(29)
    hashes = np.unique((runs * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(32)).astype(np.uint32))
    return hashes[hashes < _KEPT][:_MOST].astype("<u4").tobytes()


def write_twins(database: sqlite3.Connection) -> None:
    """Fill the table of twins from the documents, passages and sketches that were written."""
    for (source,) in database.execute(_SEVERAL).fetchall():
        documents = []
        for number, url, content_type, raw, sections in database.execute(_FACTS, (source,)):
            hashes = np.frombuffer(raw, "<u4")
            rank = (sections < 0.5, content_type not in _HTML, len(hashes), url)
            limit = int(hashes[-1]) if len(hashes) == _MOST else _KEPT
            documents.append(_Sketched(number, rank, content_type, hashes, limit))
        pairs = [(one.number, other.number) for one, other in _twins(documents)]
        database.executemany("INSERT INTO twins VALUES (?, ?)", pairs)


def _twins(documents: list[_Sketched]) -> list[tuple[_Sketched, _Sketched]]:
    """Return each twin with each document that stands for it."""
    better: dict[int, list[_Sketched]] = defaultdict(list)  # by place of the worse one
    for first, second, count in _sharing(documents):
        one, other = documents[first], documents[second]
        shorter = min(_within(one, other.limit), _within(other, one.limit))
        if shorter >= _LEAST and count >= _SHARE * shorter:
            worse = first if one.rank > other.rank else second
            better[worse].append(other if worse == first else one)
    found = []
    for place, several in better.items():
        document = documents[place]
        covered = np.isin(document.hashes, np.concatenate([each.hashes for each in several])).sum()
        if covered >= _SHARE * _within(document, max(each.limit for each in several)):
            found += [(document, each) for each in several]
    return found


def _within(document: _Sketched, limit: int) -> int:
    """Return how many hashes of a sketch are not above a limit."""
    return int(np.searchsorted(document.hashes, limit, side="right"))


def _sharing(documents: list[_Sketched]) -> list[tuple[int, int, int]]:
    """Return the places of documents of different formats that share hashes, and how many."""
    hashes = np.concatenate([np.empty(0, np.uint32), *(each.hashes for each in documents)])
    owners = np.repeat(np.arange(len(documents)), [len(each.hashes) for each in documents])
    _, types = np.unique([each.content_type for each in documents], return_inverse=True)
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    is_rare = sizes[group] <= _SHARED
    pairs = [np.empty(0, np.int64)]
    for step in range(1, _SHARED):
        alike = (hashes[:-step] == hashes[step:]) & is_rare[step:]
        first, second = owners[:-step][alike], owners[step:][alike]
        differ = types[first] != types[second]
        pairs.append((first * len(documents) + second)[differ])
    keys, counts = np.unique(np.concatenate(pairs), return_counts=True)
    return list(zip(*(part.tolist() for part in (*divmod(keys, max(1, len(documents))), counts)), strict=True))
