"""Past questions: nobody is suggested what only others, who may see more, have asked."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from rag.insights.recorder import Recorder
from rag.query.filters import Filter
from rag.serving.api_keys import KeyFile
from rag.serving.live import LiveRetriever
from rag.serving.scope import EVERYTHING, Scope
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from tests.security.test_leaks import build
from web.app import create_app
from web.insights import questions_of

LEAST = 3  # callers
SCOPES = {
    "all": EVERYTHING,
    "red": Scope.of(["default"], [Filter.parse({"metadata": {"team": ["red"]}})]),
    "blue": Scope.of(["default"], [Filter.parse({"metadata": {"team": ["blue"]}})]),
    "either": Scope.of(["default"], [Filter.parse({"metadata": {"team": [team]}}) for team in ("red", "blue")]),
    "default": Scope.of(["default"]),
}


class Server:
    """A server with several keys of each scope, that keeps what they ask."""

    def __init__(self, site: Site, folder: Path) -> None:
        file = KeyFile(folder / "keys.json")
        self.keys = {
            name: [file.add(f"{name}{number}", "read", scope=scope) for number in range(LEAST)]
            for name, scope in SCOPES.items()
        }
        settings = {"index": str(site.index), "keys": str(file.path), "insights_dir": str(folder / "insights")}
        self.settings = load(settings | {"insights_suggest": str(LEAST)}, {})
        self.retriever = LiveRetriever(self.settings, lambda _: DummyEmbedder())
        self.retriever.start()
        wait_for(lambda: self.retriever.ready)
        self.recorder = Recorder(self.settings)
        self.retriever.good_questions = questions_of(self.recorder)
        self.app: Flask = create_app(self.retriever, self.settings, recorder=self.recorder)

    def ask(self, name: str, number: int, method: str, address: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.keys[name][number]}"}
        return self.app.test_client().open(address, method=method, json=body, headers=headers).get_json(silent=True)

    def find(self, name: str, query: str, *, callers: int = LEAST, feedback: str = "opened") -> None:
        """Have callers of a scope ask, and open the best hit."""
        for number in range(callers):
            answer = self.ask(name, number, "POST", "/api/v1/search", {"query": query})
            told = {"search_id": answer["search_id"], "feedback": feedback, "hit": answer["hits"][0]["id"]}
            self.ask(name, number, "POST", "/api/v1/feedback", told)

    def read(self) -> None:
        """Write what was asked, and have it suggested."""
        self.recorder._turn()
        self.recorder.questions.read()

    def suggested(self, name: str, typed: str, more: str = "") -> list[str]:
        found = self.ask(name, 0, "GET", f"/api/v1/suggest?q={typed}{more}")["suggestions"]
        return [each["text"] for each in found if each["kind"] == "question"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("questions")
    return build(folder, everything=True)


@pytest.fixture
def server(site: Site, tmp_path: Path) -> Iterator[Server]:
    found = Server(site, tmp_path)
    yield found
    found.retriever.close()


def test_a_question_stays_within_the_scope_that_asked_it(server: Server) -> None:
    server.find("blue", "is bothomega of project bluefish")
    server.find("red", "is bothomega warm")
    server.find("all", "is bothomega known to all")
    server.read()
    assert server.suggested("red", "is both") == ["is bothomega warm"]
    assert server.suggested("blue", "is both") == ["is bothomega of project bluefish"]
    either = ["is bothomega of project bluefish", "is bothomega warm"]
    assert sorted(server.suggested("either", "is both")) == either
    assert sorted(server.suggested("default", "is both")) == either
    assert len(server.suggested("all", "is both")) == 3
    everywhere = [server.app.test_client().get("/api/v1/suggest?q=is both").text]
    everywhere += [
        json.dumps(server.ask("red", 1, "GET", f"/api/v1/suggest?q={typed}")) for typed in ("is", "blue", "pr")
    ]
    assert "bluefish" not in "".join(everywhere)


def test_a_question_goes_with_the_documents_that_answer_it(server: Server) -> None:
    server.find("all", "says bluegamma something")
    server.find("all", "says redalpha something")
    server.read()
    assert len(server.suggested("all", "says")) == 2
    assert server.suggested("all", "says", "&meta.team=red") == ["says redalpha something"]
    assert server.suggested("all", "says", "&meta.team=green") == []
    assert server.suggested("all", "says", "&collection=hidden") == []


@pytest.mark.parametrize(
    "asks",
    [
        lambda server: server.find("red", "how is vacuum", callers=LEAST - 1),
        lambda server: server.find("red", "how is vacuum", feedback="bad"),
        lambda server: server.find("red", "how is vacuum", feedback="seen"),
        lambda server: server.find("red", "how is vacuum of me@mail.example"),
        lambda server: [server.find("red", "how is vacuum", callers=1) for _ in range(LEAST)],
    ],
    ids=["too few", "judged bad", "nothing opened", "redacted", "one caller often"],
)
def test_what_is_not_suggested(server: Server, asks: Callable[[Server], object]) -> None:
    asks(server)
    server.read()
    assert server.suggested("all", "how is") == []


def test_feedback_of_another_scope_changes_nothing(server: Server) -> None:
    answers = [server.ask("red", number, "POST", "/api/v1/search", {"query": "is it warm"}) for number in range(LEAST)]
    for number, answer in enumerate(answers):
        told = {"search_id": answer["search_id"], "feedback": "good", "hit": answer["hits"][0]["id"]}
        server.ask("blue", number, "POST", "/api/v1/feedback", told)
    server.read()
    assert server.suggested("all", "is it") == []
