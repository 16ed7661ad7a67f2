#!/usr/bin/env python
"""Learn the weights of lexical search, dense search and late interaction, and write them to rag/query/weights.json.

`collect` embeds collections in BEIR's layout, and saves the candidates of every query with their scores. Each kind of
collection, such as manuals, has its own folder. `train` fits the weights to all collections, with equal weight for each
kind. It also prints the nDCG@10 of each collection under weights that were fitted without that collection:

    scripts/learn_weights.py collect build/weights/abstracts ~/datasets/scifact
    scripts/learn_weights.py collect build/weights/manuals ~/questions/manual ~/questions/handbook
    scripts/learn_weights.py train build/weights

Random numbers are seeded, so the same collections give the same weights. The weights of 2026-11-29 are fitted to nine
kinds. The table has the nDCG@10 of the better of lexical and dense search, and of weights fitted to other collections:

    kind, number of collections      source                                               better search, learned
    abstracts, 1                     SciFact                                              .688, .746
    electronics, 1                   Vaswani (NPL), all 11,429 passages                   .437, .517
    questions to paragraphs, 7       XQuAD in ar, de, el, hi, th, tr and vi               .945, .949
    in another language, 4           XQuAD, questions and paragraphs of two languages     .413, .431
    words to functions, 1            CoSQA, development questions, 6,267 functions        .603, .578
    descriptions to functions, 8     descriptions paired with functions                   .633, .678
    manuals in English, 10           `pilotlight eval --from-index`                       .477, .516
    manuals in other languages, 10   the same                                             .406, .431
    source packages, 14              the same, in eight programming languages             .300, .325
    all 56                           best fixed weights: .523                             .502, .529
    test set, 12                     evaluated once; best fixed weights: .352             .348, .361

The names of the manuals and packages were not recorded. Each has at least 80 passages.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rag.query.weighting import MAX_DEVIATIONS, SIGNALS

Array = npt.NDArray[Any]

WEIGHTS = Path(__file__).parent.parent / "rag" / "query" / "weights.json"
MAX_CANDIDATES = 40
MAX_QUERIES = 150
MAX_RELEVANT = 5
RANK_TEMPERATURE = 0.02
PENALTY_FACTOR = 0.003
WEIGHT_WITHOUT_TOKENS = 0.5
FOLDS = 16
STEPS = 30


class Collection(NamedTuple):
    """The queries of a collection, with the candidates of each query, and each candidate's scores from 0 to 1."""

    name: str
    kind: str
    has_tokens: bool
    scaled: Array  # (queries, candidates, 3): dense, lexical, late interaction
    exists: Array  # (queries, candidates)
    relevance: Array  # (queries, candidates)
    signals: Array  # (queries, signals)
    ideal: Array  # ideal DCG@10, (queries,)

    def ndcg(self, weights: Array) -> float:
        """Return the mean nDCG@10 if candidates are ranked with these weights, (3,) or (queries, 3)."""
        weights = np.broadcast_to(weights, (len(self.ideal), 3))
        scores = np.where(self.exists, (self.scaled * weights[:, np.newaxis]).sum(-1), -1)
        best = np.argsort(-scores, 1, kind="stable")[:, :10]
        gains = np.take_along_axis(self.relevance, best, 1) / np.log2(np.arange(best.shape[1]) + 2)
        return float((gains.sum(1) / self.ideal).mean())


def collect(folders: list[Path], out: Path, precision: str) -> None:
    """Embed each collection, and save the candidates of its queries with their scores."""
    from indexer.generation.rows import why_no_tokens
    from rag.evaluation.evaluation import read_dataset, search_corpus
    from rag.query.ranking import scale
    from rag.query.weighting import measure_signals
    from rag.serving.follower import load_embedder
    from rag.settings import load

    embedder = load_embedder(load({"precision": precision}, {}))
    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        dataset = read_dataset(folder)
        texts = list(dataset.corpus.values())
        broken = embedder.count_broken(texts[:: max(1, len(texts) // 256)])
        has_tokens = not why_no_tokens(len(texts), broken, is_multilingual=embedder.is_multilingual)
        queries = []
        for id, candidates in search_corpus(dataset, embedder, None, tokens=True):
            assert candidates.dense is not None  # noqa: S101 - for the type checker
            ranking = candidates.rank("hybrid", tokens=True)
            dense, lexical, tokens = (ranking.columns[search] for search in ("dense", "lexical", "tokens"))
            is_compared = ~np.isnan(tokens)
            scaled = [scale(dense), lexical / (lexical.max(initial=0) or 1), np.zeros(len(tokens), np.float32)]
            scaled[2][is_compared] = scale(tokens[is_compared])
            relevance = [max(0, dataset.judgements[id].get(candidates.document_ids[row], 0)) for row in ranking.rows]
            values = measure_signals(candidates.facts, candidates.dense, candidates.shortened)
            best = sorted(dataset.judgements[id].values(), reverse=True)[:10]
            ideal = sum(max(0, gain) / np.log2(index + 2) for index, gain in enumerate(best))
            if ideal:
                queries.append((np.stack(scaled, 1), np.array(relevance), values, ideal))
        save(out / f"{folder.name}.npz", has_tokens, queries)
        print(f"{folder.name}: {len(texts):,} passages, {len(queries):,} queries", flush=True)


def save(path: Path, has_tokens: bool, queries: list[tuple[Array, Array, list[float], float]]) -> None:
    """Write queries to a file. A query has scaled scores (n, 3), relevance (n,), signals and an ideal DCG@10."""
    widest = max(len(relevance) for _, relevance, _, _ in queries)
    scaled = np.zeros((len(queries), widest, 3), np.float32)
    relevance = np.full((len(queries), widest), -1, np.int8)
    for index, (scores, judged, _, _) in enumerate(queries):
        scaled[index, : len(judged)], relevance[index, : len(judged)] = scores, judged
    signals = np.array([values for _, _, values, _ in queries])
    ideal = np.array([each for _, _, _, each in queries])
    np.savez_compressed(path, has_tokens=has_tokens, scaled=scaled, relevance=relevance, signals=signals, ideal=ideal)


def read(path: Path) -> Collection:
    """Read the collection that `save` wrote to a file."""
    with np.load(path) as file:
        relevance = file["relevance"].astype(np.float32)
        exists = relevance >= 0
        judged = np.maximum(relevance, 0)
        scaled, signals, ideal = file["scaled"], file["signals"], file["ideal"]
        name, kind = path.stem, path.parent.name
        return Collection(name, kind, bool(file["has_tokens"]), scaled, exists, judged, signals, ideal)


class Examples:
    """Training queries as tensors."""

    def __init__(self, collections: list[Collection], mean: Array, deviation: Array) -> None:
        """Select queries of each collection, their relevant candidates, and the best candidates of each kind of search.

        All kinds of collections have the same weight, and so have all collections of a kind. If a collection has scores
        of late interaction, each query becomes two examples, one with and one without these scores.
        """
        sizes = Counter(each.kind for each in collections)
        chooser = np.random.default_rng(0)
        columns: list[list[Array]] = [[] for _ in range(8)]
        for number, each in enumerate(collections):
            usable = np.flatnonzero((each.relevance > 0).any(1))
            usable = np.sort(chooser.permutation(usable)[:MAX_QUERIES])
            scaled, exists, relevant = each.scaled[usable], each.exists[usable], each.relevance[usable] > 0
            views = [*np.moveaxis(scaled, 2, 0), scaled.mean(2), scaled[..., :2].mean(2)]
            ranks = [np.argsort(np.argsort(-np.where(exists, view, -1), 1, kind="stable"), 1) for view in views]
            keys = np.where(relevant, -1, np.where(exists, np.min(ranks, 0), 1 << 20))
            positions = np.argsort(keys, 1, kind="stable")[:, :MAX_CANDIDATES]
            exists, relevant = (np.take_along_axis(values, positions, 1) for values in (exists, relevant))
            scaled = np.take_along_axis(scaled, positions[..., np.newaxis], 1)
            pads = ((0, 0), (0, MAX_CANDIDATES - positions.shape[1]))
            scaled, exists, relevant = np.pad(scaled, (*pads, (0, 0))), np.pad(exists, pads), np.pad(relevant, pads)
            for tokens, weight in ((1, 1.0), (0, WEIGHT_WITHOUT_TOKENS)) if each.has_tokens else ((0, 1.0),):
                count = len(usable)
                inputs = inputs_of(each.signals[usable], mean, deviation, tokens)
                facts = [np.full(count, fact) for fact in (tokens, weight / max(1, count) / sizes[each.kind], number)]
                rows = [scaled, exists, relevant, inputs, -each.signals[usable, 0], *facts]
                for column, values in zip(columns, rows, strict=True):
                    column.append(values)
        self.scaled, self.exists, judged, self.inputs, self.offset, self.tokens, self.weight, numbers = (
            torch.tensor(np.concatenate(column), dtype=torch.float32) for column in columns
        )
        self.collection = numbers.long()
        self.positions = torch.argsort(-judged, dim=1, stable=True)[:, :MAX_RELEVANT]
        self.relevant = torch.gather(judged, 1, self.positions)
        self.ideal = (self.relevant / torch.log2(torch.arange(MAX_RELEVANT) + 2.0)).sum(1).clamp(min=0.1)

    def loss(self, table: torch.Tensor, is_used: torch.Tensor) -> torch.Tensor:
        """Return a penalty on large coefficients minus smoothed nDCG (Qin, Liu and Li 2010).

        `table` has the coefficients. Only collections where `is_used` is 1 are included.
        """
        words = torch.sigmoid(self.inputs @ table[0] + self.offset)
        vector = torch.where(self.tokens > 0, torch.sigmoid(self.inputs @ table[1]), 1.0)
        weights = torch.stack([(1 - words) * vector, words, (1 - words) * (1 - vector)], 1)
        scores = torch.bmm(self.scaled, weights[..., None])[..., 0]
        relevant_scores = torch.gather(scores, 1, self.positions)
        better = torch.sigmoid((scores[:, None] - relevant_scores[..., None]) / RANK_TEMPERATURE) * self.exists[:, None]
        ranks = 0.5 + better.sum(-1)
        gains = self.relevant / torch.log2(1 + ranks) * torch.sigmoid((11 - ranks) / 1.5)
        weight = self.weight * is_used[self.collection]
        return PENALTY_FACTOR * (table[:, :-2] ** 2).sum() - (weight * gains.sum(1) / self.ideal).sum() / weight.sum()


def inputs_of(signals: Array, mean: Array, deviation: Array, tokens: int) -> Array:
    """Return the inputs of both logistic functions: normalised signals, `tokens` (1 or 0), and the constant 1."""
    normal = np.clip((signals - mean) / deviation, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    return np.column_stack([normal, np.full(len(normal), tokens), np.ones(len(normal))])


def fit(examples: Examples, is_used: Array) -> Array:
    """Fit the coefficients (2, signals + 2) of two logits, from which `weights_of` computes the weights of a query."""
    table = torch.zeros(2, len(SIGNALS) + 2, requires_grad=True)
    used = torch.tensor(is_used, dtype=torch.float32)
    optimizer = torch.optim.LBFGS([table], max_iter=STEPS, max_eval=STEPS + 10, line_search_fn="strong_wolfe")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = examples.loss(table, used)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(step)  # type: ignore[no-untyped-call]
    return np.asarray(table.detach().numpy())


def weights_of(table: Array, each: Collection, mean: Array, deviation: Array, *, tokens: bool) -> Array:
    """Return the weights of dense search, lexical search and late interaction for each query, (queries, 3)."""
    logits = inputs_of(each.signals, mean, deviation, int(tokens)) @ table.T
    logits[:, 0] -= each.signals[:, 0]
    words, vector = 1 / (1 + np.exp(-logits.T))
    vector = vector if tokens else np.ones_like(vector)
    return np.stack([(1 - words) * vector, words, (1 - words) * (1 - vector)], 1)


def train(folder: Path) -> None:
    """Fit and write the weights. Print each collection's nDCG@10 with weights that are fitted to other collections."""
    collections = [read(path) for path in sorted(folder.glob("*/*.npz"), key=lambda path: path.stem)]
    mean = np.mean([each.signals.mean(0) for each in collections], 0)
    deviation = np.sqrt(np.mean([((each.signals - mean) ** 2).mean(0) for each in collections], 0)) + 1e-6
    examples = Examples(collections, mean, deviation)
    table = fit(examples, np.ones(len(collections)))
    rows = zip(mean, deviation, table[0], table[1], strict=False)
    names = ("mean", "deviation", "words", "vector")
    signals = [dict(zip(names, (round(float(value), 4) for value in row), strict=True)) for row in rows]
    (words_with_tokens, words), (vector_with_tokens, vector) = table[0, -2:], table[1, -2:]
    constants = {"words": words, "words_with_tokens": words_with_tokens, "vector": vector + vector_with_tokens}
    weights = {**{name: round(float(value), 4) for name, value in constants.items()}, "signals": signals}
    WEIGHTS.write_text(json.dumps(weights, indent=1) + "\n")

    fixed = [np.array([(1 - words) * (1 - tokens), words, (1 - words) * tokens])
             for words in np.arange(0.2, 0.71, 0.1) for tokens in (0, 0.25, 0.5)]  # fmt: skip
    of_fixed = np.array([[each.ndcg(shares * [1, 1, each.has_tokens]) for shares in fixed] for each in collections])
    folds = np.arange(len(collections)) * FOLDS // len(collections)  # collections with similar names share a fold
    figures = []
    print(f"{'':<24}{'dense':>8}{'words':>8}{'fixed':>8}{'plain':>8}{'hybrid':>8}{'gain':>8}")
    for fold in range(FOLDS):
        fold_table = fit(examples, (folds != fold).astype(float))
        best = int(np.argmax(of_fixed[folds != fold].mean(0)))
        for index in np.flatnonzero(folds == fold).tolist():
            each = collections[index]
            single = [each.ndcg(np.eye(3)[search]) for search in (0, 1)]
            plain, default = (
                each.ndcg(weights_of(fold_table, each, mean, deviation, tokens=tokens))
                for tokens in (False, each.has_tokens)
            )
            figures.append([*single, of_fixed[index, best], plain, default, default - max(single)])
            print(f"{each.name:<24}" + "".join(f"{figure:>8.4f}" for figure in figures[-1]), flush=True)
    print(f"{'mean of ' + str(len(figures)):<24}" + "".join(f"{figure:>8.4f}" for figure in np.mean(figures, 0)))
    print(f"more than .005 below the better of dense and words: {sum(row[-1] < -0.005 for row in figures)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["collect", "train"])
    parser.add_argument("out", type=Path, help="folder of the candidates")
    parser.add_argument("folders", type=Path, nargs="*", help="collections in BEIR's layout")
    parser.add_argument("--precision", default="int8")
    arguments = parser.parse_args()
    collect(arguments.folders, arguments.out, arguments.precision) if arguments.command == "collect" else train(
        arguments.out
    )
