"""Summarize recorded searches, and turn hits that users opened or judged into a BEIR dataset."""

import csv
import io
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import nsmallest
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from indexer.text.cleaning import one_line
from rag.errors import InsightsError
from rag.insights.store import DATABASE, MAX_RECORDED_CHARS, first_id, open_to_read

MAX_SEARCHES = 200_000
MAX_LISTED = 50
MAX_DAYS = 3650
WHY_UNANSWERED = {"empty": "no hit", "far": "nothing close", "bad": "judged bad", "unopened": "not opened"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_QUESTIONS, _JUDGED = (Path(__file__).with_name(name).read_text("utf-8") for name in ("questions.sql", "judged.sql"))
MIN_OPENED = 2
GOOD, OPENED, BAD = 2, 1, 0  # relevance of a hit in a BEIR dataset
MARK = "from-insights.json"


class Group(NamedTuple):
    """Statistics of a group of searches, such as those for one question. `cosine` is the mean over their best hits."""

    asked: int = 0
    unanswered: int = 0  # searches counted in `empty`, `far`, `bad` or `unopened`
    empty: int = 0
    far: int = 0
    bad: int = 0
    unopened: int = 0  # searches whose hits were displayed, but neither opened nor judged
    opened: int = 0
    good: int = 0
    cosine: float | None = None

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons why searches were not answered, such as "no hit", each with the number of searches."""
        return [(words, count) for name, words in WHY_UNANSWERED.items() if (count := getattr(self, name))]


QuestionFigures = tuple[str, Group]  # latest spelling of a question, and its statistics


@dataclass(frozen=True, slots=True)
class Report:
    """Statistics of all searches in a period of days, and of the most frequent and the unanswered questions."""

    collection: str | None
    collections: list[str]
    total: Group
    asked: list[QuestionFigures]
    unanswered: list[QuestionFigures]

    def as_csv(self, table: str) -> str:
        """Return the list `asked` or `unanswered` as CSV with a header line. Spreadsheet formulas are escaped."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["question", *Group._fields])
        writer.writerows([escape_formula(one_line(query)), *group] for query, group in getattr(self, table))
        return out.getvalue()


@contextmanager
def _reading() -> Iterator[None]:
    """Convert database errors inside the `with` block to InsightsError."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise InsightsError(f"the record of searches cannot be read: {error}") from error


@_reading()
def report(folder: Path, days: int, collection: str | None = None, *, now: datetime | None = None) -> Report:
    """Summarize the searches of the last `days`, including today. Raises InsightsError if they cannot be read."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    counts, asked, unanswered, collections = [0] * 8, list[QuestionFigures](), list[QuestionFigures](), list[str]()
    if (folder / DATABASE).exists() or not folder.is_dir():
        first = first_id(since.timestamp())
        with closing(open_to_read(folder)) as connection:
            cursor = connection.execute(_QUESTIONS, (first, collection, collection, MAX_SEARCHES))
            while rows := [(query, Group(*figures)) for query, _, *figures in cursor.fetchmany(1000)]:
                counts = [sum(column) for column in zip(counts, *(group[:8] for _, group in rows), strict=True)]
                asked = nsmallest(MAX_LISTED, [*asked, *rows], lambda each: (-each[1].asked, each[0]))
                unanswered = nsmallest(
                    MAX_LISTED, [*unanswered, *(each for each in rows if each[1].unanswered)], _by_need
                )
            names = connection.execute("SELECT DISTINCT collection FROM searches WHERE id >= ? ORDER BY 1", (first,))
            collections = [name for (name,) in names]
    return Report(collection, collections, Group(*counts), asked, unanswered)


def _by_need(question: QuestionFigures) -> tuple[int, int, str]:
    """Return a sort key for unanswered questions. Unopened hits count least, because a snippet can be an answer."""
    text, group = question
    return -(group.empty + group.far + group.bad), -group.unanswered, text


def escape_formula(text: str) -> str:
    """Prefix a text with an apostrophe if a spreadsheet would run it as a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA_STARTS) or text.startswith(_FORMULA_STARTS) else text


class JudgedQuestion(NamedTuple):
    """A question, the number of searches for it, and the relevance of documents by id."""

    question: str  # latest spelling
    searches: int
    documents: dict[str, int]


@_reading()
def judged_questions(folder: Path, collection: str) -> list[JudgedQuestion]:
    """Return the questions with a relevant hit, most frequent first. Raises InsightsError if no searches are recorded.

    A hit is relevant if it was judged good, or if it was opened in at least MIN_OPENED searches.
    """
    judged = []
    with closing(open_to_read(folder)) as connection:
        rows = connection.execute(_JUDGED, (MAX_RECORDED_CHARS, collection))
        for (question, searches), documents in groupby(rows, key=itemgetter(0, 1)):
            relevance = {}
            for _, _, id, opened, verdict in documents:
                if verdict:
                    relevance[id] = GOOD if verdict > 0 else BAD
                elif opened >= MIN_OPENED:
                    relevance[id] = OPENED
            if any(relevance.values()):
                judged.append(JudgedQuestion(question, searches, relevance))
    return judged


def write_dataset(
    folder: Path, judged: Iterable[JudgedQuestion], documents: Iterable[Mapping[str, Any]], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write judged questions as a BEIR dataset, with all `documents` as the corpus. Returns a report.

    Raises InsightsError if there are no questions, and the errors of `write_beir`.
    """
    judged = list(judged)
    if not judged:
        raise InsightsError("no question has a hit that was judged good, or opened in at least two searches")
    judged_ids = {id for one in judged for id in one.documents}
    address_of: dict[str, str] = {}

    def rows() -> Iterator[Mapping[str, Any]]:
        for document in documents:
            if document["id"] in judged_ids:
                address_of[document["id"]] = document["url"]
            text = "\n\n".join(passage["text"] for passage in document["passages"])
            yield {"_id": document["url"], "title": document["title"], "text": text}

    def questions() -> Iterator[Judgement]:
        for one in judged:
            relevances = {address_of[id]: relevance for id, relevance in one.documents.items() if id in address_of}
            if any(relevances.values()):
                yield one.question, {"searches": one.searches}, relevances

    return write_beir(folder, MARK, rows(), questions(), facts)


Judgement = tuple[str, Mapping[str, Any], Mapping[str, int]]  # question, metadata, document id → relevance


def write_beir(
    folder: Path, mark: str, rows: Iterable[Mapping[str, Any]], questions: Iterable[Judgement], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Write a folder in BEIR's layout.

    Args:
        folder: new or empty folder, or a folder with the file `mark`, whose dataset is replaced.
        mark: name of the file for the report.
        rows: documents, as JSON objects of corpus.jsonl. All are read before the first question.
        questions: questions, each with the relevance of its documents.
        facts: entries to add to the report.

    Returns:
        The report, which has `facts` and the numbers of documents, questions and judgements.

    Raises:
        InsightsError: the folder has files but not `mark`.
        OSError: the folder cannot be written.
    """
    if folder.is_dir() and any(folder.iterdir()) and not (folder / mark).exists():
        raise InsightsError(
            f"{folder} is not empty and was not written by this command (it has no {mark}); name a new folder"
        )
    (folder / "qrels").mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # questions and texts may be confidential
    count = question_count = judgements = 0
    with _create(folder / "corpus.jsonl") as out:
        for row in rows:
            count += 1
            _write(out, row)
    with _create(folder / "queries.jsonl") as queries, _create(folder / "qrels" / "test.tsv") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for text, metadata, judged in questions:
            question_count += 1
            judgements += len(judged)
            _write(queries, {"_id": str(question_count), "text": text, "metadata": metadata})
            qrels.writelines(f"{question_count}\t{id}\t{relevance}\n" for id, relevance in judged.items())
    report = {**facts, "documents": count, "questions": question_count, "judgements": judgements}
    with _create(folder / mark) as out:
        _write(out, report)
    return report


def _create(path: Path) -> Any:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="utf-8")


def _write(out: Any, row: Mapping[str, Any]) -> None:
    out.write(f"{json.dumps(row, ensure_ascii=False)}\n")
