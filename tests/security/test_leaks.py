"""Scopes: no route and no tool shows texts, titles, urls, ids or suggestions of documents outside a scope."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from indexer.generation.documents import document_id
from rag.access import NOTHING, Grant, KeyFile, reader_names
from rag.errors import CollectionMissing, KeysError
from rag.jobs.pushes import PushedQueue
from rag.messages import Push
from rag.query.request import Filter, SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.endpoint import fake_endpoint
from tests.rag.conftest import Site
from tests.waiting import wait_for
from tests.web.fakes import FakeJobs
from web.app import create_app

# Every document has a word of its own, in its text, title, heading and address: the group's name before it.
PAGES = {
    "red": {"redalpha": "The index of the red team is warm.", "redbeta": "Vacuum frees the space of the red rows."},
    "blue": {"bluegamma": "The index of the blue team is cold.", "bluedelta": "Vacuum frees space of blue rows."},
    "red, blue": {"bothomega": "The index of both teams is warm and cold."},
    "none": {"openpage": "An index for all."},
}
OTHER = {"bluesecret": "The index in a collection of its own."}
HIDDEN = re.compile(r"blue(gamma|delta|secret)", re.IGNORECASE)
PASSAGE = re.compile(rf"(about|says|more of|more,) {HIDDEN.pattern}|{HIDDEN.pattern}\.md", re.IGNORECASE)
QUERIES = ("index", "vacuum rows", "bluegamma", "bluegama", "blue", '"blue team" index', "title:bluegamma index")
KEY = "k" * 20
RED = Filter.parse({"metadata": {"team": ["red"]}})
MARKDOWN = {"metadata": {"team": "red"}, "content_type": "text/markdown"}
RULES = """
[[access]]
everybody = true
collections = ["default", "twin", "nowhere"]

[[access]]
group = "operators"
everything = true
"""
WHOLE = Grant(frozenset({"default", "twin", "nowhere"}))
KEYS = {"filter": replace(WHOLE, filter=RED), "key of a group": replace(WHOLE, readers=reader_names(["ann"], ["red"]))}
USERS = {"user": "red, other", "user below a filter": "red, other", "user of no group": ""}
LISTED = {"key of a group", "nobody", *USERS}  # callers to whom access lists are applied
CALLERS = (*KEYS, *USERS, "nobody")
READS = {name: {"redalpha", "redbeta", "bothomega"} for name in CALLERS} | {
    "key of a group": {"redalpha", "redbeta", "bothomega", "openpage"},
    "user": {"redalpha", "redbeta", "bothomega", "openpage"},
    "user of no group": {"openpage"},
    "nobody": {"openpage"},
}


@dataclass
class World:
    """A server, and a client that sends the credentials of one caller."""

    client: FlaskClient
    jobs: FakeJobs
    pushes: PushedQueue


@contextmanager
def world(site: Site, folder: Path, role: str, part: Grant, **more: Any) -> Iterator[World]:
    folder.mkdir(exist_ok=True)
    keys = KeyFile(folder / "keys.json")
    keys.add("one", role, KEY, grant=part)
    settings = load({"index": str(site.index), "keys": str(keys.path), **more}, {})
    retriever = LiveRetriever(Follower(settings, lambda _: DummyEmbedder()))
    retriever.start()
    try:
        wait_for(lambda: retriever.ready)
        jobs, pushes = FakeJobs(), PushedQueue(settings)
        client = create_app(retriever, settings, jobs, pushes).test_client()
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {KEY}"
        yield World(client, jobs, pushes)
    finally:
        retriever.close()


@contextmanager
def asking(name: str, sites: dict[bool, Site], folder: Path, **more: Any) -> Iterator[World]:
    """Serve the site for one of the CALLERS."""
    rules = folder / "pilotlight.toml"
    rules.write_text(RULES)
    headers, settings = {}, dict(more)
    if name in USERS:
        if name == "user below a filter":
            rules.write_text(RULES.replace("\n\n", "\nfilter = { metadata = { team = ['red', 'nobody'] } }\n\n", 1))
        settings |= {"rules": str(rules), "user_header": "X-User", "groups_header": "X-Groups"}
        settings |= {"user_proxies": "127.0.0.1"}
        headers = {"HTTP_X_USER": "ann", "HTTP_X_GROUPS": USERS[name]}
    elif name == "nobody":
        settings |= {"anonymous": "read"}
    with world(sites[name in LISTED], folder, "read", KEYS.get(name, WHOLE), **settings) as one:
        if name not in KEYS:
            del one.client.environ_base["HTTP_AUTHORIZATION"]
        one.client.environ_base |= headers
        yield one


def page(word: str, text: str, team: str, *, lists: bool = False) -> str:
    access = f"\naccess: {{groups: [{team}]}}" if lists and team != "none" else ""
    front = f"---\nteam: [{team}]{access}\n---\n"
    return f"{front}# About {word}\n\n{text} It says {word}.\n\n## More of {word}\n\nMore, {word}.\n"


def place(site: Site, word: str) -> Path:
    """Return the path of a page; the folder of one is a facet that nobody else may see."""
    return site.source / ("bluedelta" if word == "bluedelta" else "") / f"{word}.md"


def build(root: Path, *, lists: bool = False) -> Site:
    """Index the pages of all teams, with access lists if wanted, and another collection."""
    root.mkdir(exist_ok=True)
    site = Site(root)
    for path in site.source.iterdir():
        path.unlink()
    (site.source / "bluedelta").mkdir()
    for team, pages in PAGES.items():
        for word, text in pages.items():
            place(site, word).write_text(page(word, text, team, lists=lists), encoding="utf-8")
    site.build()
    for team, pages in PAGES.items():  # so that there are changes, of which the caller may see a part
        for word, text in pages.items():
            place(site, word).write_text(page(word, f"{text} {word} is new.", team, lists=lists), encoding="utf-8")
    site.build()
    site.build(collection="twin")
    kept = site.source.rename(root / "kept")
    site.source.mkdir()
    for word, text in OTHER.items():
        place(site, word).write_text(page(word, text, "blue", lists=lists), encoding="utf-8")
    site.build(collection="hidden")
    for path in kept.iterdir():
        path.rename(site.source / path.name)
    return site


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Site]:
    """The indexes without and with access lists."""
    root = tmp_path_factory.mktemp("world")
    return {lists: build(root / str(lists), lists=lists) for lists in (False, True)}


WORDS = [word for pages in PAGES.values() for word in pages] + list(OTHER) + ["nothing"]


def ids(site: Site) -> list[str]:
    return [document_id(place(site, word).as_uri()) for word in WORDS]


Asked = list[tuple[str, str, Any]]  # method, address, body
COLLECTIONS = ("default", "hidden", "nowhere")
SEVERAL = ("*", "default,twin", "twin,hidden")
PUSHED = {"url": "https://example.org/new", "text": "A text."}


def addresses(template: str) -> Callable[[Site], Asked]:
    def made(site: Site) -> Asked:
        named = [template.replace("{id}", id) for id in ids(site)] if "{id}" in template else [template]
        return [("GET", f"{path}?collection={name}", None) for path in named for name in COLLECTIONS]

    return made


def asked(path: str, **more: Any) -> Callable[[Site], Asked]:
    bodies = [{"query": query, "collection": name, **more} for query in QUERIES for name in COLLECTIONS]
    filters = [{"metadata": {"team": "blue"}}, {"path": "/"}, {"date": {"from": "2020-01-01"}}]
    bodies += [{"query": query, "collections": names, **more} for query in QUERIES for names in SEVERAL]
    bodies += [{"query": "index", "filter": each, **more} for each in filters]
    return lambda _: [("POST", path, body) for body in bodies]


def typed(path: str, *more: str) -> Callable[[Site], Asked]:
    fields = [f"q={query}&collection={name}" for query in (*QUERIES, "blu", "abo", "more of b") for name in COLLECTIONS]
    fields += [f"q={query}&collections={names}" for query in (*QUERIES, "blu") for names in SEVERAL]
    fields += [f"q={query}&{each}" for query in QUERIES for each in more]
    return lambda _: [("GET", f"{path}?{each}", None) for each in fields]


def simply(*requests: tuple[str, str, Any]) -> Callable[[Site], Asked]:
    return lambda _: list(requests)


BLUE = 'The text is "The index of the blue team is cold."'
FACETS = {"facets": True, "explain": True, "k": 50, "per_document": 0, "expand": "section"}
HISTORY = [{"question": "What does the blue team say of bluegamma?", "answer": "The index is cold [1]."}]
# what is asked of every operation; each must be here
PLAIN = (
    "/api/v1/changes /api/v1/documents /api/v1/documents/{id} /api/v1/insights.csv /document/{id} "
    "/changes /insights /livez /llms.txt /metrics /openapi.json /readyz /status /v1/models"
).split()
CASES: dict[str, Callable[[Site], Asked]] = {f"GET {path}": addresses(path) for path in PLAIN} | {
    "GET /": typed("/", "open=x", "meta.team=blue", "path=/"),
    "POST /api/v1/answer": asked("/api/v1/answer", history=HISTORY),
    "GET /api/v1/changes/{id}": simply(
        *(("GET", f"/api/v1/changes/1?collection={each}", None) for each in COLLECTIONS)
    ),
    "POST /api/v1/documents": simply(
        *(("POST", "/api/v1/documents", PUSHED | {"collection": each}) for each in COLLECTIONS[1:])
    ),
    "DELETE /api/v1/documents": simply(
        *(
            ("DELETE", f"/api/v1/documents?url=https://example.org/x&collection={each}", None)
            for each in COLLECTIONS[1:]
        )
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
    "POST /api/v1/verify": simply(
        *(
            ("POST", "/api/v1/verify", {"text": text, "collection": name})
            for name in COLLECTIONS
            for text in (f"{BLUE} It says bluegamma.", "“More, bluegamma”")
        )
    ),
    "POST /v1/embeddings": simply(("POST", "/v1/embeddings", {"input": "bluegamma", "model": "other"})),
    "GET /v1/models/{id}": simply(("GET", "/v1/models/none", None)),
    "POST /v1/rerank": simply(("POST", "/v1/rerank", {"query": "bluegamma", "documents": ["bluegamma"]})),
}


def calls(site: Site) -> Asked:
    """Return calls of every tool, with what models may give as arguments."""
    urls = [place(site, word).as_uri() for word in WORDS]
    given = [("search", {"query": query, "max_tokens": 500}) for query in QUERIES]
    given += [("search", {"query": "index rows", "collections": [name]}) for name in (*COLLECTIONS, "*")]
    given += [("search", {"query": "index", "filter": {"metadata": {"team": "blue"}}, "top_k": 50})]
    given += [("read", {"address": url, "cursor": cursor}) for url in urls for cursor in ("", "0", "7")]
    given += [("read", {"address": f"{url}#more-of-{word}"}) for url, word in zip(urls, WORDS, strict=True)]
    given += [("read", {"id": id}) for id in ids(site)]
    given += [("grep", {"pattern": each}) for each in ("blue", "(?i)SAYS .*", "More, bluegamma", "[", "", ".", "zzz")]
    given += [("grep", {"pattern": "team", "collections": [name]}) for name in COLLECTIONS]
    given += [("verify", {"text": f"{BLUE} of bluegamma.", "collections": [name]}) for name in COLLECTIONS]
    given += [("changes", {"since": since, "collections": [name]}) for since in ("", "30d") for name in COLLECTIONS]
    given += [("collections", {}), ("search", {"query": "index", "colour": "blue"}), ("bluegamma", {})]
    params = [{"name": name, "arguments": arguments} for name, arguments in given]
    return [("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": each}) for each in params]


CASES["POST /mcp"] = calls


def answers(one: World, requests: Asked) -> list[tuple[int, str]]:
    found = []
    for method, address, body in requests:
        headers = {"Accept": "application/json"} if re.match("/(api/v1/answer|mcp|changes)", address) else {}
        reply = one.client.open(address, method=method, json=body, headers=headers)
        found.append((reply.status_code, reply.get_data(as_text=True)))
    return found


def check(request: Any, text: str, hidden: list[str]) -> None:
    """Fail where an answer shows a document outside: its words, unless the request has them, its passages or its id."""
    sent = json.dumps(request)
    for found in (PASSAGE if HIDDEN.search(sent) else HIDDEN).finditer(text):
        pytest.fail(f"{request} is answered with {text[max(0, found.start() - 100) : found.end() + 100]}")
    assert not any(id in text and id not in sent for id in hidden), request


def test_every_operation_is_asked(sites: dict[bool, Site], tmp_path: Path) -> None:
    with world(sites[False], tmp_path, "read", Grant()) as one:
        paths = one.client.get("/openapi.json").json["paths"]  # type: ignore[index]  # it has a body
    methods = ("get", "post", "put", "patch", "delete")
    there = {f"{method.upper()} {path}" for path, each in paths.items() for method in each if method in methods}
    assert there == set(CASES)


@pytest.mark.parametrize("name", CALLERS)
def test_no_answer_shows_what_is_outside(sites: dict[bool, Site], tmp_path: Path, name: str) -> None:
    site = sites[name in LISTED]
    hidden = [id for id, word in zip(ids(site), WORDS, strict=True) if HIDDEN.match(word)]
    with fake_endpoint() as endpoint, asking(name, sites, tmp_path, answer_url=endpoint.url, answer_model="m") as one:
        endpoint.answers(f"The index of the red team is warm [1]. {BLUE}")
        found = {operation: answers(one, case(site)) for operation, case in CASES.items()}
        prompts = [asked["messages"] for asked in endpoint.requests]
    for operation, case in CASES.items():
        for request, (status, text) in zip(case(site), found[operation], strict=True):
            assert status != 500, request
            check(request, text, hidden)
    assert len(prompts) >= 4
    for prompt in prompts:
        check(HISTORY, json.dumps(prompt), hidden)
    told = [json.loads(text)["result"] for _, text in found["POST /mcp"]]
    assert {block["type"] for result in told for block in result["content"]} == {"text"}
    listed = next(each for each in (result["content"][0]["text"] for result in told) if each.count("default: "))
    assert f"default: {len(READS[name])} document" in listed
    assert "hidden" not in listed
    changes = json.loads(found["GET /changes"][0][1])
    assert len(changes["documents"]) == changes["counts"]["documents"] == len(READS[name])
    text = found["GET /api/v1/documents"][0][1]
    assert {word for word in WORDS if word in text} == READS[name]
    known = [status for status, _ in found["GET /api/v1/documents/{id}"]]
    assert known.count(200) == len(READS[name])
    assert known.count(404) == len(known) - len(READS[name])


def test_who_sees_everything_finds_it(sites: dict[bool, Site], tmp_path: Path) -> None:
    """Or the test above would show nothing."""
    with world(sites[False], tmp_path / "key", "read", Grant()) as one:
        texts = [text for _, text in answers(one, CASES["GET /api/v1/documents"](sites[False]))]
        assert {found.group().lower() for text in texts for found in HIDDEN.finditer(text)} == {
            "bluegamma",
            "bluedelta",
            "bluesecret",
        }
        assert '"did_you_mean":"bluegamma"' in one.client.get("/api/v1/search?q=bluegama").text.replace(" ", "")
        assert "bluegamma" in one.client.get("/api/v1/suggest?q=abo").text
        assert "bluedelta" in json.dumps(one.client.get("/api/v1/search?q=rows&facets=true").json["facets"])  # type: ignore[index]
    with asking("user", sites, tmp_path) as one:
        one.client.environ_base["HTTP_X_GROUPS"] = "operators"
        assert "bluegamma" in one.client.get("/api/v1/documents").text


def test_a_collection_whose_name_is_not_known_is_not_told(sites: dict[bool, Site], tmp_path: Path) -> None:
    with world(sites[False], tmp_path, "read", Grant(frozenset({"hidden"}))) as one:
        reply = one.client.get("/api/v1/search?q=index")
        assert reply.status_code == 404
        assert "there are: hidden" in reply.text
        assert [hit["title"] for hit in one.client.get("/api/v1/search?q=index&collection=hidden").json["hits"]]  # type: ignore[index]
        everybody = one.client.get("/readyz", headers={"Authorization": ""})
        assert everybody.status_code == 200
        assert everybody.json["collections"] == []  # type: ignore[index]
        assert "documents" not in everybody.json  # type: ignore[operator]


PAGE_PATHS = ("/", "/?q=a", "/?q=a&source=docs", "/?q=a&url_prefix=docs", "/?q=a&path=docs", "/status", "/document/x")


def test_pages_do_not_tell_which_collections_exist(sites: dict[bool, Site], tmp_path: Path) -> None:
    """A name of one that the caller may not see is answered like a name of none, byte for byte."""
    folder = sites[False].source.name
    with world(sites[False], tmp_path, "read", Grant(frozenset({"default"}))) as one:
        for path in (each.replace("docs", folder) for each in PAGE_PATHS):
            for more in ("collection=", "collections=default,"):
                url = f"{path}{'&' if '?' in path else '?'}{more}"
                replies = [one.client.get(url + name, headers={"Accept": "text/html"}) for name in ("hidden", "nowher")]
                hidden, nowhere = replies
                assert hidden.status_code == nowhere.status_code
                assert hidden.text == nowhere.text.replace("nowher", "hidden"), url


def test_who_writes_a_collection_writes_no_other(sites: dict[bool, Site], tmp_path: Path) -> None:
    with world(sites[False], tmp_path, "write", Grant(frozenset({"default"}))) as one:
        hidden = one.jobs.start("hidden")
        one.pushes.put(Push("https://example.org/x", "bluesecret", collection="hidden"))
        assert one.client.get("/api/v1/index").json == {"jobs": []}
        missing = one.client.get("/api/v1/index/20261121T000000-999999")
        for method in ("GET", "DELETE"):
            reply = one.client.open(f"/api/v1/index/{hidden['id']}", method=method)
            assert reply.status_code == 404
            assert reply.text.replace(hidden["id"], "20261121T000000-999999") == missing.text
        assert one.jobs.get(hidden["id"])["state"] == "running"
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
            assert all("not one that this caller may write" in reply.text for reply in replies)
        assert one.client.post("/api/v1/documents", json=PUSHED).status_code == 202
        assert len(one.pushes.queue("hidden")["changes"]) == 1


@pytest.mark.parametrize("part", [*KEYS.values(), Grant(readers=frozenset())])
def test_who_reads_a_part_of_a_collection_writes_nothing(tmp_path: Path, part: Grant) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    with pytest.raises(KeysError, match="a separate collection"):
        keys.add("writer", "write", grant=part)
    keys.add("writer", "read", grant=part)
    keys.path.write_text(keys.path.read_text().replace('"read"', '"write"'))
    with pytest.raises(KeysError, match="'writer' has limits and the role write"):
        keys.read()


CALLS: dict[str, Callable[[LiveRetriever], object]] = {  # each names what is outside a scope
    "describe": lambda view: view.describe("default"),
    "search": lambda view: view.search(SearchRequest("index")),
    "search of several": lambda view: view.search(SearchRequest("index", collections="default,hidden")),
    "search of all": lambda view: view.search(SearchRequest("index", collections="*")),
    "open_document": lambda view: view.open_document("x", "default"),
    "open_around": lambda view: view.open_around("x", "default"),
    "questions": lambda view: view.questions("default"),
    "suggest": lambda view: view.suggest("ind", "default"),
    "changes": lambda view: view.changes(None),
    "suggest nothing": lambda view: view.suggest("", "default"),
    "grep": lambda view: view.grep(lambda text: True, "default"),
    "overview": lambda view: view.overview("default"),
    "documents": lambda view: view.documents("default"),
}


def test_every_method_of_a_retriever_is_narrowed(sites: dict[bool, Site]) -> None:
    of_no_document = {
        "embed",
        "embed_queries",
        "rerank",
        "ready",
        "start",
        "close",
        "within",
        "follower",
        "scope",
        "checking_on_failure",
    }
    names = {name for name in dir(LiveRetriever) if not name.startswith("_")} - of_no_document - {"status"}
    assert names == {name.partition(" ")[0] for name in CALLS}
    settings = load({"index": str(sites[True].index)}, {})
    with closing(LiveRetriever(Follower(settings, lambda _: DummyEmbedder()))) as live:
        live.start()
        wait_for(lambda: live.ready)
        view = live.within(NOTHING)
        assert (view.status()["collections"], "documents" in view.status()) == ([], False)
        for name, call in CALLS.items():
            with pytest.raises(CollectionMissing, match="the index has none yet"):
                pytest.fail(f"{name} answered {call(view)}")
