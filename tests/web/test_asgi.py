"""The application behind ASGI, as replicas of Ray Serve run it."""

import asyncio
import threading

import httpx
import pytest

from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site
from web import asgi


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture
def settings(site, monkeypatch):
    monkeypatch.setattr("web.wsgi.retriever_of", lambda given: LiveRetriever(given, lambda _: DummyEmbedder()))
    return load({"index": str(site.index)}, {})


def ask(app, *requests):
    async def all_of_them():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await asyncio.gather(*(client.request(*request[:2], **dict(*request[2:])) for request in requests))

    return asyncio.run(all_of_them())


def test_the_application_answers_as_behind_wsgi(site, settings):
    site.build()
    app = asgi.application(settings)
    search = ("POST", "/api/v1/search", {"json": {"query": "dead tuples", "k": 1}})
    ready, found, page, wrong, *many = ask(
        app, ("GET", "/readyz"), search, ("GET", "/"), ("POST", "/api/v1/search", {"json": {"k": 1}}), *[search] * 20
    )
    assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert found.status_code == 200, found.text
    assert found.json()["hits"][0]["title"] == "Vacuum"
    assert "<html" in page.text
    assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/problem+json")
    assert {each.json()["hits"][0]["id"] for each in many} == {found.json()["hits"][0]["id"]}


def test_it_is_there_only_when_it_answers(site, settings):
    made = []
    thread = threading.Thread(target=lambda: made.append(asgi.application(settings)), daemon=True)
    thread.start()
    thread.join(0.3)
    assert made == []  # there is no index yet
    site.build()
    thread.join(60)
    [app] = made
    assert ask(app, ("GET", "/readyz"))[0].status_code == 200
