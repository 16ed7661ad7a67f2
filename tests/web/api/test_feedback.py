"""What is kept of searches, and what callers say of them, over the API."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from rag.access import KeyFile
from rag.insights.store import DATABASE, Recorder
from rag.settings import Settings
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.test_problems import assert_problem
from web.app import create_app

SEARCH, FEEDBACK = "/api/v1/search", "/api/v1/feedback"
SITE = "https://docs.example"


class Kept:
    """An application that keeps what is asked, and its store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder / "insights"
        self.retriever = FakeRetriever()
        self.retriever.hits = [make_hit(rank) for rank in (1, 2, 3)]
        self.settings = Settings(insights=90, index=str(folder), **settings)
        self.recorder = Recorder(self.settings.insights_folder, self.settings.insights)
        self.app = create_app(self.retriever, self.settings, recorder=self.recorder)
        self.client = self.app.test_client()
        self.recorder.start()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query, once all that was told is written."""
        self.recorder.close()
        with closing(sqlite3.connect(self.folder / DATABASE)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def kept(tmp_path):
    found = Kept(tmp_path)
    yield found
    found.recorder.close()


def searched(client: FlaskClient, query: str = "index", **more: Any) -> str:
    answer = client.post(SEARCH, json={"query": query}, **more).get_json()
    return str(answer["search_id"])


def told(client: FlaskClient, **fields: Any) -> int:
    return client.post(FEEDBACK, json=fields).status_code


def test_searches_of_every_way_are_kept(kept):
    kept.client.get(f"{SEARCH}?q=get&mode=dense")
    kept.client.post(SEARCH, json={"query": "post", "collection": "notes"})
    batch = kept.client.post(f"{SEARCH}/batch", json={"queries": [{"query": "one"}, {"query": "two"}]}).get_json()
    assert len({each["search_id"] for each in batch["answers"]}) == 2
    for address in ("/?q=a&open=chunk-1", "/?q=a&offset=10", f"{SEARCH}?q=a&offset=10"):
        assert kept.client.get(address).status_code == 200  # repeats or goes on: no search of its own
    page = kept.client.get("/?q=va", headers={"X-Pilotlight-Typing": "1"}).text  # counts once it was seen
    assert told(kept.client, search_id=page.partition('data-search="')[2][:32], feedback="seen") == 204
    kept.client.get("/?q=v", headers={"X-Pilotlight-Typing": "1"})
    kept.retriever.hits = []
    kept.client.get("/?q=page")
    found = kept.rows("SELECT query, via, collection, hits, seen FROM searches ORDER BY query")
    assert found == [
        ("get", "api", "default", 3, 1),
        ("one", "batch", "default", 3, 1),
        ("page", "page", "default", 0, 1),
        ("post", "api", "notes", 3, 1),
        ("two", "batch", "default", 3, 1),
        ("v", "page", "default", 3, 0),
        ("va", "page", "default", 3, 1),
    ]


def test_nothing_of_who_asked_is_kept(tmp_path):
    key = KeyFile(tmp_path / "keys.json").add("alice", "read")
    kept = Kept(tmp_path, keys=str(tmp_path / "keys.json"))
    id = searched(kept.client, "vacuum", headers={"Authorization": f"Bearer {key}"})
    assert kept.rows("SELECT id, query FROM searches") == [(id, "vacuum")]
    content = b"".join(path.read_bytes() for path in kept.folder.iterdir())
    assert b"chunk-1" in content
    assert not any(name in content for name in (b"alice", key.encode(), b"127.0.0.1"))


def test_nothing_is_kept_unless_it_is_set(tmp_path, client):
    assert client.post(SEARCH, json={"query": "index"}).get_json()["search_id"] is None
    page = client.get("/?q=index").text
    assert "data-search=" not in page
    assert "feedback.js" not in page
    fields = {"search_id": "0" * 32, "feedback": "seen"}
    assert_problem(client.post(FEEDBACK, json=fields), 501)
    assert list(tmp_path.iterdir()) == []


def test_feedback(kept):
    id, other = searched(kept.client), searched(kept.client, "other")
    assert told(kept.client, search_id=id, feedback="opened", hit="chunk-2") == 204
    assert told(kept.client, search_id=id, feedback="good", hit="chunk-2") == 204
    assert told(kept.client, search_id=other, feedback="bad", hit="chunk-1") == 204
    # answered in the same way, and ignored
    assert told(kept.client, search_id="0" * 32, feedback="bad", hit="chunk-1") == 204
    assert told(kept.client, search_id=id, feedback="bad", hit="of-another-search") == 204
    found = kept.rows(
        "SELECT query, passage, opened, verdict FROM hits JOIN searches ON id = search "
        "WHERE opened OR verdict ORDER BY query"
    )
    assert found == [("index", "chunk-2", 1, 1), ("other", "chunk-1", 0, -1)]


def test_a_box_of_another_site_tells_what_was_seen_and_opened(tmp_path):
    key = KeyFile(tmp_path / "keys.json").add("box", "read", origins=(SITE,))
    KeyFile(tmp_path / "keys.json").add("other", "read")
    kept = Kept(tmp_path, keys=str(tmp_path / "keys.json"))
    headers = {"Authorization": f"Bearer {key}", "Origin": SITE}
    first, _ = (searched(kept.client, query, headers=headers) for query in ("vacuum", "v"))
    body = {"search_id": first, "feedback": "opened", "hit": "chunk-1"}
    reply = kept.client.post(FEEDBACK, json=body, headers=headers)
    assert reply.status_code == 204
    assert reply.headers["Access-Control-Allow-Origin"] == SITE
    assert (
        kept.client.post(FEEDBACK, json=body, headers={**headers, "Origin": "https://evil.example"}).status_code == 403
    )
    assert kept.client.post(FEEDBACK, json=body).status_code == 401
    assert kept.rows("SELECT query, via, seen FROM searches ORDER BY query") == [("v", "box", 0), ("vacuum", "box", 1)]


def test_what_cannot_be_written_waits_within_a_bound_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("rag.insights.store.MAX_WAITING_BYTES", 10_000)
    (tmp_path / "insights").write_text("in the way of the folder", encoding="utf-8")
    kept = Kept(tmp_path)
    ids = [kept.client.post(SEARCH, json={"query": "index"}).get_json()["search_id"] for _ in range(9)]
    waiting = sum(id is not None for id in ids)
    assert 1 <= waiting <= 5
    assert ids[waiting:] == [None] * (9 - waiting)
    for _ in range(20):
        assert told(kept.client, search_id=ids[0], feedback="seen") == 204
    assert len(kept.recorder._feedback) <= 10
    kept.recorder.close()
    dropped = 9 + 20 - len(kept.recorder._feedback)
    metrics = kept.client.get("/metrics").text
    assert f'pilotlight_insights_searches_total{{outcome="dropped"}} {dropped}.0' in metrics
