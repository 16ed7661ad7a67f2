"""Vectors: every kind of index finds what an exact search finds, with and without a filter."""

import threading
from pathlib import Path

import faiss
import numpy as np
import pytest

from indexer.errors import VectorError
from indexer.generation.rows import RowSet
from indexer.generation.vectors import VectorReader, VectorWriter, _as_float32

MODULE = "indexer.generation.vectors"
KINDS = {"flat": (10**9, 10**9), "pq": (640, 10**9), "ivf": (640, 640)}  # vectors from which one is a pq, or an ivf
MANY = 4_000


def unit(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def write(path: Path, vectors: np.ndarray, kind: str = "flat", block: int = 7) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("_MIN_PQ_VECTORS", "_MIN_IVF_VECTORS"), KINDS[kind], strict=True):
            patch.setattr(f"{MODULE}.{name}", value)
        writer = VectorWriter(vectors.shape[1])
        for start in range(0, len(vectors), block):
            writer.add(vectors[start : start + block])
        assert writer.count == len(vectors)
        writer.write(path)
    return path


def stored(path: Path, vectors: np.ndarray, kind: str = "flat", block: int = 7) -> VectorReader:
    return VectorReader(write(path, vectors, kind, block))


@pytest.fixture(scope="module", params=KINDS)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> VectorReader:
    path = tmp_path_factory.mktemp("vectors") / request.param
    reader = stored(path, unit(MANY, 32), request.param, 512)
    assert reader.kind == request.param
    path.unlink()
    return reader


def best(vectors: np.ndarray, query: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[int]:
    rows = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    return rows[np.argsort(-(vectors[rows] @ query), kind="stable")][:k].tolist()


def recall(reader: VectorReader, allowed: np.ndarray | None = None, k: int = 10) -> float:
    vectors, queries = unit(MANY, 32), unit(30, 32, seed=9)
    rows = None if allowed is None else RowSet(allowed)
    hits = 0
    for query in queries:
        scores, found = reader.search(query, k, rows)
        assert (scores.dtype, found.dtype) == (np.float32, np.int64)
        assert np.all(np.diff(scores) <= 0)
        assert np.allclose(scores, vectors[found] @ query, atol=2e-3)
        assert rows is None or rows.contains(found).all()
        assert len(set(found.tolist())) == len(found) == k
        hits += len(set(found.tolist()) & set(best(vectors, query, k, allowed)))
    return hits / (k * len(queries))


def test_every_kind_finds_what_an_exact_search_finds(reader: VectorReader) -> None:
    assert recall(reader) >= (0.97 if reader.base else 0.99)


@pytest.mark.parametrize("scored_alone", [20_000, 50])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_every_kind_finds_the_best_that_a_filter_allows(
    reader: VectorReader, share: float, scored_alone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MODULE}._MAX_ROWS_WITHOUT_SEARCH", scored_alone)
    assert recall(reader, np.random.default_rng(1).random(MANY) < share) >= 0.97
    about = unit(MANY, 32) @ unit(1, 32, seed=4)[0]  # a filter about one thing, and queries about others
    assert recall(reader, about > np.quantile(about, 1 - share)) >= 0.97


def test_a_filter_may_allow_a_single_row_or_none_or_all(reader: VectorReader) -> None:
    query, only = unit(1, 32, seed=9)[0], np.arange(MANY) == 1234
    scores, rows = reader.search(query, 10, RowSet(only))
    assert rows.tolist() == [1234]
    assert scores[0] == pytest.approx(unit(MANY, 32)[1234] @ query, abs=2e-3)
    scores, rows = reader.search(query, 10, RowSet(np.zeros(MANY, dtype=bool)))
    assert (len(scores), scores.dtype, len(rows), rows.dtype) == (0, np.float32, 0, np.int64)
    assert reader.search(query, 5)[1].tolist() == reader.search(query, 5, RowSet(np.ones(MANY, dtype=bool)))[1].tolist()


def test_vectors_come_back_as_they_are_stored_and_give_the_same_file(reader: VectorReader, tmp_path: Path) -> None:
    rows = np.array([3, 3999, 3], dtype=np.int64)
    found = reader.vectors(rows)
    assert found.dtype == np.float32
    assert np.array_equal(found, unit(MANY, 32)[rows].astype(np.float16).astype(np.float32))
    everything = reader.vectors(np.arange(MANY))
    fresh = write(tmp_path / "fresh", unit(MANY, 32), reader.kind, 512).read_bytes()
    again = write(tmp_path / "again", everything, reader.kind, 333).read_bytes()
    assert fresh == again
    with pytest.raises(VectorError, match="no row 4,000"):
        reader.vectors(np.array([0, MANY]))
    assert reader.vectors(np.empty(0, dtype=np.int64)).shape == (0, 32)


def test_searching_from_many_threads_with_and_without_a_filter(reader: VectorReader) -> None:
    queries, filters = unit(40, 32, seed=9), (None, RowSet(np.arange(MANY) % 3 == 0))
    found: list[list[object]] = []

    def search() -> None:
        found.append([reader.search(query, 10, allowed)[1].tolist() for query in queries for allowed in filters])
        assert threading.current_thread() is threading.main_thread() or faiss.omp_get_max_threads() == 1

    search()
    threads = [threading.Thread(target=search) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 7


def test_few_vectors_that_are_not_normalised_and_none(tmp_path: Path) -> None:
    reader = stored(tmp_path / "v", np.array([[1, 0], [3, 0], [0, 5]], dtype=np.float32))
    query = np.array([1, 0], dtype=np.float32)
    scores, rows = reader.search(query, 100)
    assert (rows.tolist(), scores.tolist()) == ([1, 0, 2], [3.0, 1.0, 0.0])
    scores, rows = reader.search(query, 2, RowSet(np.array([True, False, True])))
    assert (rows.tolist(), scores.tolist()) == ([0, 2], [1.0, 0.0])
    empty = stored(tmp_path / "empty", unit(0))
    assert (empty.count, empty.dimension, len(empty.search(unit(1)[0], 10)[1])) == (0, 16, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dimension", [1, 7, 10])
def test_any_number_of_dimensions_can_be_stored(tmp_path: Path, kind: str, dimension: int) -> None:
    vectors = unit(700, dimension, seed=3)
    reader = stored(tmp_path / "v", vectors, kind, 100)
    assert (reader.kind, reader.dimension, reader.count) == (kind, dimension, 700)
    assert reader.search(vectors[5], 1)[0][0] == pytest.approx((vectors @ vectors[5]).max(), abs=5e-3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e6])
def test_vectors_that_cannot_be_stored_are_refused(value: float) -> None:
    vectors = unit(4)
    vectors[2, 3] = value
    writer = VectorWriter(16)
    writer.add(unit(10))
    with pytest.raises(VectorError, match="in vector 12;"):
        writer.add(vectors)
    assert writer.count == 10


def test_vectors_of_another_length_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VectorError, match=r"shape \(2, 8\), not \(n, 16\)"):
        VectorWriter(16).add(unit(2, 8))
    reader = stored(tmp_path / "v", unit(3))
    with pytest.raises(VectorError, match=r"shape \(8,\)"):
        reader.search(unit(1, 8)[0], 1)
    with pytest.raises(VectorError, match="NaN"):
        reader.search(np.full(16, np.nan, dtype=np.float32), 1)


def test_every_float16_is_read_as_numpy_reads_it():
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).reshape(256, 256)
    numbers = every.view(np.float16).astype(np.float32)
    is_number = np.isfinite(numbers)
    found = _as_float32(every.view(np.uint8))
    np.testing.assert_array_equal(found[is_number], numbers[is_number])
    assert (np.abs(found[~is_number]) > float(np.finfo(np.float16).max)).all()
