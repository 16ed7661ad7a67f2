"""BM25 of a part of the passages is that of an index which has no others."""

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from indexer.filter import Filter
from indexer.generation.lexical import lexical_index
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_writer import LENGTHS, LexicalWriter
from indexer.rowset import RowSet

RED = Filter.parse({"metadata": {"team": "red"}})
RED_TERM = "metadata:4:team=red"
WORDS = ["pump", "valve", "seal", "hose", "clip", "of", "the"]
QUERIES = [
    "pump",
    "pump valve",
    "the hose of a clip",
    '"pump valve" seal',
    "pump -hose",
    '"the pump"',
    "valve zzzz",
    "pmup",
]


def passages(seed: int, count: int, longest: int) -> list[str]:
    chance = random.Random(seed)
    weights = [1 + chance.random() * 9 for _ in WORDS]
    return [" ".join(chance.choices(WORDS, weights, k=chance.randint(2, longest))) for _ in range(count)]


SEEN, HIDDEN = passages(1, 60, 30), [*passages(2, 200, 90), "pump " * 50, "zzzz"]


def write(folder: Path, texts: list[str], red: set[int], date: str | None = None) -> LexicalReader:
    writer = LexicalWriter(folder)
    for row, text in enumerate(texts):
        writer.add(row, title="", section="", text=text, terms=[RED_TERM] if row in red else [], date=date)
    writer.finish()
    writer.close()
    return LexicalReader(folder)


def both(folder: Path) -> tuple[LexicalReader, RowSet]:
    """An index in which every second passage may be seen, as long as there are such."""
    texts, red = [], set()
    hidden, seen = iter(HIDDEN), iter(SEEN)
    for text in hidden:
        texts.append(text)
        if found := next(seen, None):
            red.add(len(texts))
            texts.append(found)
    return write(folder, texts, red), RowSet(np.isin(np.arange(len(texts)), sorted(red)))


def found(reader: LexicalReader, query: str, rows: RowSet, k: int = 20) -> list[tuple[float, int]]:
    """Scores, and places among the rows that may be seen."""
    read = reader.read(query, only=RED, seen=reader.statistics(RED, rows))
    scores, at = reader.search(read, k, RED, rows)
    places = np.searchsorted(rows.rows(), at)
    return [*zip(scores.tolist(), places.tolist(), strict=True), (reader.idf_sum(read), -1)]


@pytest.mark.parametrize("postings", [lexical_index._POSTINGS, 10])
def test_what_is_not_seen_changes_no_score(tmp_path, monkeypatch, postings):
    monkeypatch.setattr(lexical_index, "_POSTINGS", postings)
    monkeypatch.setattr(lexical_index, "_FEW", 0)
    mixed, rows = both(tmp_path / "both")
    alone = write(tmp_path / "alone", SEEN, set(range(len(SEEN))))
    everything = RowSet(np.ones(len(SEEN), np.bool_))
    for query in QUERIES:
        assert found(mixed, query, rows) == found(alone, query, everything), query
        assert mixed.read(query, only=RED, seen=mixed.statistics(RED, rows)).did_you_mean == (
            "pump" if query == "pmup" else None
        )


def test_they_are_scores_of_bm25(tmp_path):
    mixed, rows = both(tmp_path / "both")
    alone = write(tmp_path / "alone", SEEN, set(range(len(SEEN))))
    for query in QUERIES[:-1]:
        scores, _ = alone.search(alone.read(query), 20)
        assert [score for score, _ in found(mixed, query, rows)[:-1]] == pytest.approx(scores.tolist(), rel=3e-4), query


def test_several_folders(tmp_path):
    texts = [*SEEN, *HIDDEN]
    red = set(range(len(SEEN)))
    write(tmp_path / "one", texts[:40], red)
    write(tmp_path / "other", texts[40:], {row - 40 for row in red if row >= 40})
    parts = LexicalReader([tmp_path / "one", tmp_path / "other"])
    rows = RowSet(np.arange(len(texts)) < len(SEEN))
    mixed, others = both(tmp_path / "both")
    for query in QUERIES[:-1]:
        assert found(parts, query, rows) == found(mixed, query, others), query


def test_dates_are_tested_among_as_many_passages_as_there_are(tmp_path):
    reader = write(tmp_path / "lexical", SEEN, set(range(len(SEEN))), "2026-01-31")
    only = Filter.parse({"metadata": {"team": "red"}, "date": {"from": "2026-01-01"}})
    rows = RowSet(np.ones(len(SEEN), np.bool_))
    read = reader.read("pump", only=only, seen=reader.statistics(only, rows))
    assert len(reader.search(read, 5, only, rows)[0]) == 5


@pytest.mark.parametrize("missing", ["lengths", "folder"])
def test_without_lengths_words_are_counted_all_the_same(tmp_path, missing):
    both(tmp_path / "both")
    if missing == "lengths":
        (tmp_path / "both" / LENGTHS).unlink()
    mixed, rows = LexicalReader(tmp_path / "both"), RowSet(np.arange(len(SEEN) + len(HIDDEN)) % 2 == 1)
    if missing == "folder":
        shutil.rmtree(tmp_path / "both")
    statistics = mixed.statistics(RED, rows)
    assert statistics.frequency("zzzz") == 0
    assert found(mixed, "pump valve", rows)
