"""The search page in a real browser, with a retriever whose answers the test decides."""

import re
import threading

import pytest
from playwright.sync_api import expect

from rag.query.results import Hit, Suggestion
from tests.browser.parts import EVIL, LONG, assert_legible, box, echo, titles
from tests.web.fakes import make_hit

pytestmark = pytest.mark.browser


def test_results_come_while_typing(page, retriever):
    retriever.hits = echo
    page.goto("/")
    expect(box(page)).to_be_focused()
    expect(page.get_by_text("1,170")).to_be_visible()
    page.keyboard.type("partial index")
    expect(titles(page)).to_have_text("About partial index")
    expect(page.locator("mark")).to_have_text(["partial", "index"])
    expect(page.get_by_role("status")).to_have_text("1 passage on 1 page")
    expect(page).to_have_title("partial index – Pilotlight")
    expect(page).to_have_url(re.compile(r"/\?q=partial\+index$"))
    assert len(retriever.calls) < len("partial index")


def test_the_address_can_be_shared_and_back_works(page, retriever):
    retriever.hits = echo
    page.goto("/")
    box(page).fill("first")
    box(page).press("Enter")
    expect(titles(page)).to_have_text("About first")
    box(page).fill("second")
    expect(titles(page)).to_have_text("About second")
    page.go_back()
    expect(titles(page)).to_have_text("About first")
    expect(box(page)).to_have_value("first")
    page.go_back()
    expect(page.get_by_text("Ask in your own words")).to_be_visible()
    page.go_forward()
    expect(titles(page)).to_have_text("About first")
    page.reload()
    expect(titles(page)).to_have_text("About first")
    expect(box(page)).to_have_value("first")


def test_collections_are_ticked(page, retriever):
    page.goto("/?q=index")
    expect(page.get_by_label("default")).to_be_checked()
    page.get_by_text("notes", exact=True).click()
    expect(page).to_have_url(re.compile(r"\?q=index&collections=default&collections=notes$"))
    page.get_by_text("default", exact=True).click()
    expect(page).to_have_url(re.compile(r"\?q=index&collections=notes$"))
    page.wait_for_load_state("networkidle")
    assert [each.collections for each in retriever.requests] == [None, "default,notes", "notes"]
    page.go_back()
    expect(page.get_by_label("default")).to_be_checked()
    expect(page.get_by_label("notes")).to_be_checked()


def test_a_late_answer_does_not_replace_a_newer_one(page, retriever):
    started, release = threading.Event(), threading.Event()

    def answer(query: str) -> list[Hit]:
        if query == "slow":
            started.set()
            release.wait(20)
        return echo(query)

    retriever.hits = answer
    page.goto("/")
    box(page).fill("slow")
    expect(page.locator("form")).to_have_attribute("aria-busy", "true")
    assert started.wait(10)
    box(page).fill("fast")
    expect(titles(page)).to_have_text("About fast")
    release.set()
    page.wait_for_load_state("networkidle")
    expect(titles(page)).to_have_text("About fast")
    expect(page.locator("form")).not_to_have_attribute("aria-busy", "true")
    expect(page).to_have_url(re.compile(r"\?q=fast$"))


def test_without_javascript(plain_page, retriever):
    retriever.hits = lambda query: [
        make_hit(title=f"About {query}", text=LONG, highlights=[], section_text="All of the section.")
    ]
    plain_page.goto("/")
    box(plain_page).fill("partial index")
    plain_page.get_by_role("button", name="Search").click()
    expect(titles(plain_page)).to_have_text("About partial index")
    expect(box(plain_page)).to_have_value("partial index")
    expect(plain_page).to_have_url(re.compile(r"/\?q=partial\+index&mode=hybrid&collections=default$"))
    plain_page.get_by_role("link", name="Read the section").click()
    expect(plain_page.locator(".whole")).to_have_text("All of the section.")
    plain_page.get_by_role("link", name="Show less").click()
    expect(plain_page.locator(".text")).to_contain_text("Words before.")
    expect(plain_page.get_by_role("button", name=re.compile("Copy|Theme"))).to_have_count(0)


def test_nothing_is_asked_of_other_hosts(page, server):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_count(1)
    assert len(asked) >= 4
    assert all(url.startswith(server) for url in asked)


@pytest.fixture
def suggesting(retriever):
    retriever.hits = echo
    names = ("Partial Indexes", "Partial updates", f"partial {EVIL}")
    retriever.suggestions = [Suggestion(name, "title") for name in names]


@pytest.mark.usefixtures("suggesting")
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
