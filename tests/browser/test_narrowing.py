"""Modes and filters of the search page in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from rag.query.request import Filter
from tests.browser.parts import box, echo, several, titles

pytestmark = pytest.mark.browser


def test_mode_is_switched_at_once_and_back_works(page, retriever):
    page.goto("/?q=index")
    page.locator("fieldset").get_by_text("Meaning").click()
    expect(page).to_have_url(re.compile(r"/\?q=index&mode=dense$"))
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile(r"/\?q=index&mode=lexical$"))
    expect(page.get_by_role("radio", name="Words")).to_be_checked()
    page.go_back()
    expect(page.get_by_role("radio", name="Meaning")).to_be_checked()
    page.go_back()
    expect(page.get_by_role("radio", name="Best match")).to_be_checked()
    expect(page).to_have_url(re.compile(r"/\?q=index$"))


def test_filters_stay_while_typing_until_removed(page, retriever):
    retriever.hits = echo
    page.goto("/?language=en&meta.team=core")
    box(page).fill("first")
    expect(titles(page)).to_have_text("About first")
    expect(page.get_by_text("team core")).to_be_visible()
    page.get_by_role("link", name="Remove team core").click()
    expect(titles(page)).to_have_text("About first")
    expect(page.get_by_text("team core")).not_to_be_visible()
    box(page).fill("second")
    expect(titles(page)).to_have_text("About second")
    expect(page).to_have_url(re.compile(r"/\?q=second&language=en$"))
    assert retriever.requests[-1].filter == Filter.parse({"language": "en"})
    page.go_back()
    page.go_back()
    expect(page.get_by_text("team core")).to_be_visible()
    expect(titles(page)).to_have_text("About first")


def test_mode_and_filter_without_javascript(plain_page, retriever):
    plain_page.goto("/?language=en&path=/guide")
    box(plain_page).fill("index")
    plain_page.locator("fieldset").get_by_text("Words").click()
    plain_page.get_by_role("button", name="Search").click()
    expect(titles(plain_page)).to_have_count(1)
    plain_page.get_by_role("link", name="Remove folder /guide").click()
    expect(plain_page.get_by_role("radio", name="Words")).to_be_checked()
    assert retriever.calls == [("index", 10, "lexical")] * 2
    assert [request.filter for request in retriever.requests] == [
        Filter.parse({"language": "en", "path": "/guide"}),
        Filter.parse({"language": "en"}),
    ]


def test_facets_narrow_and_the_focus_is_not_lost(page, retriever):
    retriever.hits = several
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/?q=index")
    page.get_by_role("link", name=re.compile("^de 1")).press("Enter")
    expect(page).to_have_url(re.compile(r"\?q=index&language=de$"))
    expect(page.get_by_role("link", name="Remove language de")).to_be_focused()
    assert retriever.requests[-1].filter == Filter.parse({"language": "de"})
    expect(page.get_by_role("heading", name="Language")).to_have_count(0)
    page.get_by_role("link", name=re.compile("blog")).click()
    expect(page).to_have_url(re.compile(r"\?q=index&language=de&path=%2Fblog$"))
    page.go_back()
    page.go_back()
    expect(page.get_by_role("heading", name="Language")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?q=index$"))
