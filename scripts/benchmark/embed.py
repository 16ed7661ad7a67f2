"""Verbs `embed` and `models`: text in, unit vector out, ours beside every peer, and models beside each other."""

import contextlib
import gc
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from benchmark.corpus import read_chunks, texts_of_length
from benchmark.measure import OURS, OtherWork, Row, interleave, ratio, summarise
from benchmark.peers import LangChain, Peer, Pilotlight, SentenceTransformerEager, Setup, TorchCompile, Vectors
from benchmark.runtimes import OnnxRuntime, OpenVino
from embedder import EmbedderConfig, Embeddings, cpu
from embedder.config import locate
from embedder.model.spec import read_spec
from embedder.model.tokenizer import load_tokenizer

LENGTHS = (8, 15, 32, 128, 256)
_TEXTS = 4  # texts of a length; one turn runs them all, twice
_JOINED = 4  # passages
_QUERY = 15  # tokens of the single texts that models are compared on
_MEMORY = """
import sys
from embedder import EmbedderConfig
from embedder.text_embedder import Embedder
Embedder(EmbedderConfig(sys.argv[1], precision=sys.argv[2])).encode(["a short text"], role="query")
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")))
"""
_SETTLE = 0.05  # seconds of a turn that are not counted
_LONG = 64  # tokens from which a text gets a third of the turns: its time varies less and is longer
REFERENCE = "SentenceTransformer eager fp32"
BASELINE = "LangChain eager fp32"
FLOATS = {"fp32", "bf16"}
Loaded = dict[str, tuple[Peer, float]]  # by name and precision: a contestant, and its lowest cosine


def contestants(setup: Setup) -> list[Peer]:
    """Return every contestant, not loaded."""
    return [
        LangChain(setup),
        SentenceTransformerEager(setup),
        TorchCompile(setup),
        *(OnnxRuntime(setup, precision) for precision in ("fp32", "int8")),
        *(OpenVino(setup, precision) for precision in ("fp32", "bf16", "int8")),
        *(Pilotlight(setup, "aot", precision) for precision in ("fp32", "bf16")),
        *(Pilotlight(setup, "native", precision) for precision in ("fp32", "bf16", "int8")),
    ]


def embed(
    source: Path, chunks: int, repeat: int, work: Path, *, lengths: Sequence[int] = LENGTHS, only: Sequence[str] = ()
) -> tuple[list[Row], dict[str, Any]]:
    """Measure single texts of exact lengths, `repeat` turns, and `chunks` passages in bulk, a third of the turns."""
    import torch

    cores = cpu.detect().cores
    torch.set_num_threads(cores)
    cutter = Embeddings(EmbedderConfig(threads=cores))  # its chunker cuts the passages
    passages = read_chunks(source, max(chunks, 200), cutter)
    setup = Setup(locate(cutter.config.model), cores, work, passages)
    spec = read_spec(setup.folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(spec.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Passages are cut shorter than the longest texts measured here, so a few of them follow one another.
    joined = [" ".join(passages[i : i + _JOINED]) for i in range(0, len(passages), _JOINED)]
    singles = {length: texts_of_length(tokenizer, joined, length, _TEXTS) for length in lengths}
    loaded, rows = load(contestants(setup), only, passages[:40])
    others = OtherWork()
    for length, texts in singles.items():
        turns = repeat if length < _LONG else max(2, repeat // 3)
        rows += single(loaded, texts, length, turns)
    if chunks:
        counts = [min(len(e.ids), spec.max_length) for e in tokenizer.encode_batch_fast(passages[:chunks])]
        turns = max(1, repeat // 3)
        rows += bulk(loaded, passages[:chunks], sum(counts), turns)
    default = {"engine": cutter.plan.engine, "precision": cutter.precision}
    return rows, {"default": default, "others_cores": others.cores()}


def models(names: Sequence[str], source: Path, chunks: int, repeat: int) -> tuple[list[Row], dict[str, Any]]:
    """Measure models in `auto` and `int8`: a text of 15 tokens, prompt included, passages in bulk, and memory."""
    loaded = {
        f"{name} {precision}": Embeddings(EmbedderConfig(name, precision=precision))
        for name in names
        for precision in ("auto", "int8")
    }
    passages = read_chunks(source, max(chunks, 200), next(iter(loaded.values())))
    queries: dict[str, list[str]] = {}
    for name, one in loaded.items():
        prompt = one.spec.query_prompt
        texts = [prompt + text for text in passages]
        cut = texts_of_length(load_tokenizer(one.spec.tokenizer), texts, _QUERY, _TEXTS)
        queries[name] = [text.removeprefix(prompt) for text in cut]
    others = OtherWork()
    each = {name: lambda number, n=name: loaded[n].encode([queries[n][number]], role="query") for name in loaded}
    one_text = interleave(each, [*range(_TEXTS)] * 2, repeat, settle=_SETTLE)
    bulk_calls = {name: one.encode for name, one in loaded.items()}
    all_texts = interleave(bulk_calls, [passages[:chunks]], max(1, repeat // 3))
    rows = []
    for what, seconds in ((f"{_QUERY} tokens", one_text), (f"{chunks} passages", all_texts)):
        base = dict(zip(("auto", "int8"), list(seconds.values())[:2], strict=True))
        rows += [
            {"name": what, "contestant": name, **summarise(values), "vs_first": ratio(values, base[name.split()[-1]])}
            for name, values in seconds.items()
        ]
    for name in loaded:
        line = [sys.executable, "-c", _MEMORY, *name.split()]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        rows.append({"name": "memory of a process", "contestant": name, "rss_mb": int(done.stdout) // 1024})
    return rows, {"others_cores": others.cores()}


def single(loaded: Loaded, texts: Sequence[str], length: int, turns: int) -> list[Row]:
    """Measure texts of one length, one at a time, twice a turn; return a row a contestant."""
    print(f"1 text of {length} tokens", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [[text] for text in texts] * 2, turns, settle=_SETTLE)
    return compare(f"1 × {length} tokens", seconds, loaded)


def bulk(loaded: Loaded, texts: Sequence[str], tokens: int, turns: int) -> list[Row]:
    """Measure all texts together; return a row a contestant."""
    print(f"{len(texts)} passages", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [texts], turns, rehearsals=0)  # loading was the rehearsal
    rows = compare(f"{len(texts)} passages, {tokens} tokens", seconds, loaded)
    return [row | {"tokens_per_s": round(tokens / row["median_ms"] * 1000)} for row in rows]


def load(peers: Sequence[Peer], only: Sequence[str], texts: Sequence[str]) -> tuple[Loaded, list[Row]]:
    """Load the peers whose name holds one of `only` (or all), and compare their vectors with the reference's.

    Returns the loaded ones with their lowest cosine on `texts`, and a row for each that cannot run here.
    """
    loaded: Loaded = {}
    rows: list[Row] = []
    reference: Vectors | None = None
    for peer in peers:
        name = f"{peer.name} {peer.precision}"
        if only and name != REFERENCE and not any(part.lower() in name.lower() for part in only):
            continue
        print(f"loading {name}", file=sys.stderr)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                peer.load()
                vectors = peer.embed(texts)
                peer.embed(texts[:1])
        except ImportError as error:
            rows.append({"contestant": name, "note": f"not installed: {error.name or error}"})
            continue
        except Exception as error:  # noqa: BLE001 - whatever a peer's library throws, the others are still measured
            rows.append({"contestant": name, "note": f"does not run: {' '.join(str(error).split())[:160]}"})
            continue
        if name == REFERENCE:
            reference = vectors
        cosine = 1.0 if reference is None else round(float(np.sum(vectors * reference, axis=1).min()), 5)
        loaded[name] = (peer, cosine)
        gc.collect()
    return loaded, rows


def compare(what: str, seconds: dict[str, list[float]], loaded: Loaded) -> list[Row]:
    """Return a row a contestant: times, ratios to the best peers and to LangChain."""
    theirs = {name: summarise(values)["median_ms"] for name, values in seconds.items() if not name.startswith(OURS)}
    best_any = min(theirs, key=theirs.__getitem__)
    floats = {name: median for name, median in theirs.items() if loaded[name][0].precision in FLOATS}
    best_float = min(floats, key=floats.__getitem__) if floats else best_any
    rows = []
    for name, values in seconds.items():
        row: Row = {"name": what, "contestant": name, "precision": loaded[name][0].precision, **summarise(values)}
        row |= {"best_float_peer": best_float, "vs_best_float": ratio(seconds[best_float], values)}
        row |= {"best_peer": best_any, "vs_best_any": ratio(seconds[best_any], values)}
        if BASELINE in seconds:
            row["vs_langchain"] = ratio(seconds[BASELINE], values)
        rows.append(row | {"cosine": loaded[name][1]})
    return rows
