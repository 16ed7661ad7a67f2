"""The record of what people ask: what is kept, what goes, the report, and the dataset made of it."""

import csv
import io
import json
import sqlite3
import stat
import time
import tracemalloc
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from indexer.generation.documents import document_id
from indexer.publish.publish import prepare
from rag.commands.cli import main
from rag.errors import InsightsError
from rag.evaluation.evaluation import read_dataset
from rag.insights.report import BAD, GOOD, OPENED, escape_formula, judged_questions, report, write_dataset
from rag.insights.store import DATABASE, Feedback, InsightsStore, RecordedSearch, first_id, new_id, open_to_read
from tests.rag.conftest import Site

NOW = time.time()
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
DAY_S = 86_400
HITS = [(f"chunk-{rank}", f"document-{rank}") for rank in (1, 2, 3, 4)]


def searched(query: str, *, at: float = NOW, **changes: Any) -> RecordedSearch:
    fields = {"collection": "default", "via": "page", "hits": HITS, "cosine": 0.7, "close": True, "ms": 3.0}
    return RecordedSearch(id=new_id(at), query=query, **{**fields, "seen": True, **changes})  # type: ignore[arg-type]


def rows(folder: Path, query: str) -> Sequence[tuple[object, ...]]:
    with closing(open_to_read(folder)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with closing(InsightsStore(tmp_path / "insights")) as found:
        yield found


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_the_folder_is_private(store: InsightsStore) -> None:
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.folder / DATABASE).stat().st_mode) == 0o600
    prepare(store.folder.parent)  # raises for what is not of an index


def test_what_is_old_or_was_never_seen_is_deleted_for_good(store: InsightsStore) -> None:
    days = [searched(f"question of {day} days ago", at=NOW - day * DAY_S) for day in range(5)]
    typing = [searched("v", at=NOW - 3600, seen=False), searched("va", seen=False)]
    store.write([*days, *typing], [])
    store.delete_old(NOW, 3, 10**9)
    found = rows(store.folder, "SELECT query FROM searches ORDER BY query")
    assert found == [*((f"question of {day} days ago",) for day in (0, 1, 2)), ("va",)]
    assert rows(store.folder, "SELECT count(*) FROM hits") == [(4 * len(HITS),)]
    assert b"question of 4" not in all_bytes(store.folder)


def test_the_file_is_bounded(store: InsightsStore) -> None:
    store.write([searched(f"{number} {'x' * 400}", at=NOW + number) for number in range(2000)], [])
    store.delete_old(NOW, 90, 500_000)
    assert (store.folder / DATABASE).stat().st_size <= 500_000
    [(left, oldest)] = rows(store.folder, "SELECT count(*), min(id) FROM searches")
    assert 0 < int(str(left)) < 2000
    assert str(oldest) >= first_id(NOW + 2000 - int(str(left)))


def test_a_store_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(InsightsError, match="serve with --insights"):
        open_to_read(tmp_path)
    for version in (1, 9):
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        for opened in (open_to_read, InsightsStore):
            with pytest.raises(InsightsError, match=f"has version {version}, .* delete the file"):
                opened(tmp_path)
    (tmp_path / DATABASE).write_bytes(b"not a database" * 100)
    for read in (lambda: report(tmp_path, 1), lambda: judged_questions(tmp_path, "default")):
        with pytest.raises(InsightsError, match="the record of searches cannot be read: file is not a database"):
            read()


def test_the_report(store: InsightsStore) -> None:
    """Each reason has a question of its own."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("How do I vacuum?", {"ms": 1.5}),
        ("how do i vacuum", {"at": NOON.timestamp() - DAY_S}),
        ("vacuum full tables", {}),
        ("nothing there", {"hits": []}),
        ("far away", {"close": False}),
        ("judged", {}),
        ("=cmd|'x'", {"via": "api", "collection": "notes", "ms": 90.0}),
        ("typing", {"seen": False}),
        ("old", {"at": NOON.timestamp() - 8 * DAY_S}),
    ]
    searches = [
        searched(query, **{"at": NOON.timestamp() + place, **more}) for place, (query, more) in enumerate(asked)
    ]
    told = [(0, "opened", 1), (1, "opened", 1), (1, "good", 1), (5, "bad", 2)]
    store.write(searches, [Feedback(searches[n].id, what, f"chunk-{rank}") for n, what, rank in told])  # type: ignore[arg-type]
    found = report(store.folder, 7, now=NOON)
    assert (found.total.asked, found.total.opened, found.total.good) == (7, 2, 1)
    text, group = found.asked[0]
    assert (text, group.asked, group.opened) == ("How do I vacuum?", 2, 2)
    assert found.collections == ["default", "notes"]
    assert {text: group.reasons() for text, group in found.unanswered} == {
        "nothing there": [("no hit", 1)],
        "far away": [("nothing close", 1), ("not opened", 1)],
        "judged": [("judged bad", 1)],
        "vacuum full tables": [("not opened", 1)],
    }
    assert found.unanswered[-1][0] == "vacuum full tables"  # which what was shown may have answered
    assert [text for text, _ in report(store.folder, 7, "notes", now=NOON).asked] == ["=cmd|'x'"]
    assert report(store.folder, 30, now=NOON).total.asked == 8
    table = list(csv.DictReader(io.StringIO(found.as_csv("asked"))))
    assert (table[0]["question"], table[0]["asked"]) == ("How do I vacuum?", "2")
    assert "'=cmd|'x'" in {row["question"] for row in table}


def test_a_report_of_many_questions_takes_little_memory(store: InsightsStore) -> None:
    store.write([searched(f"{number} {'x' * 400}", hits=[]) for number in range(20_000)], [])
    tracemalloc.start()
    assert report(store.folder, 7).total.asked == 20_000
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


def test_no_spreadsheet_runs_a_question() -> None:
    for text in ("=1", "+1", "-1", "@x", "\tx", "\r=1", "  =1", "＝1"):
        assert escape_formula(text) == f"'{text}"
    assert escape_formula("a = b") == "a = b"


def ask(store: InsightsStore, query: str, *told: tuple[str, int], times: int = 1, **more: Any) -> None:
    for _ in range(times):
        one = searched(query, **more)
        store.write([one], [Feedback(one.id, what, f"chunk-{rank}") for what, rank in told])  # type: ignore[arg-type]


def relevance(store: InsightsStore) -> dict[str, dict[int, int]]:
    found = judged_questions(store.folder, "default")
    return {one.question: {int(id[-1]): value for id, value in one.documents.items()} for one in found}


def test_verdicts_and_opened_hits_judge_documents(store: InsightsStore) -> None:
    ask(store, "Up?", ("good", 2), ("opened", 2), at=NOW - 9)
    ask(store, "up", ("bad", 1))
    ask(store, "down alone", ("bad", 1), ("opened", 1))
    ask(store, "opened once", ("opened", 3))
    ask(store, "opened twice", ("opened", 3), times=2)
    ask(store, "undecided", ("good", 1), ("opened", 1))
    ask(store, "undecided", ("bad", 1), ("opened", 1))
    ask(store, "taken back", ("good", 1), ("none", 1))
    ask(store, "x" * 500, ("good", 1))
    ask(store, "never seen", ("none", 1), seen=False, via="api")
    ask(store, "elsewhere", ("good", 1), collection="notes")
    ask(store, "two passages", ("bad", 1), ("good", 2), hits=[("chunk-1", "document-1"), ("chunk-2", "document-1")])
    assert relevance(store) == {
        "up": {1: BAD, 2: GOOD},
        "opened twice": {3: OPENED},
        "undecided": {1: OPENED},
        "two passages": {1: GOOD},
    }


def test_a_dataset_that_eval_and_compare_read(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.build()
    vacuum, gone = ((site.source / name).as_uri() for name in ("vacuum.md", "gone.md"))
    with closing(InsightsStore(site.index / "insights")) as store:
        for query, url in (("storage of dead tuples?", vacuum), ("what is gone", gone)):
            ask(store, query, ("good", 1), hits=[("chunk-1", document_id(url))])
    folder = tmp_path / "asked"
    line = ["eval", str(folder), "--from-insights", "--index", str(site.index), "--json"]
    assert main(line) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["documents"], made["questions"], made["judgements"]) == (3, 1, 1)
    found = read_dataset(folder)
    assert found.queries == {"1": "storage of dead tuples?"}
    assert found.judgements == {"1": {vacuum: GOOD}}
    assert "Vacuum reclaims" in found.corpus[vacuum]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "queries.jsonl").stat().st_mode) == 0o600
    assert main(line) == 0  # over what it has written
    (folder / "from-insights.json").unlink()
    assert main(line) == 2
    assert "name a new folder" in capsys.readouterr().err
    with pytest.raises(InsightsError, match="no question has a hit"):
        write_dataset(tmp_path / "empty", [], [], {})
    assert not (tmp_path / "empty").exists()
