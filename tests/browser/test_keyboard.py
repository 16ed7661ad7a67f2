"""The search page without a mouse, and as a screen reader has it: a combobox whose popup is a grid."""

import pytest
from playwright.sync_api import expect

from tests.browser.parts import box, several, titles

pytestmark = pytest.mark.browser


def test_arrows_choose_a_hit_and_enter_opens_it(page, retriever):
    retriever.hits = several
    page.route("https://docs.example/**", lambda route: route.fulfill(body="there"))
    page.goto("/")
    expect(box(page)).to_have_attribute("role", "combobox")
    expect(box(page)).to_have_attribute("aria-expanded", "false")
    page.keyboard.type("index")
    expect(titles(page)).to_have_count(3)
    expect(page.get_by_role("status")).to_have_text("4 passages on 3 pages")
    expect(box(page)).to_have_attribute("aria-expanded", "true")
    assert page.locator(f"#{box(page).get_attribute('aria-controls')}").get_attribute("role") == "grid"
    expect(page.get_by_role("grid", name="Results").get_by_role("row")).to_have_count(4)

    def active() -> str | None:
        return box(page).get_attribute("aria-activedescendant")

    page.keyboard.press("ArrowUp")
    assert active() == "hit-4"
    expect(page.get_by_role("row", selected=True)).to_contain_text("Note")
    expect(page.get_by_role("row", selected=True)).to_be_in_viewport()
    page.keyboard.press("ArrowDown")
    assert active() is None
    for name in ("hit-1", "hit-2", "hit-3"):
        page.keyboard.press("ArrowDown")
        assert active() == name
    page.keyboard.press("Escape")
    assert active() is None
    expect(box(page)).to_have_value("index")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url("https://docs.example/docs/17/indexes.html#b")


def test_every_control_is_reached_by_tab_and_shows_focus(page, retriever):
    retriever.hits = several
    page.set_viewport_size({"width": 800, "height": 900})
    page.goto("/?q=index")
    seen = []
    for _ in range(16):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.innerText.trim() || document.activeElement.name"))
        outlined = "getComputedStyle(document.activeElement.closest('label') ?? document.activeElement).outlineStyle"
        assert page.evaluate(outlined) == "solid", seen
    around = [f"{tool} passage {rank}" for rank in (1, 2) for tool in ("Read the section around", "Copy citation of")]
    assert [" ".join(name.split()) for name in seen] == [
        *(
            "Skip to the first result",
            "Pilotlight",
            "Status",
            "Theme",
            "q",
            "Search",
            "mode",
            "collections",
            "collections",
            "Narrow",
        ),
        *("Indexes", *around[:2], "Examples", *around[2:]),
    ]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").nth(1).locator(".toggle")).to_be_focused()
