"""The search page and the operator's of a server that is too busy, or that does not answer just anybody."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from rag.errors import DeadlinePassed
from rag.serving.api_keys import KeyFile
from rag.settings import Settings
from tests.browser.parts import assert_legible, box, echo, titles
from tests.web.fakes import FakeRetriever
from tests.web.test_server import Running, until

pytestmark = pytest.mark.browser
LATE = replace(Settings(), deadline=0.0)  # every request has waited for too long
RARELY = replace(Settings(), rate_limit=0.01)
PAGES = pytest.mark.parametrize("path", ["/?q=index", "/status"])


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    return replace(getattr(request, "param", Settings()), keys=str(tmp_path / "keys.json"))


def is_said(page: Page, heading: str, path: str) -> None:
    """The heading is there, legible, on a small screen too, and what was asked is not lost."""
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.get_by_role("status")).not_to_be_empty()
    expect(box(page)).to_have_value("index" if "index" in path else "")
    assert_legible(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_too_busy_for_a_search(page: Page, retriever: FakeRetriever) -> None:
    retriever.error = DeadlinePassed()
    page.goto("/?q=index")
    is_said(page, "Busy right now", "/?q=index")
    retriever.error, retriever.hits = None, echo
    expect(titles(page)).to_have_text("About index")


@PAGES
@pytest.mark.parametrize("settings", [LATE], indirect=True)
def test_too_busy_for_any_page(page: Page, path: str) -> None:
    page.goto(path)
    is_said(page, "Not available right now", path)


def test_the_page_of_the_operator_comes_by_itself_once_there_is_time(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready = False
    waiting = page.goto("/?q=index")
    assert waiting is not None
    body = waiting.text()
    page.route("**/status", lambda route: route.fulfill(status=503, content_type="text/html", body=body))
    page.goto("/status")
    expect(page.get_by_role("heading", name="Not ready yet")).to_be_visible()
    page.unroute("**/status")
    expect(page.get_by_role("heading", name="Throughput")).to_be_visible()


def test_too_busy_to_look_at_a_request(browser: Browser, tmp_path: Path) -> None:
    server = Running(tmp_path, 1, 1)
    server.make_ready()
    context = browser.new_context(base_url=str(server.http.base_url))
    page = context.new_page()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.http.get, "/api/v1/search?q=wait")
        until(lambda: server.waiting() == 1)
        page.goto("/?q=index")
        is_said(page, "Not available right now", "/?q=index")
        (tmp_path / "go-on").touch()
        assert waiting.result().status_code == 200
    expect(titles(page).first).to_be_visible()
    context.close()
    assert server.stop() == (0, "")


def test_too_busy_to_make_a_page(page: Page, retriever: FakeRetriever) -> None:

    def refuse(route: Route) -> None:
        route.fulfill(status=503, content_type="application/problem+json", body="{}")

    retriever.hits = echo
    page.goto("/")
    page.route("**/?q=*", refuse)
    box(page).fill("index")
    is_said(page, "Busy right now", "/?q=index")
    page.unroute("**/?q=*")
    expect(titles(page)).to_have_text("About index")


@PAGES
def test_a_key_is_needed(browser: Browser, server: str, settings: Settings, path: str) -> None:
    KeyFile(settings.keys_file).add("reader", "read")
    # without any, this browser would show its own dialogue
    credentials = {"username": "anybody", "password": "guessed"}
    context = browser.new_context(base_url=server, http_credentials=credentials)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path)
    is_said(page, "Key required", path)
    context.close()


@PAGES
def test_not_under_this_name(page: Page, server: str, path: str) -> None:
    page.goto(server.replace("127.0.0.1", "docs.test") + path)
    is_said(page, "Not allowed", path)
    expect(page.get_by_text("This server only answers to names of this machine.")).to_be_visible()


@PAGES
@pytest.mark.parametrize("settings", [RARELY], indirect=True)
def test_too_often(page: Page, path: str) -> None:
    page.goto("/")
    page.goto(path)
    is_said(page, "Too many requests", path)
    expect(page.get_by_role("link", name="Try again")).to_be_visible()
