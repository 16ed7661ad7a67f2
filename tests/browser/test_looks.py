"""Legible for everybody: axe on every state in light and dark, small screens, the switch of colours."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from rag.settings import Settings
from tests.browser.looks import LOOKS, Reach
from tests.browser.parts import assert_legible, box, echo, several
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.running import running
from web.app import create_app

pytestmark = pytest.mark.browser

LIGHT, DARK = "rgb(252, 251, 248)", "rgb(20, 20, 23)"


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize("reach", LOOKS, ids=lambda reach: reach.__name__)
def test_axe_finds_nothing_in_light_or_dark(page: Page, retriever: FakeRetriever, reach: Reach) -> None:
    reach(page, retriever)
    assert_legible(page)


UNBROKEN = "pg_" + "x" * 300


@pytest.mark.parametrize(
    "path",
    [
        f"/document/{'0' * 31}1?passage=chunk-1",
        "/",
        f"/?q=index&language=de&source={'x' * 300}",
        "/?q=index&open=chunk-1",
        "/nope",
        "/status",
    ],
)
def test_nothing_is_wider_than_a_small_screen(page: Page, retriever: FakeRetriever, path: str) -> None:
    hit = make_hit(
        title=UNBROKEN,
        section=UNBROKEN,
        text=UNBROKEN * 3,
        section_text=UNBROKEN * 9,
        url=f"https://a.example/{UNBROKEN}/a",
        document=f"{'0' * 31}1",
        more=12,
        language="de",
        date="2026-03-04",
        scores={"dense": 0.7, "lexical": 123.4},
        duplicates=[f"https://a.example/{UNBROKEN}/2"],
    )
    retriever.hits = [hit, replace(hit, url=f"https://a.example/{UNBROKEN}y/b", id="chunk-2", language="en")]
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


def test_hints_for_keys_are_not_for_phones(browser: Browser, server: str) -> None:
    for width, touch, seen in ((1280, False, True), (390, False, False), (1280, True, False)):
        context = browser.new_context(
            base_url=server, viewport={"width": width, "height": 800}, has_touch=touch, is_mobile=touch
        )
        page = context.new_page()
        page.goto("/")
        assert page.get_by_text("to choose").is_visible() is seen, (width, touch)
        context.close()


def test_the_start_page_stands_in_the_middle(page: Page, retriever: FakeRetriever) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/")
    for part in (page.locator("#search"), page.get_by_role("list", name="For example")):
        place = part.bounding_box()
        assert place is not None
        assert abs(place["x"] + place["width"] / 2 - 640) < 10
    page.get_by_role("link", name="How is a table made?").click()
    expect(box(page)).to_have_value("How is a table made?")
    expect(page.get_by_role("status")).to_have_text("1 passage on 1 page")


def test_a_brand_takes_the_place_of_ours(browser: Browser, tmp_path: Path) -> None:
    logo = tmp_path / "logo.svg"
    logo.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><rect width="30" height="20"/></svg>'
    )
    settings = Settings(site_name="Acme Docs", site_logo=str(logo), site_accent="#b3261e")
    with running(create_app(FakeRetriever(), settings)) as address:
        page = browser.new_page(base_url=address)
        page.goto("/?q=index")
        expect(page.get_by_role("link", name="Acme Docs")).to_be_visible()
        assert page.locator(".brand img").evaluate("image => image.naturalWidth") == 30
        expect(page.locator("h3 a")).to_have_css("color", "rgb(179, 38, 30)")
        assert_legible(page)
        page.close()


def test_colours_follow_the_system_until_they_are_chosen(browser: Browser, server: str) -> None:
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


@pytest.mark.parametrize(("system", "shown"), [("light", "DARK"), ("dark", "LIGHT")])
def test_the_first_press_changes_the_colours(browser: Browser, server: str, system: str, shown: str) -> None:
    context = browser.new_context(base_url=server, color_scheme=system)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto("/")
    page.get_by_role("button", name="Theme: auto").click()
    assert background(page) == {"DARK": DARK, "LIGHT": LIGHT}[shown]
    context.close()


def test_a_chosen_colour_is_there_at_the_first_paint(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.goto("/")
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.route("**/page.js*", lambda route: route.abort())
    page.goto("/?q=index", wait_until="commit")
    expect(page.locator("body")).to_have_css("background-color", DARK)
