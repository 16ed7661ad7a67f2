"""The connectors of docs/howto.md, run as they stand there against the real application and fakes of what they read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from flask import Flask, Response, jsonify, request

from indexer.sources.pushed_store import PushedStore
from rag.serving.api_keys import KeyFile
from rag.serving.pushed_queue import PushedQueue
from rag.settings import Settings
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.running import running
from web.app import create_app

PAGE = Path(__file__).resolve().parents[3] / "docs" / "howto.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
KEY = "pl_a-key-that-may-write"
GONE = "https://wiki.test/wiki/spaces/DOC/pages/9/Gone"


class Searchable(FakeRetriever):
    """Has the collection of the wiki, with a page that is no longer there."""

    def __init__(self) -> None:
        super().__init__()
        self.collections = ("default", "wiki")
        self.hits = [make_hit(1, url=GONE)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, PushedQueue]]:
    settings = Settings(index=str(tmp_path / "index"), keys=str(tmp_path / "keys.json"))
    KeyFile(settings.keys_file).add("sender", "write", KEY)
    monkeypatch.setenv("PILOTLIGHT_KEY", KEY)
    queue = PushedQueue(settings)
    with running(create_app(Searchable(), settings, None, queue)) as url:
        yield url, queue


def run(mark: str, **replaced: str) -> None:
    [example] = [text for text in EXAMPLES if mark in text]
    for old, new in {"http://127.0.0.1:8642": replaced.pop("server"), **replaced}.items():
        assert old in example
        example = example.replace(old, new)
    exec(compile(example, "howto.md", "exec"), {})


def fake_confluence() -> Flask:
    """Answers `GET /wiki/rest/api/content` as Atlassian documents it: pages of results with a link to the next."""
    app = Flask("confluence")

    def page(number: int) -> dict[str, Any]:
        return {
            "id": str(number),
            "type": "page",
            "status": "current",
            "title": f"Page {number}",
            "space": {"key": "DOC"},
            "version": {"number": 1, "when": f"2026-01-0{number}T08:15:30.000Z"},
            "body": {"storage": {"value": f"<p>Text of page {number}.</p>", "representation": "storage"}},
            "_links": {"webui": f"/spaces/DOC/pages/{number}/Page+{number}"},
        }

    @app.get("/wiki/rest/api/content")
    def content() -> Response:
        assert request.authorization is not None
        assert (request.authorization.username, request.authorization.password) == ("ann", "token")
        assert request.args["expand"] == "body.storage,version,space"
        cursor = int(request.args.get("cursor", "1"))
        links = {"base": f"{request.host_url}wiki", "context": "/wiki"}
        if cursor < 3:
            links["next"] = f"/rest/api/content?{request.query_string.decode()}".partition("&cursor")[0]
            links["next"] += f"&cursor={cursor + 1}"
        return jsonify(results=[page(cursor)], start=cursor, limit=1, size=1, _links=links)

    return app


def test_confluence(server: tuple[str, PushedQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, queue = server
    monkeypatch.setenv("CONFLUENCE_USER", "ann")
    monkeypatch.setenv("CONFLUENCE_TOKEN", "token")
    queue.put(GONE, b"Gone.", "text/plain", collection="wiki")
    with running(fake_confluence()) as wiki:
        run("CONFLUENCE_USER", server=url, **{"https://example.atlassian.net": wiki})
    with PushedStore(tmp_path / "index" / "collections" / "wiki").read() as documents:
        pages = [documents.page(address) for address, _, _ in documents.listed()]
    assert [urlsplit(page.url).path for page in pages if page] == [
        f"/wiki/spaces/DOC/pages/{number}/Page+{number}" for number in (1, 2, 3)
    ]
    [first, *_] = pages
    assert first is not None
    assert (first.body, first.content_type) == (b"<p>Text of page 1.</p>", "text/html")
    assert first.stated == ("Page 1", None, "2026-01-01", (("space", ("DOC",)),), None)
    assert queue.queue("wiki")["changes"][0]["action"] == "delete"


def test_a_chat(server: tuple[str, PushedQueue], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files: dict[str, Any] = {
        "users.json": [{"id": "U1", "name": "ann", "profile": {"real_name": "Ann Example"}}],
        "channels.json": [{"id": "C7", "name": "general", "is_general": True}, {"id": "C8", "name": "empty"}],
        "general/2026-01-02.json": [
            {"type": "message", "user": "U1", "text": "Who has seen the zebra?", "ts": "1767340800.000100"},
            {
                "type": "message",
                "subtype": "bot_message",
                "bot_id": "B1",
                "text": "By the river.",
                "ts": "1767340801.0",
            },
            {"type": "message", "user": "U1", "text": "", "files": [], "ts": "1767340802.000100"},
        ],
        "general/2026-01-03.json": [],
    }
    for name, content in files.items():
        path = tmp_path / "slack-export" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    run("slack-export", server=server[0])
    with PushedStore(tmp_path / "index" / "collections" / "chat").read() as documents:
        [(address, _, _)] = documents.listed()
        page = documents.page(address)
    assert address == "https://example.slack.com/archives/C7/p1767340800000100"
    assert page is not None
    assert page.body.decode() == "Ann Example: Who has seen the zebra?\n\nApp: By the river."
    assert page.stated == ("#general, 2026-01-02", None, "2026-01-02", (("channel", ("general",)),), None)


def test_every_connector_is_run() -> None:
    assert len(EXAMPLES) == 2
