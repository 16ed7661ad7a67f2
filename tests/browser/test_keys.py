"""The search page of a server that asks for a key."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rag.serving.api_keys import KeyFile
from rag.settings import Settings
from tests.browser.parts import box, echo, titles
from tests.web.fakes import FakeRetriever

pytestmark = pytest.mark.browser


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(keys=str(tmp_path / "keys.json"))


@pytest.fixture
def key(settings: Settings) -> str:
    return KeyFile(settings.keys_file).add("reader", "read")


def test_a_reader_with_a_key_searches(browser: Browser, key: str, server: str, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": key})
    page = context.new_page()
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_text("About index")
    context.close()


def test_without_a_key_the_page_says_what_to_do(browser: Browser, key: str, server: str) -> None:
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": "guessed"})
    page = context.new_page()
    page.goto("/?q=index")
    expect(page.get_by_role("heading", name="Key required")).to_be_visible()
    expect(page.locator("body")).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")  # its style sheet is public
    context.close()
