"""Legible for everybody: axe on every state in light and dark, small screens, the switch of colours."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from indexer.records import TextBlock
from tests.browser.parts import assert_legible, box, several
from tests.web.fakes import CODE, FakeRetriever, make_hit

pytestmark = pytest.mark.browser

LIGHT, DARK = "rgb(252, 251, 248)", "rgb(20, 20, 23)"


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


Reach = Callable[[Page, FakeRetriever], None]


def empty(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/")


def answered(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = lambda query: several(query) * 4
    page.goto("/?q=index")
    box(page).press("ArrowDown")


def waiting(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready = False
    page.goto("/?q=index")


def unbuilt(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready, retriever.missing = False, True
    page.goto("/")


def operator(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/status")


def far(page: Page, retriever: FakeRetriever) -> None:
    retriever.is_close = False
    page.goto("/?q=banana+bread&explain=true")
    expect(page.get_by_role("heading", name="Nothing close")).to_be_visible()


def explained(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = several
    page.goto("/?q=index&explain=true")
    page.get_by_text("Why this hit").first.click()
    expect(page.get_by_text("Meaning").first).to_be_visible()


def reading(page: Page, retriever: FakeRetriever) -> None:
    hit = make_hit(
        url="file:///srv/a.md", text=CODE, blocks=[TextBlock(CODE.index("CREATE"), CODE.index("\n\nAnd"), "code")]
    )
    retriever.hits = [hit]
    page.goto(f"/document/{hit.document}?passage=chunk-1&q=x")
    expect(page.locator("#passage pre")).to_be_visible()


LOOKS: list[Reach] = [empty, answered, far, explained, reading, waiting, unbuilt, operator]
SIZES = ((1280, 900), (768, 1024), (390, 844))
# what leaves the screen, or is cut off though it neither scrolls nor ends in an ellipsis
FAULTS = """() => {
  const faults = [];
  const scrolls = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element), place = element.getBoundingClientRect();
    const unseen = element.closest(".unseen") || style.clipPath !== "none" || !element.checkVisibility();
    if (unseen || !place.width || element.parentElement.closest("svg, select")) continue;
    let above = element.parentElement;
    while (above && !scrolls(above)) above = above.parentElement;
    const name = element.outerHTML.slice(0, 120);
    if (!above && (place.right > innerWidth + 1 || place.left < -1)) faults.push(`off the screen: ${name}`);
    const is_cut = element.scrollWidth > element.clientWidth + 1 && ["hidden", "clip"].includes(style.overflowX);
    if (is_cut && style.textOverflow !== "ellipsis") faults.push(`cut off: ${name}`);
  }
  return faults;
}"""


@pytest.mark.parametrize("reach", LOOKS, ids=lambda reach: reach.__name__)
def test_axe_finds_nothing_in_light_or_dark_and_it_fits_on_every_screen(page, retriever, reach):
    reach(page, retriever)
    assert_legible(page)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate(FAULTS) == [], width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_follow_the_system_until_they_are_chosen(browser, server):
    context = browser.new_context(base_url=server, color_scheme="dark")
    page = context.new_page()
    page.goto("/")
    assert background(page) == DARK
    page.get_by_role("button", name="Theme: auto").click()
    assert background(page) == LIGHT
    page.goto("/status")
    assert background(page) == LIGHT
    page.get_by_role("button", name="Theme: light").click()
    page.emulate_media(color_scheme="light")
    assert background(page) == DARK
    page.get_by_role("button", name="Theme: dark").click()
    assert background(page) == LIGHT
    context.close()
