"""What one typing mistake in every query costs: nDCG@10 on a dataset in BEIR's layout, with and without mistakes.

The mistake is made by rule and seeded by the query: in one of its words of four letters or more, chosen evenly, two
neighbours are exchanged, or a letter is left out, inserted or replaced by its neighbour on the keyboard.
`python -m tests.quality.typos BEIR_DIR` prints the table, for the queries of even and of odd place apart: rules were
changed by looking at the former alone.
"""

import argparse
import random
import re
from dataclasses import replace
from pathlib import Path

from embedder.protocol import Embedder
from rag.evaluation.dataset import Dataset, read_dataset
from rag.evaluation.evaluation import evaluate

_WORD = re.compile(r"[A-Za-z]{4,}")
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def mistyped(text: str, seed: int) -> str:
    """Return a text with one mistake, the same for the same seed; as it is, where no word is long enough."""
    chance = random.Random(seed)
    if not (words := list(_WORD.finditer(text))):
        return text
    word = chance.choice(words)
    spelled = word[0]
    while spelled == word[0]:
        spelled = _edited(word[0], chance)
    return text[: word.start()] + spelled + text[word.end() :]


def _edited(word: str, chance: random.Random) -> str:
    place = chance.randrange(len(word))
    kind = chance.choice(("exchange", "omit", "insert", "replace"))
    before, after = word[:place], word[place + 1 :]
    if kind == "exchange":
        return before + after[:1] + word[place] + after[1:]
    if kind == "omit":
        return before + after
    if kind == "insert":
        return before + word[place] + _neighbour(word[place], chance) + after
    return before + _neighbour(word[place], chance) + after


def _neighbour(letter: str, chance: random.Random) -> str:
    row = next(row for row in _ROWS if letter.lower() in row)
    place = row.index(letter.lower())
    return chance.choice(row[max(0, place - 1) : place] + row[place + 1 : place + 2])


def with_mistakes(dataset: Dataset) -> Dataset:
    """Return a dataset whose every query has one mistake."""
    queries = {id: mistyped(text, seed) for seed, (id, text) in enumerate(dataset.queries.items())}
    return replace(dataset, queries=queries)


def half(dataset: Dataset, parity: int) -> Dataset:
    """Return a dataset with every second query, from place `parity` on."""
    queries = dict(list(dataset.queries.items())[parity::2])
    return replace(dataset, queries=queries, judgements={id: dataset.judgements[id] for id in queries})


def table(dataset: Dataset, embedder: Embedder, modes: tuple[str, ...] = ("lexical", "hybrid")) -> list[list[str]]:
    """Rows of mode, half, nDCG@10 as typed, nDCG@10 with mistakes, and the share that is kept."""
    rows = []
    for mode in modes:
        for name, parity in (("even", 0), ("odd", 1)):
            halves = (half(one, parity) for one in (dataset, with_mistakes(dataset)))
            before, after = (evaluate(one, embedder, mode=mode)["ndcg@10"] for one in halves)
            rows.append([mode, name, f"{before:.4f}", f"{after:.4f}", f"{after / before:.3f}"])
    return rows


def main() -> None:
    """Print the table in Markdown."""
    from embedder import EmbedderConfig, Embeddings

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, help="folder in BEIR's layout")
    rows = table(read_dataset(parser.parse_args().dataset), Embeddings(EmbedderConfig()))
    print("| mode | queries | as typed | one mistake in each | kept |\n|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
