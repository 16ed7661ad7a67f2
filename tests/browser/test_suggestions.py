"""What is suggested while somebody types, what was probably meant, and words that stay where they were."""

import re

import pytest
from playwright.sync_api import Page, expect

from rag.query.results import Suggestion
from tests.browser.parts import EVIL, assert_legible, box, echo, titles
from tests.web.fakes import FakeRetriever

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def suggesting(retriever: FakeRetriever) -> None:
    retriever.hits = echo
    names = ("Partial Indexes", "Partial updates", f"partial {EVIL}")
    retriever.suggestions = [Suggestion(name, "title") for name in names]


def test_a_suggestion_is_chosen_by_keys_and_searched_for(page: Page, retriever: FakeRetriever) -> None:
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


def test_hits_follow_the_suggestions_and_escape_closes_these(page: Page) -> None:
    page.goto("/")
    options = page.locator("#suggestions").get_by_role("option")
    box(page).press_sequentially("updates")
    expect(options).to_have_count(1)
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(box(page)).to_have_value("updates")
    expect(box(page)).to_have_attribute("aria-controls", "hits")
    box(page).press_sequentially(" ")
    page.keyboard.press("Backspace")
    expect(options).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(options).to_have_count(0)
    expect(page.locator(".hit")).to_have_attribute("aria-selected", "true")
    expect(box(page)).to_have_attribute("aria-activedescendant", "hit-1")
    page.keyboard.press("Escape")
    box(page).fill("partial")
    options.nth(2).click()  # whatever it says is text
    expect(box(page)).to_have_value(f"partial {EVIL}")
    assert page.evaluate("window.hacked") is None


def test_what_was_meant_is_a_link(page: Page, plain_page: Page, retriever: FakeRetriever) -> None:
    retriever.did_you_mean = "vacuum & co"
    for each in (page, plain_page):
        each.goto("/?q=vacum&language=en")
        link = each.get_by_role("link", name="vacuum & co")
        expect(link).to_have_attribute("href", "/?q=vacuum+%26+co&language=en")
    page.get_by_role("link", name="vacuum & co").click()
    expect(box(page)).to_have_value("vacuum & co")
    expect(titles(page)).to_have_text("About vacuum & co")


def test_words_that_are_too_many_for_an_address_are_there_again(page: Page) -> None:
    long = "long words " * 800
    page.goto("/?q=first")
    box(page).fill(long)
    expect(titles(page)).to_contain_text("About long words")
    box(page).press("Enter")  # what is there already, and no further step back
    expect(titles(page)).to_contain_text("About long words")
    page.reload()
    expect(box(page)).to_have_value(long.strip())
    expect(titles(page)).to_contain_text("About long words")
    page.go_back()
    expect(box(page)).to_have_value("first")
    expect(titles(page)).to_have_text("About first")  # or the words looked for below are still those of before
    page.go_forward()
    expect(box(page)).to_have_value(long.strip())
    expect(titles(page)).to_contain_text("About long words")
    box(page).fill("short")
    expect(page).to_have_url(re.compile("q=short"))
    page.reload()
    expect(box(page)).to_have_value("short")
