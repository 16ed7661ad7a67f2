"""Users and documents with access lists: as `test_leaks`, by whoever says who asks; and the tools of MCP with each."""

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from indexer.generation.catalogue import document_id
from rag.client.client import Client
from rag.serving.scope import Scope, reader_names
from tests.rag.conftest import Site
from tests.security.test_leaks import (
    CASES,
    COLLECTIONS,
    HIDDEN,
    KEY,
    PAGES,
    QUERIES,
    RED,
    World,
    answers,
    both,
    ids,
    steady,
    world,
)

RULES = """
[[access]]
everybody = true
collections = ["default", "nowhere"]

[[access]]
group = "operators"
everything = true
"""
SEEN = Scope.of(["default", "nowhere"])
OF_RED = {"user by a proxy", "user below a filter", "key of a group"}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Site]:
    """Both indexes, of documents with access lists, and of one without."""
    return both(tmp_path_factory.mktemp("listed"), lists=True)


@contextmanager
def asking(who: str, site: Site, folder: Path) -> Iterator[World]:
    """A server, and a client that asks it in the name of somebody."""
    folder.mkdir(exist_ok=True)
    rules = folder / "pilotlight.toml"
    rules.write_text(RULES)
    proxy = {
        "access_file": str(rules),
        "user_header": "X-User",
        "groups_header": "X-Groups",
        "user_proxies": "127.0.0.1",
    }
    headers, scope, settings = {"HTTP_AUTHORIZATION": f"Bearer {KEY}"}, SEEN, {}
    if who.startswith("user"):
        settings, headers = proxy | {"user_proxies": "127.0.0.1"}, {"HTTP_X_USER": "ann", "HTTP_X_GROUPS": "red, other"}
        if who == "user below a filter":
            rules.write_text(RULES.replace("\n\n", "\nfilter = { metadata = { team = ['red', 'none'] } }\n\n", 1))
        elif who == "user of no group":
            headers = {"HTTP_X_USER": "eve"}
    elif who == "key of a group":
        scope = Scope(SEEN.parts, reader_names(["ann"], ["red"]))
    elif who == "key below a filter":
        scope = Scope.of(["default", "nowhere"], [RED])
    elif who == "nobody":
        settings, headers = {"anonymous": "read"}, {}
    with world(site, folder, "read", scope, **settings) as one:
        del one.client.environ_base["HTTP_AUTHORIZATION"]
        one.client.environ_base |= headers
        yield one


CALLERS = (*sorted(OF_RED), "user of no group", "key below a filter")


@pytest.mark.parametrize("who", CALLERS)
def test_what_others_may_read_changes_no_answer(sites: tuple[Site, Site], tmp_path: Path, who: str) -> None:
    found = []
    for place, site in enumerate(sites):
        with asking(who, site, tmp_path / str(place)) as one:
            found.append({operation: answers(one, case(sites[0])) for operation, case in CASES.items()})
    statuses = {status for each in found[0].values() for status, _ in each}
    assert {200, 404, 403} <= statuses
    assert not statuses & {401, 500, 503}
    for operation, case in CASES.items():
        for request, with_others, alone in zip(case(sites[0]), *(each[operation] for each in found), strict=True):
            assert with_others == alone, request
    text = found[0]["GET /api/v1/documents"][0][1]
    seen = {word for word in ("redalpha", "redbeta", "bothomega", "openpage") if word in text}
    assert seen == expected(who)


def expected(who: str) -> set[str]:
    if who == "key below a filter":  # all that it allows has a list, in which the key is not
        return set()
    return {"redalpha", "redbeta", "bothomega", "openpage"} if who in OF_RED else {"openpage"}


def test_whoever_has_no_key_sees_what_has_no_list(sites: tuple[Site, Site], tmp_path: Path) -> None:
    """Of the collections all is told but what is in documents with a list, and how many there are."""
    with asking("nobody", sites[0], tmp_path) as one:
        texts = [text for operation in CASES for _, text in answers(one, CASES[operation](sites[0])) if text]
        assert any("openpage" in text for text in texts)
        shown = re.compile(r"(red(alpha|beta)|bothomega|blue(gamma|delta))(?!\w*\.md)", re.IGNORECASE)
        asked = {"bluegamma", "bluegama"}  # which stand in what was asked
        assert {hit.lower() for text in texts for hit in map(str, shown.findall(text)) if hit.lower() not in asked} <= {
            str(each).lower() for text in QUERIES for each in shown.findall(text)
        }
        assert one.client.get("/status").status_code == 403
        assert "documents" not in one.client.get("/readyz").json  # type: ignore[operator]


def test_an_operator_sees_all(sites: tuple[Site, Site], tmp_path: Path) -> None:
    """Or the tests above would show nothing."""
    for who, headers in {"user by a proxy": {"HTTP_X_GROUPS": "operators"}, "key": {}}.items():
        with asking(who, sites[0], tmp_path / who.replace(" ", "-")) as one:
            one.client.environ_base |= headers
            text = one.client.get("/api/v1/documents").text
            assert {found.group().lower() for found in HIDDEN.finditer(text)} == {"bluegamma", "bluedelta"}


# MCP: what is asked of every tool; each must be here
TOOLS: dict[str, Callable[[Site], list[dict[str, Any]]]] = {
    "search": lambda _: (
        [{"query": query, "collection": name, "explain": True, "k": 50} for query in QUERIES for name in COLLECTIONS]
        + [{"query": "index", "filter": {"metadata": {"team": "blue"}}}, {"query": "index", "mode": "lexical"}]
    ),
    "read_document": lambda site: [
        {"document": document, "collection": name}
        for word in [word for pages in PAGES.values() for word in pages] + ["openpage", "nothing"]
        for document in ((site.source / f"{word}.md").as_uri(), document_id((site.source / f"{word}.md").as_uri()))
        for name in COLLECTIONS
    ],
}


def served(one: World) -> Any:
    """The MCP server over a client of a server, as `pilotlight mcp --server` makes it, in the name of its caller."""
    from rag.adapters.mcp import make_server

    client = Client("http://127.0.0.1")
    headers = {
        name[5:].replace("_", "-"): value for name, value in one.client.environ_base.items() if name[:5] == "HTTP_"
    }
    client._transport._http = httpx.Client(transport=httpx.WSGITransport(app=one.client.application), headers=headers)
    return make_server(client)


def told(server: Any, work: Callable[[Any], Awaitable[Any]]) -> Any:
    from mcp import Client as Caller

    async def ask() -> Any:
        with anyio.fail_after(60):
            async with Caller(server) as caller:
                return await work(caller)

    return anyio.run(ask)


def without_scores(result: Any) -> str:
    return steady(re.sub(r"[0-9]+\.[0-9]+", "0", result.model_dump_json()))  # as scores of words count all documents


def tool_answers(one: World, asked: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    async def ask(caller: Any) -> dict[str, list[str]]:
        return {
            tool: [without_scores(await caller.call_tool(tool, each)) for each in arguments]
            for tool, arguments in asked.items()
        }

    found: dict[str, list[str]] = told(served(one), ask)
    return found


def test_every_tool_is_asked(sites: tuple[Site, Site], tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    with asking("key", sites[0], tmp_path) as one:
        listed = told(served(one), lambda caller: caller.list_tools())
    assert {tool.name for tool in listed.tools} == set(TOOLS)


@pytest.mark.parametrize("who", CALLERS)
def test_what_others_may_read_changes_no_answer_of_a_tool(sites: tuple[Site, Site], tmp_path: Path, who: str) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    asked = {tool: case(sites[0]) for tool, case in TOOLS.items()}
    found = []
    for place, site in enumerate(sites):
        with asking(who, site, tmp_path / str(place)) as one:
            found.append(tool_answers(one, asked))
    for tool, arguments in asked.items():
        for each, with_others, alone in zip(arguments, *(answered[tool] for answered in found), strict=True):
            assert with_others == alone, each
    assert ("redalpha" in found[0]["search"][0]) == ("redalpha" in expected(who))
    assert ("openpage" in found[0]["search"][0]) == ("openpage" in expected(who))


def test_ids_are_those_of_the_documents(sites: tuple[Site, Site]) -> None:
    assert len(set(ids(sites[0]))) == 8
