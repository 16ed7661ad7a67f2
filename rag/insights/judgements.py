"""What people opened and judged, as judgements of documents, and as a dataset in BEIR's layout.

A thumb says what somebody thinks; that a hit was opened says it less surely, and most of all says where it stood. So a
document counts as opened by a question if enough callers opened it, and if it was opened at least as often as hits at
its ranks are on average: clicks over expected clicks (Zhang and Jones, "Comparing Click Logs and Editorial Labels for
Training Query Rewriting", 2007).
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rag.errors import InsightsError
from rag.insights.report import question_key
from rag.insights.store import open_to_read

LEAST = 2  # callers, unless it is said
GOOD, OPENED, BAD = 2, 1, 0  # relevance
MARK = "from-insights.json"  # of a folder that was written here, and so may be written again
_FILES = {"corpus.jsonl", "queries.jsonl", "qrels", MARK}
_SEARCHES = """
SELECT id, query, caller, shown FROM searches
WHERE seen AND NOT redacted AND collection = ? AND (via IN ('page', 'box') OR id IN (SELECT search FROM feedback))
ORDER BY id
"""
_FEEDBACK = "SELECT search, passage, opened, verdict FROM feedback WHERE opened OR verdict"


class Judged(NamedTuple):
    """A question, and how relevant documents are to it, by their ids."""

    question: str  # as it was last spelled
    searches: int
    documents: dict[str, int]


@dataclass(slots=True)
class _Shown:
    """A document as it was shown for a question."""

    ranks: Counter[int] = field(default_factory=Counter)  # from 0
    openers: set[int] = field(default_factory=set)
    opened: int = 0
    verdict: int = 0  # thumbs up less thumbs down, one of each caller

    def relevance(self, opened_at: Mapping[int, float], least: int) -> int | None:
        """Return how relevant it is; None where that is not known."""
        if self.verdict:
            return GOOD if self.verdict > 0 else BAD
        expected = sum(count * opened_at[rank] for rank, count in self.ranks.items())
        return OPENED if len(self.openers) >= least and self.opened >= expected else None


def judged_questions(folder: Path, collection: str, least: int = LEAST) -> list[Judged]:
    """Return the questions of a store with at least one document that answers them, the most asked first.

    Questions of which something was redacted are left out. Raises InsightsError, sqlite3.Error or OSError.
    """
    with closing(open_to_read(folder)) as connection:
        documents = dict(connection.execute("SELECT id, document FROM passages"))
        feedback: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
        for search, passage, opened, verdict in connection.execute(_FEEDBACK):
            feedback[search][passage] = opened, verdict
        searches = connection.execute(_SEARCHES, (collection,)).fetchall()
    shown: defaultdict[str, defaultdict[str, _Shown]] = defaultdict(lambda: defaultdict(_Shown))
    spelled, asked = {}, Counter[str]()
    votes: dict[tuple[str, str, int], int] = {}
    at_rank, opened_at_rank = Counter[int](), Counter[int]()
    for number, query, caller, passages in searches:
        key, who = question_key(query), number if caller is None else caller
        spelled[key] = query
        asked[key] += 1
        told = _by_document(feedback.get(number, {}), documents)
        ranked = dict.fromkeys(documents[each] for each in passages.split() if each in documents)
        for rank, document in enumerate(ranked):
            is_opened, verdict = told.get(document, (0, 0))
            one = shown[key][document]
            one.ranks[rank] += 1
            at_rank[rank] += 1
            opened_at_rank[rank] += is_opened
            one.opened += is_opened
            if is_opened:
                one.openers.add(who)
            if verdict:
                votes[key, document, who] = verdict  # the last one of a caller
    for (key, document, _), verdict in votes.items():
        shown[key][document].verdict += verdict
    opened_at = {rank: opened_at_rank[rank] / count for rank, count in at_rank.items()}
    found = []
    for key, each in shown.items():
        known = {document: one.relevance(opened_at, least) for document, one in each.items()}
        judged = {document: relevance for document, relevance in known.items() if relevance is not None}
        if any(judged.values()):
            found.append(Judged(spelled[key], asked[key], judged))
    return sorted(found, key=lambda one: (-one.searches, one.question))


def _by_document(told: Mapping[str, tuple[int, int]], documents: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for passage, (opened, verdict) in told.items():
        if document := documents.get(passage):
            before = found.get(document, (0, 0))
            # one good passage makes a document a good one, whatever is said of its others
            found[document] = max(before[0], opened), _louder(before[1], verdict)
    return found


def _louder(one: int, other: int) -> int:
    """The verdict that stands: a good one, or else a bad one, or else none."""
    return max(one, other) if max(one, other) > 0 else min(one, other)


def write_dataset(
    folder: Path, judged: Iterable[Judged], documents: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a folder in BEIR's layout, in which documents are named by their addresses; return what it has.

    Args:
        folder: missing, empty, or written here before.
        judged: the questions.
        documents: all documents of a generation, as `Searchable.documents` gives them.
        facts: whatever is to be noted with it.

    Raises InsightsError where the folder has other files, or nothing is judged; and OSError.
    """
    judged = list(judged)
    others = sorted({path.name for path in folder.iterdir()} - _FILES) if folder.is_dir() else []
    if others or (folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists()):
        raise InsightsError(f"{folder} is not empty, and was not written from insights; name a new folder")
    if not judged:
        raise InsightsError("no question has a hit that was judged good, or opened by enough callers: see --least")
    (folder / "qrels").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # what people ask is in it
    wanted = {document for one in judged for document in one.documents}
    addresses: dict[str, str] = {}
    count = 0
    with _fresh(folder / "corpus.jsonl") as out:
        for document in documents:
            count += 1
            if document["id"] in wanted:
                addresses[document["id"]] = document["url"]
            text = "\n\n".join(passage["text"] for passage in document["passages"])
            _write(out, {"_id": document["url"], "title": document["title"], "text": text})
    rows = list(_rows(judged, addresses))
    with _fresh(folder / "queries.jsonl") as out:
        for number, one, _ in rows:
            _write(out, {"_id": str(number), "text": one.question, "metadata": {"searches": one.searches}})
    with _fresh(folder / "qrels" / "test.tsv") as out:
        out.write("query-id\tcorpus-id\tscore\n")
        for number, _, known in rows:
            out.writelines(f"{number}\t{address}\t{relevance}\n" for address, relevance in known.items())
    judgements = sum(len(known) for _, _, known in rows)
    made = {**facts, "documents": count, "questions": len(rows), "judgements": judgements}
    with _fresh(folder / MARK) as out:
        _write(out, made)
    return made


def _rows(judged: Iterable[Judged], addresses: Mapping[str, str]) -> Iterator[tuple[int, Judged, dict[str, int]]]:
    """Questions by number, with the relevance of documents that are still there, by address."""
    number = 0
    for one in judged:
        known = {addresses[id]: relevance for id, relevance in one.documents.items() if id in addresses}
        if any(known.values()):
            number += 1
            yield number, one, known


def _fresh(path: Path) -> Any:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")


def _write(out: Any, row: Mapping[str, Any]) -> None:
    out.write(f"{json.dumps(row, ensure_ascii=False)}\n")
