"""The benchmark's own arithmetic, with contestants that do nothing. No test depends on how long anything takes."""

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import tokenizers

ROOT = Path(__file__).resolve().parents[1]
WORDS = "the order of an expression in python is from left to right and a name is found in its own function first "


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"benchmark.{name}")


class FakePeer:
    def __init__(self, name: str, precision: str, error: Exception | None = None) -> None:
        self.name, self.precision, self._error = name, precision, error

    def load(self) -> None:
        if self._error:
            raise self._error

    def embed(self, texts):
        return np.tile(np.array([0.6, 0.8], dtype=np.float32), (len(texts), 1))


# timing


def test_turns_rotate_and_the_rehearsal_is_not_counted():
    calls = []
    contestants = {name: lambda value, name=name: calls.append((name, value)) for name in "ab"}
    seconds = module("timing").interleave(contestants, [1, 2], turns=2)
    assert [name for name, _ in calls[::2]] == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(values) for name, values in seconds.items()} == {"a": 4, "b": 4}


def test_the_calls_a_turn_settles_with_are_not_counted(monkeypatch):
    timing = module("timing")
    clock = itertools.count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    calls = []
    seconds = timing.interleave({"a": calls.append}, [1, 2], turns=3, settle=3, rehearsals=0)
    assert calls == [1, 1, 1, 2] * 3
    assert len(seconds["a"]) == 6


def test_what_a_call_returns_is_done_after_the_clock_stops():
    timing = module("timing")
    clock = itertools.count()
    stopped = []
    contestants = {"a": lambda value: lambda: stopped.append(next(clock))}
    seconds = timing.interleave(contestants, [1], turns=2, clock=lambda: next(clock))
    assert seconds["a"] == [1, 1]
    assert len(stopped) == 3


def test_summary_is_median_and_95th_percentile_in_milliseconds():
    summary = module("timing").summarise([i / 1000 for i in range(1, 101)])
    assert summary == {"median_ms": 50.5, "p95_ms": 96.0, "runs": 100}


def test_ratio_is_the_median_of_the_ratios_run_by_run():
    # the machine is three times slower in the second run, for both
    assert module("timing").ratio([2.0, 6.0, 2.0], [1.0, 3.0, 2.0]) == 2.0


# corpus


@pytest.fixture(scope="module")
def tokenizer(packaged_model) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(packaged_model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@pytest.mark.parametrize("length", [8, 15, 32, 128, 256])
def test_texts_have_exactly_the_tokens_asked_for(tokenizer, length):
    sources = [f"{number} unforeseeable {WORDS * 20}" for number in range(6)]
    texts = module("corpus").texts_of_length(tokenizer, sources, length, 4)
    assert [len(tokenizer.encode(text).ids) for text in texts] == [length] * 4
    assert len(set(texts)) == 4


def test_too_short_a_source_is_said(tokenizer):
    with pytest.raises(ValueError, match=r"0 passages of 256 tokens.*larger --source"):
        module("corpus").texts_of_length(tokenizer, ["short"], 256, 4)


def test_short_passages_are_different_and_as_many_as_asked():
    sources = [f"{name} {WORDS * 5} {name}" for name in "abcdefgh"]
    sources = [" ".join(f"{word}{number}" for word in text.split()) for number, text in enumerate(sources)]
    passages = module("corpus").short_passages(sources, 40)
    assert len(set(passages)) == len(passages) == 40
    assert max(len(passage.split()) for passage in passages) <= 40


def test_the_reference_is_there_without_a_network(tmp_path):
    folder = module("corpus").write_reference(tmp_path / "reference")
    assert len(list(folder.glob("*.txt"))) > 50


# what is computed


def test_ratios_are_to_the_best_peer_and_never_to_ourselves():
    embed = module("embed")
    peers = [
        FakePeer("LangChain eager", "fp32"),
        FakePeer("OpenVINO", "bf16"),
        FakePeer("OpenVINO", "int8"),
        FakePeer("Pilotlight native", "int8"),
    ]
    loaded = {f"{peer.name} {peer.precision}": (peer, 1.0) for peer in peers}
    times = zip(loaded, ([8.0, 8.0], [2.0, 2.0], [1.0, 1.0], [0.5, 0.5]), strict=True)
    rows = embed.compare("1 × 15 tokens", dict(times), loaded)
    ours = rows[-1]
    assert (ours["best_float_peer"], ours["best_peer"]) == ("OpenVINO bf16", "OpenVINO int8")
    assert (ours["vs_best_float"], ours["vs_best_any"], ours["vs_langchain"]) == (4.0, 2.0, 16.0)


def test_a_contestant_that_cannot_run_gets_a_row_and_the_others_run():
    missing = ImportError("No module named 'openvino'", name="openvino")
    peers = [
        FakePeer("SentenceTransformer eager", "fp32"),
        FakePeer("OpenVINO", "fp32", missing),
        FakePeer("ONNX Runtime", "int8", RuntimeError("no such\n  operator")),
        FakePeer("Pilotlight native", "bf16"),
    ]
    loaded, rows = module("embed").load(peers, (), ["a", "b"])
    assert list(loaded) == ["SentenceTransformer eager fp32", "Pilotlight native bf16"]
    assert rows == [
        {"contestant": "OpenVINO fp32", "note": "not installed: openvino"},
        {"contestant": "ONNX Runtime int8", "note": "does not run: no such operator"},
    ]


def test_only_the_contestants_asked_for_are_loaded_beside_the_reference():
    peers = [FakePeer(name, "fp32") for name in ("SentenceTransformer eager", "OpenVINO", "Pilotlight aot")]
    loaded, rows = module("embed").load(peers, ("pilotlight",), ["a"])
    assert list(loaded) == ["SentenceTransformer eager fp32", "Pilotlight aot fp32"]
    assert rows == []


# what is shown


def rows() -> list[dict[str, object]]:
    return [
        {"name": "1 × 8 tokens", "contestant": "LangChain eager fp32", "median_ms": 9.0},
        {"name": "1 × 15 tokens", "contestant": "LangChain eager fp32", "median_ms": 11.0},
        {"name": "1 × 8 tokens", "contestant": "Pilotlight native bf16", "median_ms": 0.3},
        {"name": "1 × 15 tokens", "contestant": "Pilotlight native bf16", "median_ms": 0.4},
        {"name": "9 passages, 99 tokens", "contestant": "LangChain eager fp32", "median_ms": 9, "tokens_per_s": 11},
        {"name": "9 passages, 99 tokens", "contestant": "Pilotlight native bf16", "median_ms": 1, "tokens_per_s": 99},
        {"contestant": "OpenVINO fp32", "note": "not installed: openvino"},
    ]


def test_the_table_has_the_columns_that_are_filled():
    lines = module("report").as_table(rows()).splitlines()
    assert lines[0] == "| what | contestant | median ms | tokens/s | note |"
    assert {line.count("|") for line in lines} == {6}
    assert lines[4] == "| 1 × 8 tokens | **Pilotlight native bf16** | 0.3 |  |  |"


def test_the_matrix_has_a_line_a_contestant_and_a_column_a_measurement():
    assert module("report").as_matrix(rows()).splitlines() == [
        "| median ms | 1 × 8 tokens | 1 × 15 tokens | 9 passages, 99 tokens |",
        "|---|---|---|---|",
        "| LangChain eager fp32 | 9 | 11 | 9 |",
        "| **Pilotlight native bf16** | 0.3 | 0.4 | 1 |",
    ]


def test_the_command_line_writes_json_and_keeps_stdout_to_it(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("bench", ROOT / "scripts" / "bench.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setitem(bench.VERBS, "query", (lambda *_: rows(), 1, 1))
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "query", "--json", "--out", str(out), "--source", str(tmp_path)])
    assert bench.main() == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == json.loads(out.read_text(encoding="utf-8"))
    assert (shown["verb"], shown["rows"]) == ("query", rows())
    assert {"cpu", "cores", "versions", "date"} <= set(shown["machine"])
