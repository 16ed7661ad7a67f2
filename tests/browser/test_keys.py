"""The search page of a server that asks for a key."""

import pytest
from playwright.sync_api import expect

from rag.serving.api_keys import KeyFile
from rag.settings import Settings
from tests.browser.parts import box, echo, titles

pytestmark = pytest.mark.browser


@pytest.fixture
def settings(tmp_path):
    return Settings(keys=str(tmp_path / "keys.json"))


@pytest.fixture
def key(settings):
    return KeyFile(settings.keys_file).add("reader", "read")


def test_a_reader_with_a_key_searches(browser, key, server, retriever):
    retriever.hits = echo
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": key})
    page = context.new_page()
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_text("About index")
    context.close()


def test_without_a_key_the_page_says_what_to_do(browser, key, server):
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": "guessed"})
    page = context.new_page()
    page.goto("/?q=index")
    expect(page.get_by_role("heading", name="Key required")).to_be_visible()
    expect(page.locator("body")).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")  # its style sheet is public
    context.close()
