"""The benchmark's own arithmetic, with contestants that do nothing. No test depends on how long anything takes."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from indexer.filter import Filter
from indexer.generation.generation import Generation
from tests.dummy import DummyEmbedder

ROOT = Path(__file__).resolve().parents[1]
WORDS = "the order of an expression in python is from left to right and a name is found in its own function first "


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmark.{name}")


ROWS = [
    {"name": "1 × 8 tokens", "contestant": "LangChain eager fp32", "median_ms": 9.0},
    {"name": "1 × 8 tokens", "contestant": "Pilotlight native bf16", "median_ms": 0.3, "tokens_per_s": 99},
    {"contestant": "OpenVINO fp32", "note": "not installed: openvino"},
]


def test_the_command_line_writes_json_and_keeps_stdout_to_it(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("bench", ROOT / "scripts" / "bench.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setitem(bench.VERBS, "query", (lambda *_: ROWS, 1, 1))
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "query", "--json", "--out", str(out), "--source", str(tmp_path)])
    assert bench.main() == 0
    table = module("measure").as_table(ROWS).splitlines()
    assert table[0] == "| what | contestant | median ms | tokens/s | note |"
    assert table[3] == "| 1 × 8 tokens | **Pilotlight native bf16** | 0.3 | 99 |  |"
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(out.read_text(encoding="utf-8"))
    assert (shown["verb"], shown["rows"]) == ("query", ROWS)
    assert {"cpu", "cores", "versions", "date"} <= set(shown["machine"])


# corpora of any size, and the true neighbours in them


def real(count: int = 40, dimension: int = 8):
    vectors = np.random.default_rng(0).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    middle = "goes on for one sentence more"
    texts = [f"Passage {i} begins with words of its own. Number {i} {middle}. That ends {i}." for i in range(count)]
    return texts, vectors


def test_an_index_at_scale_is_a_whole_generation_with_filters_and_its_true_neighbours(tmp_path):
    corpus = module("scale")
    truth = corpus.Truth(real(3)[1])
    built = corpus.write_index(real(), 3_000, tmp_path / "index", DummyEmbedder(8), truth)
    generation = Generation.open(tmp_path / "index")
    assert (generation.manifest.counts.chunks, generation.manifest.counts.documents) == (3_000, 300)
    assert {"vectors.faiss", "documents.sqlite", "rows.npy"} <= built["bytes"].keys()
    only = Filter.parse({"metadata": {"share": "10.0%"}})
    assert 100 < generation.select(only).count < 600
    for vector, everything, kept in zip(real(3)[1], truth.rows[0], truth.rows[2], strict=True):
        assert set(generation.search_vectors(vector, 50)[1][:10]) == set(everything)
        assert set(generation.search_vectors(vector, 50, only)[1][:10]) == set(kept)
    generation.close()


# the parts of a search


def test_the_functions_of_every_part_are_there_and_one_that_is_not_is_named():
    traced = module("traced_server")
    for part, names in traced.PARTS.items():
        assert all(callable(getattr(*traced.find(part, name))) for name in names)
    with pytest.raises(LookupError, match=r"fusion: there is no rag\.query\.retriever:Retriever\.blend: correct PARTS"):
        traced.find("fusion", "rag.query.retriever:Retriever.blend")


def test_a_part_has_its_time_without_that_of_the_parts_within_it(monkeypatch):
    traced = module("traced_server")
    clock = iter([0, 10, 30, 100, 100, 101]).__next__
    monkeypatch.setattr(traced.time, "thread_time_ns", clock)
    inner = traced.timed("fusion", lambda: "found")
    outer = traced.timed("server", lambda: inner())
    assert outer() == inner() == "found"
    totals = traced._thread.totals
    assert (totals["server"], totals["fusion"]) == ([1, 80], [2, 21])


def test_parts_and_python_calls_are_reported_beside_the_application():
    traced = module("traced_server")
    ask = traced.reporting(lambda environ, start_response: [environ["PATH_INFO"].encode()])

    def get(path, query=""):
        return b"".join(ask({"PATH_INFO": path, "QUERY_STRING": query}, lambda status, headers: None))

    assert [get("/search") for _ in range(2)] == [b"/search"] * 2
    assert json.loads(get("/parts", "calls"))["calls"] == {}
    assert get("/search") == b"/search"
    report = json.loads(get("/parts"))
    assert report["calls"] == {"all": 1, "ours": 0}
    assert report["parts"].keys() == traced.PARTS.keys()
    assert get("/search") == b"/search"
    assert json.loads(get("/parts"))["calls"] == report["calls"]


def test_tables_of_different_measurements_stand_apart():
    rows = [*ROWS, {"table": "parts", "name": "fusion", "alone": 20}]
    text = module("measure").as_text(rows, {})
    assert text.endswith("\n\nparts\n\n| what | alone |\n|---|---|\n| fusion | 20 |")
