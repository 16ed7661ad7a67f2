"""How well statements are told apart that passages support, and that they do not: precision and recall of the marks.

`support.jsonl` has passages, and statements about each that were written by hand: `supported` ones say in other words
what it says; in others a `number` or a `name` is another one, the meaning is `negated`, or what they say is `invented`:
plausible, and not in the passage. Topics of even place served to choose the threshold, those of odd place are held out.
`python -m tests.quality.support [BEIR_DIR]` prints the tables; with SciFact's folder also how many of its claims are
marked with the abstract that belongs to them among six passages, and without it.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from embedder.protocol import Embedder
from rag.answer.statements import Statement
from rag.answer.support import SUPPORTED, Evidence, Support
from rag.evaluation.dataset import read_dataset
from rag.query.results import Hit

PASSAGES = 6  # that an answer is written from
KINDS = ("supported", "number", "name", "negated", "invented")
HALVES = ("chosen on", "held out")


@dataclass(frozen=True)
class Topic:
    """A passage, and statements by kind."""

    title: str
    text: str
    statements: dict[str, list[str]]


@dataclass(frozen=True)
class Judged:
    """A statement, and what was said of it."""

    topic: int
    kind: str
    text: str
    support: Support


def read_topics() -> list[Topic]:
    """Read the labelled set."""
    rows = map(json.loads, Path(__file__).with_name("support.jsonl").read_text("utf-8").splitlines())
    return [Topic(row["title"], row["text"], {kind: row[kind] for kind in KINDS}) for row in rows]


def passage(title: str, text: str) -> Hit:
    """A hit with nothing but what is compared."""
    fields: dict[str, Any] = dict.fromkeys(Hit.__struct_fields__)
    return Hit(**fields | {"title": title, "section": "", "text": text})


def judge(hits: Sequence[Hit], texts: Sequence[str], embedder: Embedder | None, threshold: float) -> Iterator[Support]:
    """Judge texts by passages; without an embedder, by their words alone."""
    evidence = Evidence(hits, [hit.text for hit in hits], threshold)
    sentences = embedder.encode(evidence.sentences()) if embedder else None
    for text in texts:
        vector = embedder.encode([text])[0] if embedder else None
        found = evidence.judge(Statement(0, len(text), text, ()), vector, sentences)
        assert found is not None
        yield found


def judged(embedder: Embedder | None, threshold: float = SUPPORTED) -> list[Judged]:
    """Judge the labelled set, each statement by the passage of its topic and those of the five that follow."""
    topics = read_topics()
    found = []
    for place, topic in enumerate(topics):
        others = [topics[(place + step) % len(topics)] for step in range(PASSAGES)]
        hits = [passage(other.title, other.text) for other in others]
        for kind, texts in topic.statements.items():
            supports = judge(hits, texts, embedder, threshold)
            found += [Judged(place, kind, text, one) for text, one in zip(texts, supports, strict=True)]
    return found


def figures(found: Sequence[Judged]) -> dict[str, float]:
    """Precision and recall of the marks, and the share that is marked of each kind."""
    marked = [one for one in found if not one.support.supported]
    wrong = [one for one in found if one.kind != "supported"]
    hit = sum(one.kind != "supported" for one in marked)
    of_kind = {kind: [not one.support.supported for one in found if one.kind == kind] for kind in KINDS}
    return {
        "precision": hit / max(1, len(marked)),
        "recall": hit / len(wrong),
        **{kind: float(np.mean(each)) for kind, each in of_kind.items()},
    }


def halves(found: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """The figures of each half."""
    return {name: figures([one for one in found if one.topic % 2 == place]) for place, name in enumerate(HALVES)}


def scifact(folder: Path, embedder: Embedder, threshold: float = SUPPORTED) -> dict[str, float]:
    """Share of SciFact's claims that is marked, with an abstract that belongs to them among six, and with none."""
    data = read_dataset(folder)
    names = list(data.corpus)
    corpus = embedder.encode(list(data.corpus.values()))
    marked: dict[str, list[bool]] = {"with": [], "without": [], "with, by words": [], "without, by words": []}
    for query, text in data.queries.items():
        order = [names[place] for place in np.argsort(-(corpus @ embedder.encode([text], role="query")[0]))[:100]]
        others = [name for name in order if name not in data.judgements[query]][:PASSAGES]
        own = next(iter(data.judgements[query]))
        make = partial(passage, "")
        for name, ids in (("with", [own, *others[:-1]]), ("without", others)):
            hits = [make(data.corpus[id]) for id in ids]
            for how, model in (("", embedder), (", by words", None)):
                [support] = judge(hits, [text], model, threshold)
                marked[name + how].append(not support.supported)
    return {name: float(np.mean(each)) for name, each in marked.items()}


def main() -> None:
    """Print the tables in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, nargs="?", help="SciFact, in BEIR's layout")
    parser.add_argument("--threshold", type=float, default=SUPPORTED)
    parser.add_argument("--wrong", action="store_true", help="list what was marked, or not, by mistake")
    given = parser.parse_args()
    embedder = Embeddings(EmbedderConfig())
    print(f"| judged by | half | precision | recall | {' | '.join(KINDS)} |\n|{'---|' * (4 + len(KINDS))}")
    for how, model in (("meaning and words", embedder), ("words alone", None)):
        found = judged(model, given.threshold)
        for half, row in halves(found).items():
            shares = " | ".join(f"{100 * row[kind]:.0f} %" for kind in KINDS)
            print(f"| {how} | {half} | {row['precision']:.2f} | {row['recall']:.2f} | {shares} |")
        if given.wrong:
            for one in found:
                if one.support.supported != (one.kind == "supported"):
                    print(f"{one.topic} {one.kind} {one.support.score:.2f} {one.text}")
    if given.dataset:
        for name, share in scifact(given.dataset, embedder, given.threshold).items():
            print(f"SciFact, {name}: {100 * share:.0f} % marked")


if __name__ == "__main__":
    main()
