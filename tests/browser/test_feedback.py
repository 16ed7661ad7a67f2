"""What the page and the search box tell of hits, where the server keeps what people ask; and what its operator sees."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.parts import box
from tests.web.api.test_search import Kept
from tests.web.fakes import make_hit
from tests.web.running import running

pytestmark = pytest.mark.browser


@pytest.fixture
def kept(tmp_path):
    found = Kept(tmp_path, anonymous="read", keys=str(tmp_path / "keys.json"))
    found.retriever.hits = [
        make_hit(rank, url=f"https://docs.example/{rank}", section_text="A whole section.") for rank in (1, 2, 3)
    ]
    return found


@pytest.fixture
def server(kept):
    with running(kept.app) as url:
        yield url
    kept.recorder.close()


def shown(page: Page) -> str:
    """Return the id of the search whose hits are shown."""
    expect(page.locator(".judge").first).to_be_visible()
    return str(page.locator("#results").get_attribute("data-search"))


def test_thumbs_by_keyboard(page, kept):
    page.goto("/?q=index")
    good = page.get_by_role("button", name="This answers it: passage 2")
    expect(good).to_have_attribute("aria-pressed", "false")
    good.focus()
    with page.expect_response("**/api/v1/feedback"):
        page.keyboard.press("Enter")
    expect(good).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("status")).to_have_text("Marked as an answer")
    bad = page.get_by_role("button", name="This does not answer it: passage 2")
    with page.expect_response("**/api/v1/feedback"):
        bad.click()
    expect(good).to_have_attribute("aria-pressed", "false")
    expect(bad).to_have_attribute("aria-pressed", "true")
    first = page.get_by_role("button", name="This answers it: passage 1")
    for said in ("Marked as an answer", "No longer marked"):
        with page.expect_response("**/api/v1/feedback"):
            first.click()
        expect(page.get_by_role("status")).to_have_text(said)
    found = kept.rows("SELECT passage, verdict FROM hits WHERE verdict ORDER BY passage")
    assert found == [("chunk-2", -1)]


def test_a_search_counts_once_it_was_looked_at(page, kept):
    page.goto("/")
    with page.expect_response("**/api/v1/feedback"):
        box(page).fill("vacuum")
    assert kept.rows("SELECT query, seen FROM searches") == [("vacuum", 1)]
