"""What the page and the search box tell of hits, where the server keeps what people ask; and what its operator sees."""

import pytest
from flask import Flask
from playwright.sync_api import Page, expect

from rag.serving.api_keys import KeyFile
from tests.browser.parts import box
from tests.rag.conftest import wait_for
from tests.web.api.test_feedback import Kept
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


def test_the_box_of_another_site_tells_what_is_opened(browser, server, kept, tmp_path):
    site = Flask("site")
    with running(site) as address:
        key = KeyFile(tmp_path / "keys.json").add("box", "read", origins=(address,))
        tag = f'<script src="{server}/embed.js" data-key="{key}" defer></script>'
        site.add_url_rule("/", view_func=lambda: f'<!doctype html><html lang="en"><title>A site</title><body>{tag}')
        context = browser.new_context()
        context.route("https://docs.example/**", lambda route: route.fulfill(body="the page"))
        page = context.new_page()
        page.goto(address)
        page.locator("pilotlight-search").get_by_role("button", name="Search").click()
        page.get_by_role("combobox").fill("index")
        page.get_by_role("option", name="Partial Indexes").nth(2).click()
        page.wait_for_url("https://docs.example/3")
        wait_for(lambda: "opened" in kept.told)  # which the box sends while its page is left
        context.close()
    found = kept.rows("SELECT query, via, seen, passage FROM searches JOIN hits ON search = id WHERE opened")
    assert found == [("index", "box", 1, "chunk-3")]
