"""Written questions over Rust's documentation: how often boilerplate stands above the prose that answers.

A part of Debian's rust-doc (the book, the reference, 15 modules of std) is indexed, and each question of rust.jsonl is
asked with boilerplate ranked lower and without. Boilerplate is what stands under rustdoc's lists of implementations,
and an answer a passage whose address has one of those given. The questions over the PostgreSQL manual say what prose
loses by it. Those at even places served to choose, the others were kept unseen. `python -m tests.quality.repetition`
prints the table; --work keeps the indexes.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from embedder.protocol import Embedder
from indexer.config import BuildConfig
from indexer.generation.repetition import RepetitionCounter, Shares
from indexer.pipeline.build import build
from indexer.pipeline.progress import progress_for
from rag.query.options import MODES
from rag.query.request import SearchRequest
from rag.query.results import Hit
from rag.query.retriever import Retriever
from tests.quality.chunks import MANUAL, answers, read_questions
from tests.quality.packages import fetch

QUESTIONS = Path(__file__).with_name("rust.jsonl")
PACKAGE = {
    "debian": "rust-doc",
    "version": "1.63.0+dfsg1-2",
    "sha256": "96ef96fe6df87d939ca713bd7df3d15c2b778ccb892eca025c4ee504146f697b",
}
HTML = "usr/share/doc/rust-doc/html"
MODULES = "vec string option result rc thread fmt iter io cell path"
COLLECTIONS = "hash_map btree_map vec_deque hash_set"
PARTS = ["book", "reference", *(f"std/{name}" for name in MODULES.split())]
PARTS += [f"std/collections/{name}" for name in COLLECTIONS.split()]
BOILERPLATE = re.compile("Trait Implementations|Blanket Implementations|Implementors|Methods from Deref")
CHOICES = [(5, strength) for strength in (0.0, 0.05, 0.1, 0.2, 0.3)]  # titles that have a line, and what is lost
CHOICES += [(titles, strength) for titles in (3, 10, 20) for strength in (0.1, 0.2)]
K = 10
NOWHERE = 1_000


class Place(NamedTuple):
    """Of one question: where the first answer stands, from 0, and how many passages of boilerplate before it."""

    answer: int
    boilerplate: int


def is_answer(hit: Hit, urls: Sequence[str]) -> bool:
    """Whether a hit has one of these addresses; what a type has from another, only where that method is meant."""
    found = [url for url in urls if url in hit.url]
    return bool(found) and (not BOILERPLATE.search(hit.section) or any("#method." in url for url in found))


def places_in_rust(retriever: Retriever, mode: str) -> Iterator[Place]:
    """Ask every question of rust.jsonl."""
    for row in map(json.loads, QUESTIONS.read_text(encoding="utf-8").splitlines()):
        right = [(is_answer(hit, row["answers"]), hit) for hit in _ask(retriever, row["question"], mode)]
        first = next((place for place, (is_right, _) in enumerate(right) if is_right), NOWHERE)
        yield Place(first, sum(bool(BOILERPLATE.search(hit.section)) for _, hit in right[:first]))


def places_in_postgresql(retriever: Retriever, mode: str) -> Iterator[Place]:
    """Ask every question of postgresql.jsonl."""
    for question, url in read_questions():
        hits = _ask(retriever, question, mode)
        yield Place(next((place for place, hit in enumerate(hits) if answers(hit, MANUAL, url)), NOWHERE), 0)


def summary(places: Sequence[Place]) -> list[str]:
    """Answers that are first and among five, mean reciprocal rank, and passages of boilerplate above answers."""
    rank = sum(1 / (place.answer + 1) for place in places if place.answer < K) / len(places)
    first, in_five = (sum(place.answer < most for place in places) for most in (1, 5))
    above = sum(place.boilerplate for place in places)
    return [f"{first} · {in_five} of {len(places)}", f"{rank:.3f}", str(above)]


def counted(retriever: Retriever, titles: int) -> Shares:
    """Shares of repetition of all passages, where a line repeats that so many titles have."""
    counter = RepetitionCounter()
    for document in retriever.generation.documents():
        counter.add(document["title"], [passage["text"] for passage in document["passages"]])
    with mock.patch("indexer.generation.repetition.TITLES", titles):
        return counter.shares()


def _ask(retriever: Retriever, question: str, mode: str) -> list[Hit]:
    return retriever.search(SearchRequest(question, k=K, mode=mode, per_document=2)).hits


def _rust(work: Path) -> Path:
    """Lay out the part of the documentation that is indexed."""
    whole, part = fetch(PACKAGE, work) / HTML, work / "rust"
    for name in PARTS:
        if not (part / name).is_dir():
            pages = shutil.ignore_patterns("print.html", "*.css", "*.js", "*.woff*", "fonts")
            shutil.copytree(whole / name, part / name, ignore=pages, ignore_dangling_symlinks=True)
    return part


def _open(source: Path, index: Path, embedder: Embedder) -> Retriever:
    build([str(source)], index, embedder, BuildConfig(), progress=progress_for(sys.stderr))
    return Retriever.open(index, embedder)


def main() -> None:
    """Print the table in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="folder to keep the pages and the indexes in")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = args.work or Path(folder)
        embedder = Embeddings(EmbedderConfig())
        rust = _open(_rust(work), work / "rust-index", embedder)
        postgresql = _open(MANUAL, work / "postgresql-index", embedder)
        print(
            "| mode | titles | strength | Rust, even | rank | above | odd | rank | above | PostgreSQL | rank | above |"
        )
        print("|---" * 12 + "|")
        for titles, strength in CHOICES:
            with ExitStack() as stack:
                stack.enter_context(mock.patch("rag.query.scoring.ranking.BOILERPLATE", strength))
                for retriever in (rust, postgresql):
                    shares = counted(retriever, titles)
                    stack.enter_context(mock.patch.object(retriever.generation, "repetition", shares.__getitem__))
                for mode in MODES:
                    places = list(places_in_rust(rust, mode))
                    figures = [places[0::2], places[1::2], list(places_in_postgresql(postgresql, mode))]
                    row = [mode, str(titles), str(strength), *(text for each in figures for text in summary(each))]
                    print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
