"""Judgements of documents from what people opened and judged, and a dataset in BEIR's layout made of them.

A document counts as opened by a question if it was opened in enough searches, and at least as often as hits at its
ranks are on average: clicks over expected clicks (Zhang and Jones, "Comparing Click Logs and Editorial Labels for
Training Query Rewriting", 2007).
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from rag.errors import InsightsError
from rag.insights.report import question_key
from rag.insights.store import MOST_CHARACTERS, open_to_read

LEAST = 2  # searches in which a document was opened
GOOD, OPENED, BAD = 2, 1, 0  # relevance
MARK = "from-insights.json"  # of a folder that was written here, and so may be written again
_FILES = {"corpus.jsonl", "queries.jsonl", "qrels", MARK}
_SEARCHES = """
SELECT s.id, s.query, h.document, max(h.opened), max(h.verdict), min(h.verdict)
FROM searches s JOIN hits h ON h.search = s.id
WHERE s.seen AND length(s.query) < ? AND s.collection = ?
    AND (s.via IN ('page', 'box') OR s.id IN (SELECT search FROM hits WHERE opened OR verdict))
GROUP BY s.id, h.document ORDER BY s.id, min(h.rank)
"""


class Judged(NamedTuple):
    """A question, and how relevant documents are to it, by their ids."""

    question: str  # as it was last spelled
    searches: int
    documents: dict[str, int]


def judged_questions(folder: Path, collection: str, least: int = LEAST) -> list[Judged]:
    """Return the questions of a store with at least one document that answers them, the most asked first.

    `least` is in how many searches a document must have been opened. Raises InsightsError, sqlite3.Error or OSError.
    """
    with closing(open_to_read(folder)) as connection:
        rows = connection.execute(_SEARCHES, (MOST_CHARACTERS, collection)).fetchall()
    shown: dict[str, dict[str, list[tuple[int, int, int]]]] = {}  # question: document: rank, opened, verdict
    spelling: dict[str, str] = {}
    asked, shown_at, opened_at = Counter[str](), Counter[int](), Counter[int]()
    for (_, query), documents in groupby(rows, key=itemgetter(0, 1)):
        key = question_key(query)
        spelling[key] = query
        asked[key] += 1
        for rank, (_, _, id, opened, best, worst) in enumerate(documents):
            verdict = best if best > 0 else worst  # one good passage makes a good document
            shown.setdefault(key, {}).setdefault(id, []).append((rank, opened, verdict))
            shown_at[rank] += 1
            opened_at[rank] += opened
    judged = []
    for key, found in shown.items():
        relevance = {}
        for id, times in found.items():
            verdict = sum(verdict for _, _, verdict in times)
            expected = sum(opened_at[rank] / shown_at[rank] for rank, _, _ in times)
            if verdict:
                relevance[id] = GOOD if verdict > 0 else BAD
            elif sum(opened for _, opened, _ in times) >= max(least, expected):
                relevance[id] = OPENED
        if any(relevance.values()):
            judged.append(Judged(spelling[key], asked[key], relevance))
    return sorted(judged, key=lambda one: (-one.searches, one.question))


def write_dataset(
    folder: Path, judged: Iterable[Judged], documents: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a folder in BEIR's layout, in which documents are named by their addresses; return what it has.

    `facts` are noted beside it. Raises InsightsError where the folder has other files or nothing is judged; OSError.
    """
    judged = list(judged)
    others = sorted({path.name for path in folder.iterdir()} - _FILES) if folder.is_dir() else []
    if others or (folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).exists()):
        raise InsightsError(f"{folder} is not empty, and was not written from insights; name a new folder")
    if not judged:
        raise InsightsError("no question has a hit that was judged good, or opened often enough: see --least")
    (folder / "qrels").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # it has what people ask
    wanted = {id for one in judged for id in one.documents}
    address_of: dict[str, str] = {}
    count = 0
    with _create(folder / "corpus.jsonl") as out:
        for document in documents:
            count += 1
            if document["id"] in wanted:
                address_of[document["id"]] = document["url"]
            text = "\n\n".join(passage["text"] for passage in document["passages"])
            _write(out, {"_id": document["url"], "title": document["title"], "text": text})
    questions = judgements = 0
    with _create(folder / "queries.jsonl") as queries, _create(folder / "qrels" / "test.tsv") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for one in judged:
            known = {address_of[id]: relevance for id, relevance in one.documents.items() if id in address_of}
            if any(known.values()):
                questions += 1
                judgements += len(known)
                _write(queries, {"_id": str(questions), "text": one.question, "metadata": {"searches": one.searches}})
                qrels.writelines(f"{questions}\t{url}\t{relevance}\n" for url, relevance in known.items())
    report = {**facts, "documents": count, "questions": questions, "judgements": judgements}
    with _create(folder / MARK) as out:
        _write(out, report)
    return report


def _create(path: Path) -> Any:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")


def _write(out: Any, row: Mapping[str, Any]) -> None:
    out.write(f"{json.dumps(row, ensure_ascii=False)}\n")
