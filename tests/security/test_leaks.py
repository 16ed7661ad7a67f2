"""Keys with a scope: every route answers them as if nothing else were indexed, whatever else is.

The same requests go to two servers: on one, documents and collections outside the scope are indexed too.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from indexer.generation.catalogue import document_id
from rag.query.filters import Filter
from rag.serving.api_keys import KeyFile
from rag.serving.live import LiveRetriever
from rag.serving.pushed_queue import PushedQueue
from rag.serving.scope import Part, Scope
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.endpoint import fake_endpoint
from tests.rag.conftest import Site, wait_for
from tests.web.fakes import FakeJobs
from web.app import create_app
from web.guards import scoped_retriever
from web.retriever import Jobs, Pushes, Retriever

# Every document has a word of its own, in its text, title, heading and address: the group's name before it.
PAGES = {
    "red": {"redalpha": "The index of the red team is warm.", "redbeta": "Vacuum frees the space of the red rows."},
    "blue": {"bluegamma": "The index of the blue team is cold.", "bluedelta": "Vacuum frees space of blue rows."},
    "red, blue": {"bothomega": "The index of both teams is warm and cold."},
}
OTHER = {"bluesecret": "The index in a collection of its own."}
HIDDEN = re.compile(r"blue(gamma|delta|secret)", re.IGNORECASE)
QUERIES = ("index", "vacuum rows", "bluegamma", "bluegama", "blue", '"blue team" index', "title:bluegamma index")
VOLATILE = {"took_ms", "fetched_at", "bytes", "at"}
KEY = "k" * 20
RED = Filter.parse({"metadata": {"team": ["red"]}})
MARKDOWN = {"metadata": {"team": "red"}, "content_type": "text/markdown"}
SCOPES = {
    "filter": Scope.of(["default", "nowhere"], [RED]),
    "collection and filter": Scope.of(["default"], [RED]),
    "several filters": Scope(
        (
            Part(frozenset({"default"}), Filter.parse(MARKDOWN | {"language": "en"})),
            Part(frozenset({"default", "nowhere"}), Filter.parse(MARKDOWN | {"date": {"from": "2001-01-01"}})),
            Part(frozenset({"default"}), Filter.parse({"metadata": {"team": "nobody"}})),
        )
    ),
}


@dataclass
class World:
    """A server with a key for a part of what it has."""

    client: FlaskClient
    jobs: FakeJobs
    pushes: PushedQueue


def page(word: str, text: str, team: str, *, lists: bool = False) -> str:
    access = f"\naccess: {{groups: [{team}]}}" if lists else ""
    front = f"---\nteam: [{team}]{access}\n---\n"
    return f"{front}# About {word}\n\n{text} It says {word}.\n\n## More of {word}\n\nMore, {word}.\n"


@contextmanager
def world(site: Site, folder: Path, role: str, scope: Scope, **more: Any) -> Iterator[World]:
    keys = KeyFile(folder / "keys.json")
    keys.add("one", role, KEY, scope=scope)
    settings = load({"index": str(site.index), "keys": str(keys.path), **more}, {})
    retriever = LiveRetriever(settings, lambda _: DummyEmbedder())
    retriever.start()
    try:
        wait_for(lambda: retriever.ready)
        jobs, pushes = FakeJobs(), PushedQueue(settings)
        client = create_app(retriever, settings, jobs, pushes).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {KEY}"
        yield World(client, jobs, pushes)
    finally:
        retriever.close()


def build(root: Path, *, everything: bool, lists: bool = False) -> Site:
    """Index the pages of red, or of all: at the same addresses; with access lists if wanted, and one without."""
    site = Site(root)
    for path in site.source.iterdir():
        path.unlink()

    def write(teams: list[str]) -> None:
        for team in teams:
            for word, text in PAGES[team].items():
                (site.source / f"{word}.md").write_text(page(word, text, team, lists=lists), encoding="utf-8")

    if lists:
        (site.source / "openpage.md").write_text(page("openpage", "An index for all.", "none"), encoding="utf-8")
    write(list(PAGES) if everything else ["red", "red, blue"])
    site.build()
    if everything:
        for path in site.source.iterdir():
            path.unlink()
        for word, text in OTHER.items():
            (site.source / f"{word}.md").write_text(page(word, text, "blue"), encoding="utf-8")
        site.build(collection="hidden")
    return site


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Site]:
    """Both indexes, of documents at the same addresses."""
    return both(tmp_path_factory.mktemp("world"))


def both(root: Path, *, lists: bool = False) -> tuple[Site, Site]:
    found = []
    for everything in (True, False):
        folder = root / "now"
        folder.mkdir()
        site = build(folder, everything=everything, lists=lists)
        site.index = site.index.rename(root / f"index-{everything}")
        site.source.rename(root / f"source-{everything}")
        folder.rmdir()
        found.append(site)
    return found[0], found[1]


def ids(site: Site) -> list[str]:
    words = [word for pages in PAGES.values() for word in pages] + list(OTHER) + ["openpage", "nothing"]
    return [document_id((site.source / f"{word}.md").as_uri()) for word in words]


Asked = list[tuple[str, str, Any]]  # method, address, body
COLLECTIONS = ("default", "hidden", "nowhere")
PUSHED = {"url": "https://example.org/new", "text": "A text."}


def addresses(template: str, fields: str = "") -> Callable[[Site], Asked]:
    def made(site: Site) -> Asked:
        named = [template.replace("{id}", id) for id in ids(site)] if "{id}" in template else [template]
        return [
            ("GET", f"{path}?{fields}&collection={name}".replace("?&", "?"), None)
            for path in named
            for name in COLLECTIONS
        ]

    return made


def asked(path: str, **more: Any) -> Callable[[Site], Asked]:
    bodies = [{"query": query, "collection": name, **more} for query in QUERIES for name in COLLECTIONS]
    filters = [{"metadata": {"team": "blue"}}, {"path": "/"}, {"date": {"from": "2020-01-01"}}]
    bodies += [{"query": "index", "filter": each, **more} for each in filters]
    return lambda _: [("POST", path, body) for body in bodies]


def typed(path: str, *more: str) -> Callable[[Site], Asked]:
    fields = [f"q={query}&collection={name}" for query in (*QUERIES, "blu", "abo", "more of b") for name in COLLECTIONS]
    fields += [f"q={query}&{each}" for query in QUERIES for each in more]
    return lambda _: [("GET", f"{path}?{each}", None) for each in fields]


def simply(*requests: tuple[str, str, Any]) -> Callable[[Site], Asked]:
    return lambda _: list(requests)


FACETS = {"facets": True, "explain": True, "sentences": True, "k": 50, "per_document": 0, "expand": "section"}
HISTORY = [{"question": "What does the blue team say of bluegamma?", "answer": "The index is cold [1]."}]
# what is asked of every operation; each must be here
CASES: dict[str, Callable[[Site], Asked]] = {
    "GET /": typed("/", "open=x", "meta.team=blue", "path=/"),
    "POST /": simply(("POST", "/", None)),
    "POST /api/v1/answer": asked("/api/v1/answer", history=HISTORY),
    "GET /api/v1/changes": addresses("/api/v1/changes"),
    "GET /api/v1/changes/{id}": simply(
        *(("GET", f"/api/v1/changes/1?collection={each}", None) for each in COLLECTIONS)
    ),
    "GET /api/v1/documents": addresses("/api/v1/documents"),
    "POST /api/v1/documents": simply(
        *(("POST", "/api/v1/documents", PUSHED | {"collection": each}) for each in COLLECTIONS[1:])
    ),
    "DELETE /api/v1/documents": simply(
        *(
            ("DELETE", f"/api/v1/documents?url=https://example.org/x&collection={each}", None)
            for each in COLLECTIONS[1:]
        )
    ),
    "GET /api/v1/documents/{id}": addresses("/api/v1/documents/{id}"),
    "POST /api/v1/embeddings": simply(
        ("POST", "/api/v1/embeddings", {"texts": ["bluegamma"]}),
        ("POST", "/api/v1/embeddings", {"texts": ["x"], "model": "other"}),
    ),
    "POST /api/v1/feedback": simply(
        ("POST", "/api/v1/feedback", {"search_id": "0" * 32, "feedback": "good", "hit": "bluegamma"})
    ),
    "POST /api/v1/index": simply(*(("POST", "/api/v1/index", {"collection": each}) for each in COLLECTIONS[1:])),
    "GET /api/v1/index": simply(("GET", "/api/v1/index", None)),
    "GET /api/v1/index/{id}": simply(("GET", "/api/v1/index/20261121T000000-000000", None)),
    "DELETE /api/v1/index/{id}": simply(("DELETE", "/api/v1/index/20261121T000000-000000", None)),
    "GET /api/v1/search": typed(
        "/api/v1/search", "facets=true&explain=true", "mode=dense", "mode=lexical", "meta.team=blue", "path=/"
    ),
    "POST /api/v1/search": asked("/api/v1/search", **FACETS),
    "POST /api/v1/search/batch": simply(
        (
            "POST",
            "/api/v1/search/batch",
            {"queries": [{"query": query, "collection": name} for query in QUERIES for name in COLLECTIONS]},
        )
    ),
    "GET /api/v1/suggest": typed("/api/v1/suggest", "meta.team=blue", "path=/"),
    "GET /document/{id}": addresses("/document/{id}"),
    "GET /document/{id}/original": addresses("/document/{id}/original"),
    "GET /insights": addresses("/insights"),
    "GET /api/v1/insights": addresses("/api/v1/insights"),
    "GET /api/v1/insights.csv": addresses("/api/v1/insights.csv"),
    "GET /livez": simply(("GET", "/livez", None)),
    "GET /metrics": simply(("GET", "/metrics", None)),
    "GET /openapi.json": simply(("GET", "/openapi.json", None)),
    "GET /readyz": simply(("GET", "/readyz", None)),
    "POST /rerank": simply(("POST", "/rerank", {"query": "bluegamma", "texts": ["bluegamma"]})),
    "GET /status": addresses("/status"),
    "POST /v1/embeddings": simply(("POST", "/v1/embeddings", {"input": "bluegamma", "model": "other"})),
    "GET /v1/models": simply(("GET", "/v1/models", None)),
    "GET /v1/models/{id}": simply(("GET", "/v1/models/other", None)),
    "POST /v1/rerank": simply(("POST", "/v1/rerank", {"query": "bluegamma", "documents": ["bluegamma"]})),
    "POST /v2/rerank": simply(("POST", "/v2/rerank", {"query": "bluegamma", "documents": ["bluegamma"]})),
}


def answers(one: World, requests: Asked) -> list[tuple[int, str]]:
    found = []
    for method, address, body in requests:
        headers = {"Accept": "application/json"} if address == "/api/v1/answer" else {}
        reply = one.client.open(address, method=method, json=body, headers=headers)
        found.append((reply.status_code, steady(reply.get_data(as_text=True))))
    return found


def steady(text: str) -> str:
    """An answer without what is never twice the same: times, and sizes."""
    try:
        value = json.loads(text)
    except ValueError:
        lines = text.splitlines()
        if len(lines) > 1 and lines[0].startswith("{"):
            return "\n".join(map(steady, lines))
        return re.sub(r"[0-9]+(\.[0-9]+)? ms|v=[0-9a-f]+", "~", text)
    return json.dumps(_steady(value), sort_keys=True)


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _steady(each) for name, each in value.items() if name not in VOLATILE}
    return [_steady(each) for each in value] if isinstance(value, list) else value


def test_every_operation_is_asked(sites: tuple[Site, Site], tmp_path: Path) -> None:
    with world(sites[0], tmp_path, "read", Scope()) as one:
        paths = one.client.get("/openapi.json").json["paths"]  # type: ignore[index]  # it has a body
    methods = ("get", "post", "put", "patch", "delete")
    there = {f"{method.upper()} {path}" for path, each in paths.items() for method in each if method in methods}
    assert there == set(CASES)


@pytest.mark.parametrize("name", SCOPES)
def test_what_is_outside_changes_no_answer(sites: tuple[Site, Site], tmp_path: Path, name: str) -> None:
    found, prompts = [], []
    for place, site in enumerate(sites):
        folder = tmp_path / str(place)
        folder.mkdir()
        with (
            fake_endpoint() as endpoint,
            world(site, folder, "read", SCOPES[name], answer_url=endpoint.url, answer_model="m") as one,
        ):
            endpoint.answers("The index of the blue team is cold [1]. The index of the red team is warm, it says.")
            found.append({operation: answers(one, case(sites[0])) for operation, case in CASES.items()})
            prompts.append([asked["messages"] for asked in endpoint.requests])
    assert prompts[0] == prompts[1]  # what the language model is shown
    assert len(prompts[0]) >= 4
    statuses = {status for each in found[0].values() for status, _ in each}
    assert {200, 404, 403} <= statuses
    assert not any(status == 500 for status in statuses)
    for operation, case in CASES.items():
        for request, with_others, alone in zip(case(sites[0]), *(each[operation] for each in found), strict=True):
            assert with_others == alone, request
    texts = [text for _, text in found[0]["GET /api/v1/documents"]]
    assert "redalpha" in texts[0]
    assert "bothomega" in texts[0]
    assert not any(HIDDEN.search(text) for text in texts)


def test_a_key_that_sees_everything_finds_it(sites: tuple[Site, Site], tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    with world(sites[0], tmp_path, "read", Scope()) as one:
        texts = [text for _, text in answers(one, CASES["GET /api/v1/documents"](sites[0]))]
        assert {found.group().lower() for text in texts for found in HIDDEN.finditer(text)} == {
            "bluegamma",
            "bluedelta",
            "bluesecret",
        }
        known = [status for status, _ in answers(one, CASES["GET /api/v1/documents/{id}"](sites[0]))]
        assert known.count(200) == 6


def test_who_writes_a_collection_writes_no_other(sites: tuple[Site, Site], tmp_path: Path) -> None:
    with world(sites[0], tmp_path, "write", Scope.of(["default"])) as one:
        hidden = one.jobs.start(collection="hidden")
        one.pushes.put("https://example.org/x", b"bluesecret", "text/plain", collection="hidden")
        assert one.client.get("/api/v1/index").json == {"jobs": []}
        missing = one.client.get("/api/v1/index/20261121T000000-999999")
        for method in ("GET", "DELETE"):
            reply = one.client.open(f"/api/v1/index/{hidden['id']}", method=method)
            assert reply.status_code == 404
            assert reply.text.replace(hidden["id"], "20261121T000000-999999") == missing.text
        assert one.jobs.get(hidden["id"])["state"] == "running"
        assert one.client.post("/api/v1/index", json={}).json["detail"].startswith("another build")  # type: ignore[index]
        one.jobs.cancel(hidden["id"])
        assert one.client.post("/api/v1/index", json={}).status_code == 202
        for name in ("hidden", "nowhere"):
            replies = [
                one.client.post("/api/v1/index", json={"collection": name}),
                one.client.post("/api/v1/documents", json=PUSHED | {"collection": name}),
                one.client.delete(f"/api/v1/documents?url=https://example.org/x&collection={name}"),
                one.client.get(f"/api/v1/changes?collection={name}"),
                one.client.get(f"/api/v1/changes/1?collection={name}"),
            ]
            assert {reply.status_code for reply in replies} <= {400, 403}
            assert all("none that this key may write" in reply.text for reply in replies)
        assert one.client.post("/api/v1/documents", json=PUSHED).status_code == 202
        assert len(one.pushes.queue("hidden")["changes"]) == 1


def test_a_collection_whose_name_is_not_known_is_not_told(sites: tuple[Site, Site], tmp_path: Path) -> None:
    with world(sites[0], tmp_path, "read", Scope.of(["hidden"])) as one:
        reply = one.client.get("/api/v1/search?q=index")
        assert reply.status_code == 404
        assert "there are: hidden" in reply.text
        assert [hit["title"] for hit in one.client.get("/api/v1/search?q=index&collection=hidden").json["hits"]]  # type: ignore[index]
        everybody = one.client.get("/readyz", headers={"Authorization": ""})
        assert everybody.status_code == 200
        assert everybody.json["collections"] == []  # type: ignore[index]
        assert "documents" not in everybody.json  # type: ignore[operator]


@pytest.mark.parametrize(
    ("protocol", "scoped"),
    [
        (Retriever, scoped_retriever.ScopedRetriever),
        (Jobs, scoped_retriever.ScopedJobs),
        (Pushes, scoped_retriever.ScopedPushes),
    ],
)
def test_nothing_gets_past_a_scope(protocol: type, scoped: type) -> None:
    """A method that the protocol gets and the scope does not know would be missing, not passed on."""
    names = {name for name in vars(protocol) if not name.startswith("_")}
    assert names <= set(vars(scoped))
    assert "__getattr__" not in vars(scoped)
