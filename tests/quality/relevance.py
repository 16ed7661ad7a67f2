"""How well searches answer questions whose answers are known, in every mode, beside another checkout.

    python -m tests.quality.relevance --work FOLDER [--against CHECKOUT] [COLLECTION ...]

Every collection of `tests/quality/judged.py` that can be had here is indexed once, by each checkout with its own code,
below the folder of --work: to index anew, remove `here` or `against` in it. Each checkout's server is then asked every
question. Prints nDCG@10 and hit@5 by collection and half; of two checkouts, that of --against stands first in a cell.
Settings are given as variables (`PILOTLIGHT_…`), options of a request with --options; both go to both checkouts.
"""

import argparse
import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rag.query.request import MODES
from tests.quality.commits import HERE, answered, command, environment, serving
from tests.quality.judged import HALVES, NAMES, Collection, Question, collections

K, HITS = 10, 5
HEAD = (f"| collection | half | questions | {' | '.join(MODES)} | hybrid over the better |", "|---" * 7 + "|")
Ranks = dict[str, list[int]]  # mode: of each question, the rank from 0 of the first right hit, or -1


def main() -> int:
    """Index what is not indexed, ask, and print the table in Markdown; return the exit code."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("names", nargs="*", metavar="COLLECTION", help=f"of {', '.join(NAMES)} (default: all)")
    asked.add_argument("--work", type=Path, required=True, help="folder for packages and indexes, kept")
    asked.add_argument("--against", type=Path, help="folder of another checkout")
    asked.add_argument("--options", type=json.loads, default={}, help="of a request, as a JSON object")
    given = asked.parse_args()
    if unknown := set(given.names) - set(NAMES):
        asked.error(f"no collection is called {', '.join(sorted(unknown))}")
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    chosen = list(collections(work, given.names))
    trees = [(given.against.resolve(), work / "against")] if given.against else []
    with ExitStack() as stack:
        ports = [stack.enter_context(server(tree, folder, chosen)) for tree, folder in [*trees, (HERE, work / "here")]]
        print(*HEAD, sep="\n", flush=True)
        for collection in chosen:
            found = [measured(port, collection, given.options) for port in ports]
            print(*rows(collection, found), sep="\n", flush=True)
    return not chosen


@contextmanager
def server(tree: Path, work: Path, chosen: Sequence[Collection]) -> Iterator[int]:
    """Serve the collections by the product in a folder for a while, indexed by it; gives the port."""
    work.mkdir(exist_ok=True)
    for collection in chosen:
        index(tree, work, collection)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with serving(tree, work, port):
        yield port


def measured(port: int, collection: Collection, options: dict[str, Any]) -> Ranks:
    """Return where a server finds the answers, by mode."""
    return {
        mode: [
            first(question, search(port, collection, question, options | {"mode": mode}))
            for question in collection.questions
        ]
        for mode in MODES
    }


def index(tree: Path, work: Path, collection: Collection) -> None:
    """Index a collection, unless that is done; raises CalledProcessError with the product's own message printed."""
    name = collection.index or collection.name
    done = work / f"{name}.indexed"
    if not done.exists():
        line = [*command(tree), "index", "--collection", name, "--quiet", *map(str, collection.files)]
        print(f"indexing {name}: {len(collection.files):,} files", file=sys.stderr, flush=True)
        subprocess.run(line, cwd=work, env=environment(tree, work), check=True, stdout=subprocess.DEVNULL)
        done.touch()


def search(port: int, collection: Collection, question: Question, options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return address and text of the first ten hits; raises RuntimeError with the answer of a failed search."""
    body = {
        "query": question.text,
        "k": K,
        "collection": collection.index or collection.name,
        "per_document": collection.per_document,
    }
    status, text = answered("/api/v1/search", body | options, port)
    if status != 200:
        raise RuntimeError(f"{collection.name}: {question.text}: {status} {text}")
    return [(hit["url"], hit["text"]) for hit in json.loads(text)["hits"]]


def first(question: Question, hits: Sequence[tuple[str, str]]) -> int:
    """Return the rank from 0 of the first hit that answers a question; -1 if none does."""
    right = (rank for rank, hit in enumerate(hits) if any(answer.given_by(*hit) for answer in question.answers))
    return next(right, -1)


def rows(collection: Collection, found: Sequence[Ranks]) -> Iterator[str]:
    """Give the lines of a collection; the last cell is by how much hybrid is above the better of its halves."""
    for half in (*HALVES, "all"):
        places = [place for place, question in enumerate(collection.questions) if half in (question.half, "all")]
        if places:
            scores = [{mode: score(ranks[mode], places) for mode in MODES} for ranks in found]
            cells = [" → ".join(f"{each[mode][0]:.3f} · {each[mode][1]}" for each in scores) for mode in MODES]
            above = (each["hybrid"][0] - max(each["dense"][0], each["lexical"][0]) for each in scores)
            cells.append(" → ".join(f"{by:+.3f}" for by in above))
            yield f"| {collection.name} | {half} | {len(places)} | {' | '.join(cells)} |"


def score(ranks: Sequence[int], places: Sequence[int]) -> tuple[float, int]:
    """Return the mean nDCG@10 of some questions, and how many are answered among the first five.

    One right place is enough, so that the gain is 1 / log2(rank + 2) of the first, and 1 at best.
    """
    found = [ranks[place] for place in places if ranks[place] >= 0]
    return sum(1 / math.log2(rank + 2) for rank in found) / len(places), sum(rank < HITS for rank in found)


if __name__ == "__main__":
    sys.exit(main())
