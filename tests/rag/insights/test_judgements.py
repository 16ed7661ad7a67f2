import json
import stat
from contextlib import closing
from pathlib import Path

import pytest

from indexer.generation.catalogue import document_id
from rag.commands.cli import main
from rag.errors import InsightsError
from rag.evaluation.dataset import read_dataset
from rag.insights.events import Feedback, Searched, Shown
from rag.insights.judgements import BAD, GOOD, OPENED, Judged, judged_questions, write_dataset
from rag.insights.store import InsightsStore
from tests.rag.conftest import Site
from tests.rag.insights.records import searched, told
from tests.web.fakes import make_hit


class Asking:
    """Fills a store with searches that show four documents."""

    def __init__(self, folder: Path) -> None:
        self.store = InsightsStore(folder, period="day")
        self.count = 0

    def ask(self, query: str, *what: tuple[str, int], who: str = "", times: int = 1, **more: object) -> None:
        """Ask some times, each by another caller unless there is one, and say something of hits by their rank."""
        for _ in range(times):
            self.count += 1
            asked = searched(query, hits=4, at=1.7e9 + self.count, who=who or f"key {self.count}", **more)
            self.store.write([asked], [told(asked, kind, rank) for kind, rank in what])


def relevance(folder: Path, **more: int) -> dict[str, dict[int, int]]:
    """Relevance by question and the rank at which all searches show the document."""
    ranks = {document_id(f"https://docs.example/indexes/{rank}"): rank for rank in range(1, 5)}
    return {
        one.question: {ranks[id]: found for id, found in one.documents.items()}
        for one in judged_questions(folder, "default", **more)
    }


def test_thumbs_and_opened_hits(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    with closing(asking.store):
        asking.ask("Up?", ("good", 2), ("opened", 2))
        asking.ask("up", ("bad", 1))
        asking.ask("down alone", ("bad", 1), ("opened", 1))
        asking.ask("opened by one", ("opened", 3), who="key one", times=5)
        asking.ask("opened by two", ("opened", 3), times=2)
        asking.ask("undecided", ("good", 1), ("opened", 1))
        asking.ask("undecided", ("bad", 1), ("opened", 1))
        asking.ask("taken back", ("good", 1), ("none", 1))
        asking.ask("of bob@mail.example", ("good", 1))
        asking.ask("never seen", ("none", 1), seen=False, via="api")
        asking.ask("elsewhere", ("good", 1), collection="notes")
    assert relevance(tmp_path) == {
        "up": {1: BAD, 2: GOOD},
        "opened by two": {3: OPENED},
        "undecided": {1: OPENED},
    }
    assert "opened by one" in relevance(tmp_path, least=1)
    assert "opened by two" not in relevance(tmp_path, least=3)


def test_what_stands_first_must_be_opened_more_often(tmp_path: Path) -> None:
    """Half of all first hits are opened: one that two of twenty open is none that answers."""
    asking = Asking(tmp_path)
    with closing(asking.store):
        asking.ask("usual", ("opened", 1), times=38)
        asking.ask("usual", times=20)
        asking.ask("seldom", ("opened", 1), times=2)
        asking.ask("seldom", times=18)
        asking.ask("low", ("opened", 4), times=2)
        asking.ask("low", times=8)
    assert relevance(tmp_path) == {"usual": {1: OPENED}, "low": {4: OPENED}}


def test_one_good_passage_makes_a_good_document(tmp_path: Path) -> None:
    hits = [make_hit(rank, document="d" * 32) for rank in (1, 2)]
    asked = searched("two passages", shown=tuple(map(Shown.of, hits)))
    with closing(InsightsStore(tmp_path, period="day")) as store:
        store.write([asked], [told(asked, "bad", 1), told(asked, "good", 2)])
    assert judged_questions(tmp_path, "default") == [Judged("two passages", 1, {"d" * 32: GOOD})]


def test_a_dataset_that_eval_and_compare_read(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.build()
    vacuum, gone = ((site.source / name).as_uri() for name in ("vacuum.md", "gone.md"))
    asked: list[Searched] = []
    for query, url in (("storage of dead tuples?", vacuum), ("what is gone", gone)):
        hits = [make_hit(id=f"of {query}".replace(" ", "-"), document=document_id(url), url=f"{url}#x")]
        asked.append(searched(query, shown=tuple(map(Shown.of, hits))))
    with closing(InsightsStore(site.index / "insights", period="day")) as store:
        good = [Feedback(each.id, "good", each.shown[0].id, each.scope) for each in asked]
        store.write(asked, good)
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
    (folder / "mine.txt").touch()
    assert main(line) == 2
    assert "name a new folder" in capsys.readouterr().err
    assert main([*line, "--least", "0"]) == 2
    with pytest.raises(InsightsError, match="no question has a hit"):
        write_dataset(tmp_path / "empty", [], [], {})
    assert not (tmp_path / "empty").exists()
