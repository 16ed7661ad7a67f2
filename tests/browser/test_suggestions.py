"""What is suggested while somebody types, what was probably meant, and words that stay where they were."""

import re

import pytest
from playwright.sync_api import expect

from rag.query.results import Suggestion
from tests.browser.parts import EVIL, assert_legible, box, echo, titles

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def suggesting(retriever):
    retriever.hits = echo
    names = ("Partial Indexes", "Partial updates", f"partial {EVIL}")
    retriever.suggestions = [Suggestion(name, "title") for name in names]


def test_a_suggestion_is_chosen_by_keys_and_searched_for(page, retriever):
    page.goto("/?language=en")
    options = page.locator("#suggestions").get_by_role("option")
    box(page).press_sequentially("partia")
    expect(options).to_have_text(["Partial Indexes", "Partial updates", f"partial {EVIL}"])
    expect(titles(page)).to_have_text("About partia")
    assert retriever.typed[-1][2].language == ("en",)
    for name, value in (("aria-controls", "suggestions"), ("aria-expanded", "true"), ("aria-haspopup", "listbox")):
        expect(box(page)).to_have_attribute(name, value)
    assert_legible(page)
    place = titles(page).bounding_box()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(box(page)).to_have_attribute("aria-activedescendant", "suggestion-1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value("Partial Indexes")
    expect(titles(page)).to_have_text("About Partial Indexes")
    expect(options).to_have_count(0)
    assert titles(page).bounding_box() == place  # nothing has moved for the list
    expect(page).to_have_url(re.compile(r"q=Partial\+Indexes&language=en"))
    page.go_back()
    expect(box(page)).to_have_value("")


def test_what_was_meant_is_a_link(page, plain_page, retriever):
    retriever.did_you_mean = "vacuum & co"
    for each in (page, plain_page):
        each.goto("/?q=vacum&language=en")
        link = each.get_by_role("link", name="vacuum & co")
        expect(link).to_have_attribute("href", "/?q=vacuum+%26+co&language=en")
    page.get_by_role("link", name="vacuum & co").click()
    expect(box(page)).to_have_value("vacuum & co")
    expect(titles(page)).to_have_text("About vacuum & co")
