"""A folder in BEIR's layout: documents, queries, and which documents answer which."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.errors import DatasetError

Judgements = dict[str, dict[str, int]]  # query id: document id: relevance


@dataclass(frozen=True, slots=True)
class Dataset:
    """A BEIR test split."""

    corpus: dict[str, str]  # document id: title + " " + text
    queries: dict[str, str]  # only those that are judged
    judgements: Judgements


def read_dataset(folder: Path) -> Dataset:
    """Read corpus.jsonl, queries.jsonl and qrels/test.tsv. Raises DatasetError naming the file and line."""
    corpus = {
        row["_id"]: f"{row.get('title', '')} {row['text']}".strip() for row in _json_lines(folder / "corpus.jsonl")
    }
    queries, judgements = read_questions(folder)
    if not corpus:
        raise DatasetError(f"{folder} has no documents: is it in BEIR's layout?")
    return Dataset(corpus, queries, judgements)


def read_questions(folder: Path) -> tuple[dict[str, str], Judgements]:
    """Read queries.jsonl and qrels/test.tsv: the judged queries, and their judgements. Raises as `read_dataset`."""
    judgements: Judgements = {}
    path = folder / "qrels" / "test.tsv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                judgements.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DatasetError(
            f"{path} cannot be read ({error}): it needs query-id, corpus-id and score columns"
        ) from error
    queries = {row["_id"]: row["text"] for row in _json_lines(folder / "queries.jsonl") if row["_id"] in judgements}
    if not queries:
        raise DatasetError(f"{folder} has no judged queries: is it in BEIR's layout?")
    return queries, judgements


def _json_lines(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror or error}; is the folder in BEIR's layout?") from error
    except ValueError as error:
        raise DatasetError(f"{path} is not JSON Lines: {error}") from error
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or "_id" not in row or "text" not in row:
            raise DatasetError(f"{path} line {number} has no _id and text: is it in BEIR's layout?")
    return rows
