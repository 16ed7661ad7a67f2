"""Measure the time to embed texts with Pilotlight and with other software (`bench.py embed`)."""

import contextlib
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers

from benchmark.corpus import read_chunks, texts_of_length
from benchmark.embedding_peers import (
    LangChain,
    Peer,
    Pilotlight,
    SentenceTransformerEager,
    Setup,
    TorchCompile,
    Vectors,
)
from benchmark.measure import OURS, Row, interleave, ratio, summarise
from benchmark.runtimes import OnnxRuntime, OpenVino
from embedder import EmbedderConfig, Embeddings, cpu
from embedder.config import locate
from embedder.model.spec import read_spec

LENGTHS = (8, 15, 32, 64, 128, 192, 256)
_TEXTS_PER_LENGTH = 4
_JOINED_PASSAGES = 4  # passages; one is too short for the longest texts
_SETTLE_SECONDS = 0.05
_LONG_TOKENS = 64  # tokens; times of longer texts vary less, so a third of the turns is enough
REFERENCE = "SentenceTransformer eager fp32"
BASELINE = "LangChain eager fp32"
FLOATS = {"fp32", "bf16"}
Loaded = dict[str, tuple[Peer, float]]  # name and precision → (peer, lowest cosine with the reference's vectors)


def contestants(setup: Setup) -> list[Peer]:
    """Return the objects for all compared software, without loading their models."""
    return [
        LangChain(setup),
        SentenceTransformerEager(setup),
        TorchCompile(setup),
        *(OnnxRuntime(setup, precision) for precision in ("fp32", "int8")),
        *(OpenVino(setup, precision) for precision in ("fp32", "bf16", "int8")),
        *(Pilotlight(setup, "aot", precision) for precision in ("fp32", "bf16")),
        *(Pilotlight(setup, "native", precision) for precision in ("fp32", "bf16", "int8")),
    ]


def embed(source: Path, chunks: int, repeat: int, work: Path, only: Sequence[str] = ()) -> list[Row]:
    """Measure the time to embed single texts of several lengths, up to `repeat` times, and a batch of passages."""
    import torch

    cores = cpu.detect().cores
    torch.set_num_threads(cores)
    cutter = Embeddings(EmbedderConfig(threads=cores))
    passages = read_chunks(source, max(chunks, 200), cutter)
    setup = Setup(locate(cutter.plan.config.model), cores, work, passages)
    spec = read_spec(setup.folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(spec.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    joined = [" ".join(passages[i : i + _JOINED_PASSAGES]) for i in range(0, len(passages), _JOINED_PASSAGES)]
    singles = {length: texts_of_length(tokenizer, joined, length, _TEXTS_PER_LENGTH) for length in LENGTHS}
    loaded, rows = load(contestants(setup), only, passages[:40])
    for length, texts in singles.items():
        turns = repeat if length < _LONG_TOKENS else max(2, repeat // 3)
        rows += single(loaded, texts, length, turns)
    if chunks:
        counts = [min(len(e.ids), spec.max_length) for e in tokenizer.encode_batch_fast(passages[:chunks])]
        turns = max(1, repeat // 3)
        rows += bulk(loaded, passages[:chunks], sum(counts), turns)
    return rows


def single(loaded: Loaded, texts: Sequence[str], length: int, turns: int) -> list[Row]:
    """Measure the time to embed single texts. A turn embeds each text twice. Returns a table row for each program."""
    print(f"1 text of {length} tokens", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [[text] for text in texts] * 2, turns, settle=_SETTLE_SECONDS)
    return compare(f"1 × {length} tokens", seconds, loaded)


def bulk(loaded: Loaded, texts: Sequence[str], tokens: int, turns: int) -> list[Row]:
    """Measure the time to embed all texts in one call. Returns a table row for each program."""
    print(f"{len(texts)} passages", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [texts], turns, rehearsals=0)
    rows = compare(f"{len(texts)} passages, {tokens} tokens", seconds, loaded)
    return [row | {"tokens_per_s": round(tokens / row["median_ms"] * 1000)} for row in rows]


def load(peers: Sequence[Peer], only: Sequence[str], texts: Sequence[str]) -> tuple[Loaded, list[Row]]:
    """Load all peers, or peers whose names contain a word in `only`. Compare their vectors with those of `REFERENCE`.

    Returns:
        The loaded peers with their lowest cosine on `texts`, and a table row for each peer that could not be loaded.
    """
    loaded: Loaded = {}
    rows: list[Row] = []
    reference: Vectors | None = None
    for peer in peers:
        name = f"{peer.name} {peer.precision}"
        if only and name != REFERENCE and not any(word.lower() in name.lower() for word in only):
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
        except Exception as error:  # noqa: BLE001 - the other peers are still measured
            rows.append({"contestant": name, "note": f"does not run: {' '.join(str(error).split())[:160]}"})
            continue
        if name == REFERENCE:
            reference = vectors
        cosine = 1.0 if reference is None else round(float(np.sum(vectors * reference, axis=1).min()), 5)
        loaded[name] = (peer, cosine)
        gc.collect()
    return loaded, rows


def compare(title: str, seconds: dict[str, list[float]], loaded: Loaded) -> list[Row]:
    """Return a table row for each program: times, and speed relative to LangChain and the fastest other software."""
    theirs = {name: summarise(values)["median_ms"] for name, values in seconds.items() if not name.startswith(OURS)}
    best_any = min(theirs, key=theirs.__getitem__)
    floats = {name: median for name, median in theirs.items() if loaded[name][0].precision in FLOATS}
    best_float = min(floats, key=floats.__getitem__) if floats else best_any
    rows = []
    for name, values in seconds.items():
        row: Row = {"name": title, "contestant": name, "precision": loaded[name][0].precision, **summarise(values)}
        row |= {"best_float_peer": best_float, "vs_best_float": ratio(seconds[best_float], values)}
        row |= {"best_peer": best_any, "vs_best_any": ratio(seconds[best_any], values)}
        if BASELINE in seconds:
            row["vs_langchain"] = ratio(seconds[BASELINE], values)
        rows.append(row | {"cosine": loaded[name][1]})
    return rows
