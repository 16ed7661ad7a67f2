"""Keys and users that write below a filter: what is theirs, and that they are told nothing of the rest."""

from pathlib import Path
from typing import Any

import pytest

from rag.errors import KeysError
from rag.query.filters import Filter
from rag.serving.api_keys import KeyFile
from rag.serving.pushed_queue import PushedQueue
from rag.serving.scope import Part, Scope, reader_names
from rag.settings import load
from tests.rag.conftest import Site
from tests.security.test_leaks import World, world

AREA = "https://w.test/pay"
PAYMENTS = Filter.parse({"url_prefix": AREA, "metadata": {"team": "payments"}})
MINE: dict[str, Any] = {"text": "The index of payments.", "metadata": {"team": ["payments", "all"]}}
CHANGES = "/api/v1/changes"
DOCUMENTS = "/api/v1/documents"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An index with a document of others, by the operator, in the area of payments; and another that waits."""
    site = Site(tmp_path)
    queue = PushedQueue(load({"index": str(site.index)}, {}))
    for name, metadata in {"theirs": {"team": "ops"}, "known": {"team": "payments"}, "gone": {"team": "ops"}}.items():
        queue.put(f"{AREA}/{name}", b"An index of one team.", "text/plain", metadata=metadata)
    queue.put(f"{AREA}/listed", b"For some.", "text/plain", metadata={"team": "payments"}, access={"groups": ["board"]})
    queue.delete(f"{AREA}/gone")
    site.build()
    queue.put(f"{AREA}/waiting", b"An index of one team.", "text/plain", metadata={"team": "ops"})
    return site


def put(one: World, url: str, **more: Any) -> tuple[int, str]:
    reply = one.client.post(DOCUMENTS, json=MINE | {"url": url} | more)
    return reply.status_code, reply.text.replace(url, "URL")


@pytest.mark.parametrize("readers", [None, reader_names(["ann"], ["red"])])
def test_a_writer_below_a_filter(site: Site, tmp_path: Path, readers: frozenset[str] | None) -> None:
    scope = Scope((Part(frozenset({"default"}), PAYMENTS),), readers)
    with world(site, tmp_path, "write", scope) as one:
        refused = put(one, f"{AREA}/theirs")
        assert refused[0] == 400
        assert "none that may be written" in refused[1]
        for url in (f"{AREA}/waiting", f"{AREA}/gone", f"{AREA}/listed", "https://w.test/other", "https://w.test/payx"):
            assert put(one, url) == refused, url
        assert put(one, f"{AREA}/new", metadata={"team": "ops"}) == refused
        assert put(one, f"{AREA}/new", metadata={}) == refused
        front = "---\nteam: payments\n---\n# A text that says so itself"
        assert put(one, f"{AREA}/new", text=front, content_type="text/markdown", metadata={}) == refused
        assert put(one, f"{AREA}/new", access={"groups": ["board"]}) == refused  # which it could not see any more
        assert put(one, f"{AREA}/new", collection="hidden")[0] == 400
        assert [put(one, f"{AREA}/{name}")[0] for name in ("new", "known")] == [202, 202]

        def withdraw(name: str) -> tuple[int, str]:
            reply = one.client.delete(DOCUMENTS, query_string={"url": f"{AREA}/{name}"})
            return reply.status_code, reply.text.replace(name, "NAME")

        missing = withdraw("nothing")
        assert missing[0] == 404
        assert withdraw("theirs") == withdraw("waiting") == withdraw("listed") == withdraw("gone") == missing
        assert withdraw("new")[0] == 202

        queue = one.client.get(CHANGES).json
        assert queue is not None
        assert {change["url"] for change in queue["changes"]} == {f"{AREA}/new", f"{AREA}/known"}
        assert (queue["queued"], queue["documents"], queue["bytes"], queue["error"]) == (3, None, None, None)
        numbers = {change["id"] for change in queue["changes"]}
        unknown = one.client.get(f"{CHANGES}/999").text
        for number in range(1, 10):
            reply = one.client.get(f"{CHANGES}/{number}")
            assert (reply.status_code == 200) == (number in numbers)
            assert number in numbers or reply.text.replace(f"'{number}'", "'999'") == unknown
        assert one.client.post("/api/v1/index", json={}).status_code == 403
        one.jobs.start()
        assert one.client.get("/api/v1/index").json == {"jobs": []}
        assert one.pushes.queue()["documents"] == 4


def test_a_writer_in_whole_collections_leaves_what_others_alone_may_read(site: Site, tmp_path: Path) -> None:
    scope = Scope((Part(frozenset({"default"})),), reader_names(["ann"], []))
    with world(site, tmp_path, "write", scope) as one:
        assert put(one, f"{AREA}/listed")[0] == 400
        assert put(one, f"{AREA}/theirs")[0] == 202
        assert put(one, "https://w.test/new", access={"users": ["ann"]})[0] == 202


def test_a_writer_leaves_what_closes_itself(site: Site, tmp_path: Path) -> None:
    """A list in front matter is known once the document is indexed; then it counts for writing as for reading."""
    board = b"---\naccess: {groups: [board]}\n---\nThe index of the board."
    PushedQueue(load({"index": str(site.index)}, {})).put(f"{AREA}/board", board, "text/markdown")
    site.build()
    scope = Scope((Part(frozenset({"default"})),), reader_names(["ann"], []))
    with world(site, tmp_path, "write", scope) as one:
        numbers = {change["id"]: change["url"] for change in one.pushes.queue()["changes"]}
        closed = next(number for number, url in numbers.items() if url == f"{AREA}/board")
        withdrawn = [
            one.client.delete(DOCUMENTS, query_string={"url": f"{AREA}/{name}"}) for name in ("board", "never")
        ]
        assert [reply.status_code for reply in withdrawn] == [404, 404]
        assert withdrawn[0].text.replace("board", "never") == withdrawn[1].text
        assert one.client.get(f"{CHANGES}/{closed}").status_code == 404
        told = one.client.get(CHANGES).json
        assert told is not None
        assert f"{AREA}/theirs" in {change["url"] for change in told["changes"]}
        assert f"{AREA}/board" not in str(told)
        assert one.client.delete(DOCUMENTS, query_string={"url": f"{AREA}/theirs"}).status_code == 202


def test_a_filter_without_an_address_is_not_for_writing(tmp_path: Path) -> None:
    """Else a writer could try any address, and would be told where others have something."""
    keys = KeyFile(tmp_path / "keys.json")
    team = Filter.parse({"metadata": {"team": "payments"}})
    for parts in ((Part(None, team),), (Part(None, PAYMENTS), Part(None, team))):
        with pytest.raises(KeysError, match="must have a url_prefix or path"):
            keys.add("writer", "write", scope=Scope(parts))
    keys.add("writer", "write", scope=Scope((Part(None, PAYMENTS), Part(frozenset({"wiki"})))))
    assert [key.role for key in keys.read()] == ["write"]
