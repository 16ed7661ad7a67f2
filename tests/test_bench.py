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
    monkeypatch.setitem(bench.VERBS, "cold", (lambda *_: ROWS, 1, 1))
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "cold", "--json", "--out", str(out), "--source", str(tmp_path)])
    assert bench.main() == 0
    table = module("measure").as_table(ROWS).splitlines()
    assert table[0] == "| name | contestant | median ms | tokens per s | note |"
    assert table[3] == "| 1 × 8 tokens | **Pilotlight native bf16** | 0.3 | 99 |  |"
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(out.read_text(encoding="utf-8"))
    assert (shown["verb"], shown["rows"]) == ("cold", ROWS)
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
    sizes = corpus.write_index(real(), 3_000, tmp_path / "index", DummyEmbedder(8), truth)
    generation = Generation.open(tmp_path / "index")
    assert (generation.manifest.counts.chunks, generation.manifest.counts.documents) == (3_000, 300)
    assert {"vectors.faiss", "documents.sqlite", "rows.npy"} <= sizes.keys()
    filter = Filter.parse({"metadata": {"share": "10.0%"}})
    assert 100 < generation.select(filter).count < 600
    for vector, everything, kept in zip(real(3)[1], truth.rows[0], truth.rows[2], strict=True):
        assert set(generation.search_vectors(vector, 50)[1][:10]) == set(everything)
        assert set(generation.search_vectors(vector, 50, filter)[1][:10]) == set(kept)
    generation.close()


# the components of a search


def test_the_functions_of_every_component_are_there_and_one_that_is_not_is_named():
    traced = module("traced_server")
    for component, names in traced.COMPONENTS.items():
        assert all(callable(getattr(*traced.find(component, name))) for name in names)
    with pytest.raises(
        LookupError, match=r"fusion: there is no rag\.query\.retriever:Retriever\.blend: correct COMPONENTS"
    ):
        traced.find("fusion", "rag.query.retriever:Retriever.blend")


def test_a_component_has_its_time_without_that_of_nested_ones(monkeypatch):
    traced = module("traced_server")
    clock = iter([0, 10, 30, 100, 100, 101]).__next__
    monkeypatch.setattr(traced.time, "thread_time_ns", clock)
    inner = traced.timed("fusion", lambda: "found")
    outer = traced.timed("server", lambda: inner())
    assert outer() == inner() == "found"
    totals = traced._thread.totals
    assert (totals["server"], totals["fusion"]) == ([1, 80], [2, 21])


def test_components_are_reported_next_to_the_application():
    traced = module("traced_server")
    send = traced.reporting(lambda environ, start_response: [environ["PATH_INFO"].encode()])
    assert send({"PATH_INFO": "/search"}, None) == [b"/search"]
    assert (
        json.loads(send({"PATH_INFO": "/components"}, lambda status, headers: None)[0]).keys()
        == traced.COMPONENTS.keys()
    )


def test_tables_of_different_measurements_stand_apart():
    rows = [*ROWS, {"table": "components", "name": "fusion", "alone": 20}]
    text = module("measure").as_text(rows, {})
    assert text.endswith("\n\ncomponents\n\n| name | alone |\n|---|---|\n| fusion | 20 |")
