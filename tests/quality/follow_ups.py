"""What to search for when a question goes on: alone, with the one before, or by the rule of `search_text`.

`follow_ups.jsonl` has pairs of questions about this project's documentation, with the pages that answer the second, and
what must stand in the passage. `python -m tests.quality.follow_ups INDEX` prints how many find it among the first six
hits in an index of `docs`.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from rag.answer.conversation import Exchange, search_text
from rag.query.request import Limits, SearchRequest
from rag.query.retriever import Retriever

HITS = 6
SHORT = 16  # pairs whose second question needs the first; those behind them begin a new subject
Pair = dict[str, str]

WAYS: dict[str, Callable[[Pair], str]] = {
    "alone": lambda pair: pair["follow_up"],
    "together": lambda pair: f"{pair['question']} {pair['follow_up']}",
    "by the rule": lambda pair: search_text(pair["follow_up"], [Exchange(pair["question"], "")], 10_000),
}


def read_pairs() -> list[Pair]:
    """Read the pairs."""
    return [json.loads(line) for line in Path(__file__).with_name("follow_ups.jsonl").read_text("utf-8").splitlines()]


def is_answered(retriever: Retriever, pair: Pair, query: str) -> bool:
    """Return whether the passage is among the hits of a query."""
    pages = tuple(f"/{page}" for page in pair["page"].split("|"))
    hits = retriever.search(SearchRequest(query, k=HITS)).hits
    return any(hit.url.partition("#")[0].endswith(pages) and pair["text"] in hit.text for hit in hits)


def main() -> None:
    """Print the table in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path, help="an index of docs")
    retriever = Retriever.open(parser.parse_args().index, Embeddings(EmbedderConfig()), Limits(per_document=2))
    pairs = read_pairs()
    print(f"| searched for | {SHORT} short ones | {len(pairs) - SHORT} new subjects |\n|---|---|---|")
    for name, query_of in WAYS.items():
        found = [is_answered(retriever, pair, query_of(pair)) for pair in pairs]
        print(f"| {name} | {sum(found[:SHORT])} | {sum(found[SHORT:])} |")


if __name__ == "__main__":
    main()
