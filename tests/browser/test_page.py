"""The search page in a real browser: what keys do, how it looks, and what it says when it is refused."""

import re
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from indexer.records import TextBlock
from rag.access import KeyFile
from rag.errors import DeadlinePassed
from rag.query.results import Hit, Suggestion
from rag.settings import Settings
from tests.browser.parts import EVIL, LONG, assert_legible, box, echo, several, titles
from tests.web.fakes import CODE, FakeRetriever, make_hit

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
            release.wait(300)
        return echo(query)

    retriever.hits = answer
    page.goto("/")
    box(page).fill("slow")
    expect(page.locator("form")).to_have_attribute("aria-busy", "true")
    assert started.wait(300)
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


def test_changes_are_read_and_another_day_is_chosen_by_keyboard(page: Page) -> None:
    page.goto("/changes")
    expect(page.get_by_role("heading", level=1)).to_have_text("What changed")
    expect(page.get_by_role("deletion")).to_have_text("It is 4 MB.")
    expect(page.get_by_role("insertion")).to_have_text("It is 8 <b>.")
    assert_legible(page)
    page.get_by_role("link", name="Since 2026-11-20").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=g0"))
    page.get_by_role("link", name="Settings").focus()
    expect(page.get_by_role("link", name="Settings")).to_have_attribute("href", "https://docs.example/set.html")


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


PAGES = pytest.mark.parametrize("path", ["/?q=index", "/status"])


@pytest.fixture
def settings(request, tmp_path):
    return replace(getattr(request, "param", Settings()), keys=str(tmp_path / "keys.json"))


def is_said(page: Page, heading: str, path: str) -> None:
    """The heading is there, legible, on a small screen too, and what was asked is not lost."""
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.get_by_role("status")).not_to_be_empty()
    expect(box(page)).to_have_value("index" if "index" in path else "")
    assert_legible(page)
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_too_busy_for_a_search(page, retriever):
    retriever.error = DeadlinePassed()
    page.goto("/?q=index")
    is_said(page, "Busy right now", "/?q=index")
    retriever.error, retriever.hits = None, echo
    expect(titles(page)).to_have_text("About index")


@PAGES
def test_a_key_is_needed(browser, server, settings, path):
    key = KeyFile(settings.keys_file).add("reader", "read")
    # without any, this browser would show its own dialogue
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": "guessed"})
    page = context.new_page()
    page.goto(path)
    is_said(page, "Key required", path)
    expect(page.locator("body")).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")  # its style sheet is public
    context.close()
    context = browser.new_context(base_url=server, http_credentials={"username": "anybody", "password": key})
    page = context.new_page()
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_text("Partial Indexes")
    context.close()


@PAGES
def test_not_under_this_name(page, server, path):
    page.goto(server.replace("127.0.0.1", "docs.test") + path)
    is_said(page, "Not allowed", path)
    expect(page.get_by_text("This server only answers to names of this machine.")).to_be_visible()


def test_unreachable_server_can_be_tried_again(page, retriever):
    retriever.hits = echo
    page.goto("/")
    page.route("**/?q=*", lambda route: route.abort())
    box(page).fill("index")
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
    page.unroute("**/?q=*")
    page.get_by_role("button", name="Try again").click()
    expect(titles(page)).to_have_text("About index")
