"""The search page and the operator's of a server that is too busy, or that does not answer just anybody."""

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from rag.access import KeyFile
from rag.errors import DeadlinePassed
from rag.settings import Settings
from tests.browser.parts import assert_legible, box, echo, titles

pytestmark = pytest.mark.browser
PAGES = pytest.mark.parametrize("path", ["/?q=index", "/status"])


@pytest.fixture
def settings(request, tmp_path):
    return replace(getattr(request, "param", Settings()), keys=str(tmp_path / "keys.json"))


def is_said(page: Page, heading: str, path: str) -> None:
    """The heading is there, legible, on a small screen too, and what was asked is not lost."""
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.get_by_role("status")).not_to_be_empty()
    expect(box(page)).to_have_value("index" if "index" in path else "")
    assert_legible(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_too_busy_for_a_search(page, retriever):
    retriever.error = DeadlinePassed()
    page.goto("/?q=index")
    is_said(page, "Busy right now", "/?q=index")
    retriever.error, retriever.hits = None, echo
    expect(titles(page)).to_have_text("About index")


@PAGES
def test_a_key_is_needed(browser, server, settings, path):
    key = KeyFile(settings.keys_file).add("reader", "read")
    # without any, this browser would show its own dialogue
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": "guessed"})
    page = context.new_page()
    page.goto(path)
    is_said(page, "Key required", path)
    expect(page.locator("body")).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")  # its style sheet is public
    context.close()
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": key})
    page = context.new_page()
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_text("Partial Indexes")
    context.close()


@PAGES
def test_not_under_this_name(page, server, path):
    page.goto(server.replace("127.0.0.1", "docs.test") + path)
    is_said(page, "Not allowed", path)
    expect(page.get_by_text("This server only answers to names of this machine.")).to_be_visible()


def test_unreachable_server_can_be_tried_again(page, retriever):
    retriever.hits = echo
    page.goto("/")
    page.route("**/?q=*", lambda route: route.abort())
    box(page).fill("index")
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
    page.unroute("**/?q=*")
    page.get_by_role("button", name="Try again").click()
    expect(titles(page)).to_have_text("About index")
