"""Legible for everybody: axe on every state in light and dark, small screens, the switch of colours."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.parts import assert_legible, box, echo, several
from tests.web.fakes import FakeRetriever, make_hit

pytestmark = pytest.mark.browser

LIGHT, DARK = "rgb(252, 251, 248)", "rgb(20, 20, 23)"


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def empty(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/")


def answered(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = lambda query: several(query) * 4
    page.goto("/?q=index")
    box(page).press("ArrowDown")


def opened(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(section_text="Before.\nA partial index is an index built over a subset of a table.")]
    page.goto("/?q=index&language=en&meta.team=core&mode=dense&open=chunk-1")
    expect(page.locator(".passage")).to_be_visible()


def nothing(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = []
    page.goto("/?q=zebra&language=en")


def waiting(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready = False
    page.goto("/?q=index")


def unbuilt(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready, retriever.missing = False, True
    page.goto("/")


def refused(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/?q=index&mode=nope")


def unreachable(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/")
    page.context.set_offline(True)
    box(page).fill("index")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def operator(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/?q=index")
    page.goto("/status")
    expect(page.get_by_role("heading", name="Throughput")).to_be_visible()


STATES = [empty, answered, opened, nothing, waiting, unbuilt, refused, unreachable, operator]


@pytest.mark.parametrize("reach", STATES, ids=lambda reach: reach.__name__)
def test_axe_finds_nothing_in_light_or_dark(
    page: Page, retriever: FakeRetriever, reach: Callable[[Page, FakeRetriever], None]
) -> None:
    reach(page, retriever)
    assert_legible(page)


UNBROKEN = "pg_" + "x" * 300


@pytest.mark.parametrize(
    "path", ["/", f"/?q=index&language=de&source={'x' * 300}", "/?q=index&open=chunk-1", "/nope", "/status"]
)
def test_nothing_is_wider_than_a_small_screen(page: Page, retriever: FakeRetriever, path: str) -> None:
    hit = make_hit(
        title=UNBROKEN,
        section=UNBROKEN,
        text=UNBROKEN * 3,
        section_text=UNBROKEN * 9,
        url=f"https://a.example/{UNBROKEN}/a",
        language="de",
        date="2026-03-04",
        scores={"dense": 0.7, "lexical": 123.4},
        duplicates=[f"https://a.example/{UNBROKEN}/2"],
    )
    retriever.hits = [hit, hit._replace(url=f"https://a.example/{UNBROKEN}y/b", id="chunk-2", language="en")]
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(path)
    for summary in page.get_by_text("Narrow", exact=True).all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_facets_are_open_where_there_is_room(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = several
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/?q=index")
    expect(page.get_by_role("link", name=re.compile("^Markdown"))).to_be_visible()
    page.set_viewport_size({"width": 600, "height": 800})
    expect(page.get_by_role("link", name=re.compile("^Markdown"))).not_to_be_visible()


def test_colours_follow_the_system_until_they_are_chosen(browser: Browser, server: str) -> None:
    context = browser.new_context(base_url=server, color_scheme="dark")
    page = context.new_page()
    page.goto("/")
    assert background(page) == DARK
    page.get_by_role("button", name="Colours: auto").click()
    assert background(page) == LIGHT
    page.goto("/status")
    assert background(page) == LIGHT
    page.get_by_role("button", name="Colours: light").click()
    page.emulate_media(color_scheme="light")
    assert background(page) == DARK
    page.get_by_role("button", name="Colours: dark").click()
    assert background(page) == LIGHT
    context.close()


def test_a_chosen_colour_is_there_at_the_first_paint(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.goto("/")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.route("**/page.js*", lambda route: route.abort())
    page.goto("/?q=index", wait_until="commit")
    expect(page.locator("body")).to_have_css("background-color", DARK)
