"""Verb `embed`: text in, unit vector out, ours beside every peer, turn by turn in one process."""

import contextlib
import gc
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tokenizers

from benchmark import peak
from benchmark.architecture import model_folder
from benchmark.corpus import read_chunks, texts_of_length
from benchmark.machine import OtherWork
from benchmark.peers import LangChain, Peer, Pilotlight, SentenceTransformerEager, Setup, TorchCompile, Vectors
from benchmark.report import Result, Row
from benchmark.runtimes import OnnxRuntime, OpenVino
from benchmark.timing import interleave, ratio, summarise
from embedder import EmbedderConfig, Embeddings, cpu
from embedder.model.shape import shape_of
from embedder.model.spec import read_spec

LENGTHS = (8, 15, 32, 128, 256)
_TEXTS = 4  # texts of a length; one turn runs them all, twice
_JOINED = 4  # passages
_SETTLE = 0.05  # seconds of a turn that are not counted
_LONG = 64  # tokens from which a text gets a third of the turns: its time varies less and is longer
OURS = "Pilotlight"
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
        *(Pilotlight(setup, "aot", precision) for precision in ("fp32", "bf16", "int8")),
        *(Pilotlight(setup, "native", precision) for precision in ("fp32", "bf16", "int8")),
    ]


def embed(
    source: Path,
    chunks: int,
    repeat: int,
    work: Path,
    *,
    architecture: str = "minilm",
    lengths: Sequence[int] = LENGTHS,
    only: Sequence[str] = (),
) -> Result:
    """Measure single texts of exact lengths, `repeat` turns, and `chunks` passages in bulk, a third of the turns."""
    import torch

    cores = cpu.detect().cores
    torch.set_num_threads(cores)
    cutter = Embeddings(EmbedderConfig(threads=cores))  # the packaged model cuts the passages, whatever is measured
    passages = read_chunks(source, max(chunks, 200), cutter)
    setup = Setup(model_folder(architecture, work), cores, work, passages)
    spec = read_spec(setup.folder)
    shape = shape_of(spec.config)
    if shape is None:
        raise ValueError(f"{setup.folder}: the operations of this architecture are not known")
    tokenizer = tokenizers.Tokenizer.from_file(str(spec.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # Passages are cut shorter than the longest texts measured here, so a few of them follow one another.
    joined = [" ".join(passages[i : i + _JOINED]) for i in range(0, len(passages), _JOINED)]
    singles = {length: texts_of_length(tokenizer, joined, length, _TEXTS) for length in lengths}
    loaded, rows = load(contestants(setup), only, passages[:40])
    others = OtherWork()
    measured = [peak.measure()]  # and again after each block of rows

    def with_share(block: list[Row]) -> list[Row]:
        measured.append(peak.measure())
        return [share(row, highest(measured[-2:])) for row in block]

    for length, texts in singles.items():
        turns = repeat if length < _LONG else max(2, repeat // 3)
        rows += with_share(single(loaded, texts, length, turns, peak.flops(shape, [length])))
    if chunks:
        counts = [min(len(e.ids), spec.max_length) for e in tokenizer.encode_batch_fast(passages[:chunks])]
        turns = max(1, repeat // 3)
        rows += with_share(bulk(loaded, passages[:chunks], sum(counts), turns, peak.flops(shape, counts)))
    facts = {
        "architecture": architecture,
        "default": {"engine": cutter.plan.engine, "precision": cutter.precision},
        "peak_gflops": highest(measured),
        "others_cores": others.cores(),
    }
    return Result(rows, facts)


def single(loaded: Loaded, texts: Sequence[str], length: int, turns: int, flops: float) -> list[Row]:
    """Measure texts of one length, one at a time, twice a turn; return a row a contestant."""
    print(f"1 text of {length} tokens", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [[text] for text in texts] * 2, turns, settle=_SETTLE)
    return compare(f"1 × {length} tokens", seconds, loaded, flops)


def bulk(loaded: Loaded, texts: Sequence[str], tokens: int, turns: int, flops: float) -> list[Row]:
    """Measure all texts together; return a row a contestant."""
    print(f"{len(texts)} passages", file=sys.stderr)
    calls = {name: peer.embed for name, (peer, _) in loaded.items()}
    seconds = interleave(calls, [texts], turns, rehearsals=0)  # loading was the rehearsal
    rows = compare(f"{len(texts)} passages, {tokens} tokens", seconds, loaded, flops)
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
        loaded[name] = (peer, lowest_cosine(vectors, reference) if reference is not None else 1.0)
        gc.collect()
    return loaded, rows


def lowest_cosine(left: Vectors, right: Vectors) -> float:
    """Return the lowest cosine of unit vectors, row by row, rounded to 5 digits."""
    return round(float(np.sum(left * right, axis=1).min()), 5)


def compare(what: str, seconds: dict[str, list[float]], loaded: Loaded, flops: float) -> list[Row]:
    """Return a row a contestant: times, ratios to the best peers and to LangChain, operations a second."""
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
        row["gflops"] = round(flops / row["median_ms"] / 1e6, 1)
        rows.append(row | {"cosine": loaded[name][1]})
    return rows


def highest(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the highest rate of each precision."""
    return {name: max(rates[name] for rates in measured) for name in measured[0]}


def share(row: Row, peaks: dict[str, float]) -> Row:
    """Return the row with its share of the measured peak of its precision, in percent."""
    highest = peaks.get(row.get("precision", ""))
    return row | {"peak_percent": round(100 * row["gflops"] / highest)} if highest and "gflops" in row else row
