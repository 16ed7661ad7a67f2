"""What people ask, added up, also as CSV; and a dataset in BEIR's layout, made of what they opened and judged."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from indexer.generation.lexical.letters import fold
from indexer.text.cleaning import one_line
from rag.errors import InsightsError
from rag.insights.store import DATABASE, MOST_CHARACTERS, first_id, open_to_read

MOST_READ = 200_000  # searches, the latest
LISTED = 50  # questions
MOST_DAYS = 3650
REASONS = {"empty": "no hit", "far": "nothing close", "bad": "judged bad", "unopened": "not opened"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # of Chinese and Japanese keyboards too
_QUESTIONS, _JUDGED = (Path(__file__).with_name(name).read_text("utf-8") for name in ("questions.sql", "judged.sql"))
LEAST = 2  # searches in which a document was opened
GOOD, OPENED, BAD = 2, 1, 0  # relevance
MARK = "from-insights.json"  # of a folder that was written here, and so may be written again


class Group(NamedTuple):
    """The figures of searches that belong together."""

    asked: int = 0
    unanswered: int = 0  # for one of REASONS, of which a search may have several
    empty: int = 0  # no hit
    far: int = 0  # hits, but none close to the query
    bad: int = 0  # a hit was judged bad, and none good
    unopened: int = 0  # shown on a page, and nothing opened or judged
    opened: int = 0
    good: int = 0
    cosine: float | None = None  # mean of the best of each search

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons in words, and of how many searches each."""
        return [(words, count) for name, words in REASONS.items() if (count := getattr(self, name))]


Question = tuple[str, Group]  # as it was last spelled


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of some days."""

    collection: str | None  # None: all
    collections: list[str]  # that were searched in these days
    total: Group
    asked: list[Question]  # the most asked first
    unanswered: list[Question]  # without a good answer, the most often first

    def as_csv(self, table: str) -> str:
        """Return the table asked or unanswered as CSV with a heading line and no formula."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["question", *Group._fields])
        writer.writerows([no_formula(one_line(query)), *group] for query, group in getattr(self, table))
        return out.getvalue()


def report(folder: Path, days: int, collection: str | None = None, *, now: datetime | None = None) -> Report:
    """Add up the searches of some days in a store, today's included. Raises InsightsError, sqlite3.Error or OSError."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    counts, asked, unanswered, collections = [0] * 8, list[Question](), list[Question](), list[str]()
    if (folder / DATABASE).exists() or not folder.is_dir():  # where there is only a folder, nothing was asked yet
        first = first_id(since.timestamp())
        with closing(open_to_read(folder)) as connection:
            connection.create_function("question_key", 1, question_key, deterministic=True)
            found = connection.execute(_QUESTIONS, (first, collection, collection, MOST_READ))
            while rows := [(query, Group(*figures)) for query, _, *figures in found.fetchmany(1000)]:
                counts = [sum(column) for column in zip(counts, *(group[:8] for _, group in rows), strict=True)]
                asked = nsmallest(LISTED, [*asked, *rows], lambda each: (-each[1].asked, each[0]))
                unanswered = nsmallest(LISTED, [*unanswered, *(each for each in rows if each[1].unanswered)], _by_need)
            names = connection.execute("SELECT DISTINCT collection FROM searches WHERE id >= ? ORDER BY 1", (first,))
            collections = [name for (name,) in names]
    return Report(collection, collections, Group(*counts), asked, unanswered)


def _by_need(question: Question) -> tuple[int, int, str]:
    """Return what questions without a good answer are sorted by."""
    text, group = question  # what was shown but not opened may have been the answer
    return -(group.empty + group.far + group.bad), -group.unanswered, text


def question_key(query: str) -> str:
    """Return what two spellings of one question have in common."""
    return fold(query).strip(" ?!.")


def no_formula(text: str) -> str:
    """Return a text with an apostrophe before what a spreadsheet would run as a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text


class Judged(NamedTuple):
    """A question, and how relevant documents are to it, by their ids."""

    question: str  # as it was last spelled
    searches: int
    documents: dict[str, int]


def judged_questions(folder: Path, collection: str, least: int = LEAST) -> list[Judged]:
    """Return the questions with a document judged good, or opened in `least` searches, the most asked first."""
    judged = []
    with closing(open_to_read(folder)) as connection:
        connection.create_function("question_key", 1, question_key, deterministic=True)
        rows = connection.execute(_JUDGED, (MOST_CHARACTERS, collection))
        for (question, searches), documents in groupby(rows, key=itemgetter(0, 1)):
            relevance = {}
            for _, _, id, opened, verdict in documents:
                if verdict:
                    relevance[id] = GOOD if verdict > 0 else BAD
                elif opened >= least:
                    relevance[id] = OPENED
            if any(relevance.values()):
                judged.append(Judged(question, searches, relevance))
    return judged


def write_dataset(
    folder: Path, judged: Iterable[Judged], documents: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write judged questions in BEIR's layout; return the report. Raises InsightsError, as where nothing is judged."""
    judged = list(judged)
    if not judged:
        raise InsightsError("no question has a hit that was judged good, or opened by at least two searches")
    wanted = {id for one in judged for id in one.documents}
    address_of: dict[str, str] = {}

    def rows() -> Iterator[Mapping[str, Any]]:
        for document in documents:
            if document["id"] in wanted:
                address_of[document["id"]] = document["url"]
            text = "\n\n".join(passage["text"] for passage in document["passages"])
            yield {"_id": document["url"], "title": document["title"], "text": text}

    def questions() -> Iterator[Judgement]:  # once all rows are written
        for one in judged:
            known = {address_of[id]: relevance for id, relevance in one.documents.items() if id in address_of}
            if any(known.values()):
                yield one.question, {"searches": one.searches}, known

    return write_beir(folder, MARK, rows(), questions(), facts)


Judgement = tuple[str, Mapping[str, Any], Mapping[str, int]]  # question, metadata, relevance by id


def write_beir(
    folder: Path, mark: str, rows: Iterable[Mapping[str, Any]], questions: Iterable[Judgement], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a folder in BEIR's layout.

    Args:
        folder: empty, or written here before.
        mark: name of a file that says so.
        rows: the corpus, read before the questions.
        questions: each with its judgements.
        facts: added to the report.

    Returns:
        The report: facts, and the numbers of documents, questions and judgements.

    Raises:
        InsightsError: the folder has something else.
        OSError: it cannot be written.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / mark).exists():
        raise InsightsError(
            f"{folder} is not empty, and has no {mark}, so it was not written by this; name a new folder"
        )
    (folder / "qrels").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # it has what people ask, or texts that not everybody may read
    count = asked = judgements = 0
    with _create(folder / "corpus.jsonl") as out:
        for row in rows:
            count += 1
            _write(out, row)
    with _create(folder / "queries.jsonl") as queries, _create(folder / "qrels" / "test.tsv") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for text, metadata, judged in questions:
            asked += 1
            judgements += len(judged)
            _write(queries, {"_id": str(asked), "text": text, "metadata": metadata})
            qrels.writelines(f"{asked}\t{id}\t{relevance}\n" for id, relevance in judged.items())
    report = {**facts, "documents": count, "questions": asked, "judgements": judgements}
    with _create(folder / mark) as out:
        _write(out, report)
    return report


def _create(path: Path) -> Any:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")


def _write(out: Any, row: Mapping[str, Any]) -> None:
    out.write(f"{json.dumps(row, ensure_ascii=False)}\n")
