"""Verb `rerank`: a query and its candidates in, a score for each out, ours beside every peer, turn by turn.

The cross-encoder is the packaged model's encoder, 6 layers 384 wide, below a head of random weights: what its scores
are worth is nothing, and how long they take is the same.
"""

import contextlib
import json
import logging
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.corpus import QUERIES, read_chunks
from benchmark.report import Row
from benchmark.runtimes import fuse_onnx, quantise_onnx
from benchmark.timing import interleave, ratio, summarise
from embedder import EmbedderConfig, Embeddings, cpu
from embedder.engines.batching import pad
from embedder.model.cross_encoder import CrossEncoderSpec, PairTokenizer, read_cross_encoder
from embedder.model.spec import PACKAGED, locate
from embedder.reranker import Reranker

TOKENS = 180  # of each pair
_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
_SETTLE = 0.05  # seconds of a turn that are not counted
_PART = 5  # pairs of each request where OpenVINO gets several
REFERENCE = "CrossEncoder eager fp32"
OURS = "Pilotlight"
Scores = npt.NDArray[np.float32]
Score = Callable[[tuple[str, list[str]]], Scores]
Arrays = dict[str, npt.NDArray[np.int64]]


def rerank(source: Path, count: int, repeat: int, work: Path) -> list[Row]:
    """Score `count` texts for a query, all of the same length, and of the lengths that passages have."""
    folder = write_cross_encoder(work / "cross-encoder")
    spec = read_cross_encoder(folder)
    tokenizer, query = PairTokenizer(spec), QUERIES[0]
    passages = read_chunks(source, 4 * count, Embeddings())
    equal = [_of_length(tokenizer, query, passages[i : i + 4]) for i in range(0, 4 * count, 4)]
    batches = {f"{count} pairs of {TOKENS} tokens": equal, f"{count} passages as they are": passages[:count]}
    loaded, rows = _load(_contestants(folder, spec, work, (query, equal)), (query, equal))
    for name, texts in batches.items():
        tokens = sum(map(len, tokenizer(query, texts)))
        print(f"{name}, {tokens} tokens", file=sys.stderr)
        seconds = interleave(
            {one: score for one, (score, _) in loaded.items()}, [(query, texts)] * 2, repeat, settle=_SETTLE
        )
        best = min((one for one in seconds if not one.startswith(OURS)), key=lambda one: min(seconds[one]))
        for one, values in seconds.items():
            row: Row = {"name": name, "contestant": one, **summarise(values), "difference": loaded[one][1]}
            rows.append(row | {"best_peer": best, "vs_best_any": ratio(seconds[best], values)})
    return rows


def write_cross_encoder(folder: Path) -> Path:
    """Save the packaged model's encoder with a head of random weights; return the folder."""
    import torch
    from transformers import AutoModelForSequenceClassification

    base = locate(PACKAGED)
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
        torch.nn.init.normal_(model.classifier.weight)
        model.save_pretrained(folder)
    shutil.copy(base / "tokenizer.json", folder)
    rules = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(rules), encoding="utf-8")
    return folder


def _of_length(tokenizer: PairTokenizer, query: str, passages: Sequence[str]) -> str:
    """Return the first words of passages that make a pair of `TOKENS` tokens with the query, or nearly."""
    words = " ".join(passages).split()
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(tokenizer(query, [" ".join(words[:middle])])[0]) <= TOKENS
        low, high = (middle, high) if fits else (low, middle - 1)
    return " ".join(words[:low])


def _contestants(
    folder: Path, spec: CrossEncoderSpec, work: Path, sample: tuple[str, list[str]]
) -> dict[str, Callable[[], Score]]:
    arrays = _arrays(spec)
    return {
        REFERENCE: partial(_sentence_transformers, folder),
        **{f"ONNX Runtime {p}": partial(_onnx_runtime, folder, spec, work, p, arrays) for p in ("fp32", "int8")},
        **{f"OpenVINO {p}": partial(_openvino, folder, p, arrays, sample) for p in ("fp32", "bf16", "int8")},
        **{f"{OURS} native {p}": partial(_pilotlight, folder, p) for p in ("fp32", "bf16", "int8")},
    }


def _load(
    contestants: dict[str, Callable[[], Score]], sample: tuple[str, list[str]]
) -> tuple[dict[str, tuple[Score, float]], list[Row]]:
    """Load what can be, with the largest difference of its scores from the reference's; a row for what cannot."""
    loaded: dict[str, tuple[Score, float]] = {}
    rows: list[Row] = []
    reference: Scores | None = None
    for name, load in contestants.items():
        print(f"loading {name}", file=sys.stderr)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                score = load()
                scores = score(sample)
        except ImportError as error:
            rows.append({"contestant": name, "note": f"not installed: {error.name or error}"})
            continue
        except Exception as error:  # noqa: BLE001 - whatever a peer's library throws, the others are still measured
            rows.append({"contestant": name, "note": f"does not run: {' '.join(str(error).split())[:160]}"})
            continue
        reference = scores if reference is None else reference
        loaded[name] = (score, round(float(np.abs(scores - reference).max()), 4))
    return loaded, rows


def _arrays(spec: CrossEncoderSpec) -> Callable[[str, Sequence[str]], Arrays]:
    """Return a function that makes the inputs of a padded batch, by the fastest tokenizer there is."""
    tokenizer, size = PairTokenizer(spec), int(spec.config["vocab_size"])

    def make(query: str, texts: Sequence[str]) -> Arrays:
        ids, mask = pad(tokenizer(query, texts), 0)
        return dict(zip(_INPUTS, (ids % size, mask, ids // size), strict=True))

    return make


def _sentence_transformers(folder: Path) -> Score:
    import torch
    from sentence_transformers import CrossEncoder

    torch.set_num_threads(cpu.detect().cores)
    model = CrossEncoder(str(folder), device="cpu")
    plain = torch.nn.Identity()

    def score(asked: tuple[str, list[str]]) -> Scores:
        query, texts = asked
        pairs = [(query, text) for text in texts]
        scores: Scores = model.predict(pairs, activation_fn=plain, show_progress_bar=False)
        return scores

    return score


def _module(folder: Path, attention: str) -> Any:
    import torch
    from transformers import AutoModelForSequenceClassification

    class Scored(torch.nn.Module):
        """Inputs to logits, in one graph."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation=attention)
            self.eval().requires_grad_(False)

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            return self.inner(
                input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
            ).logits.squeeze(-1)

    return Scored()


def _example() -> tuple[Any, ...]:
    import torch

    ids = torch.arange(1000, 1016).view(2, 8)
    return ids, torch.ones_like(ids), torch.zeros_like(ids)


def _onnx_runtime(
    folder: Path, spec: CrossEncoderSpec, work: Path, precision: str, arrays: Callable[..., Arrays]
) -> Score:
    import onnxruntime

    place = work / "onnx-pairs"
    place.mkdir(exist_ok=True)
    path = fuse_onnx(lambda: _module(folder, "eager"), _example(), _INPUTS, spec.config, place)
    if precision == "int8":
        path = quantise_onnx(path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cpu.detect().cores
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda asked: session.run(None, arrays(*asked))[0]


def _openvino(folder: Path, precision: str, arrays: Callable[..., Arrays], sample: tuple[str, list[str]]) -> Score:
    """One request with all pairs and all cores, or several at a time: whichever is faster here."""
    import openvino
    import openvino.properties as properties
    import openvino.properties.hint as hint

    bf16 = precision != "fp32" and cpu.detect().runs_bf16
    if precision == "bf16" and not bf16:
        raise RuntimeError("this processor has no bf16")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = dict(zip(_INPUTS, _example(), strict=True))
        model = openvino.convert_model(_module(folder, "sdpa"), example_input=example)
    if precision == "int8":
        import nncf

        nncf.set_log_level(logging.ERROR)
        samples = [arrays(sample[0], [text]) for text in sample[1]]
        model = nncf.quantize(
            model, nncf.Dataset(samples), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(samples)
        )
    core = openvino.Core()

    def compiled(mode: Any) -> Any:
        options = {
            hint.performance_mode: mode,
            hint.inference_precision: openvino.Type.bf16 if bf16 else openvino.Type.f32,
            properties.inference_num_threads: cpu.detect().cores,
        }
        return core.compile_model(model, "CPU", options)

    request = compiled(hint.PerformanceMode.LATENCY).create_infer_request()
    queue = openvino.AsyncInferQueue(compiled(hint.PerformanceMode.THROUGHPUT))

    def at_once(asked: tuple[str, list[str]]) -> Scores:
        scores: Scores = request.infer(arrays(*asked), share_inputs=True)[0].copy()
        return scores

    def in_parts(asked: tuple[str, list[str]]) -> Scores:
        query, texts = asked
        scores = np.empty(len(texts), np.float32)

        def keep(done: Any, start: int) -> None:
            found = done.get_output_tensor(0).data
            scores[start : start + len(found)] = found

        queue.set_callback(keep)
        for start in range(0, len(texts), _PART):
            queue.start_async(arrays(query, texts[start : start + _PART]), start)
        queue.wait_all()
        return scores

    return min((at_once, in_parts), key=lambda score: _seconds(score, sample))


def _seconds(score: Score, sample: tuple[str, list[str]]) -> float:
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        score(sample)
        taken.append(time.perf_counter() - began)
    return min(taken)


def _pilotlight(folder: Path, precision: str) -> Score:
    config = EmbedderConfig(str(folder), engine="native", precision=precision, threads=cpu.detect().cores, pairs=True)
    model = Reranker(config)
    return lambda asked: model.logits(model.pairs(*asked))
