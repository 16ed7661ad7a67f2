"""The search box on the page of another site, which has a strict content security policy, and may be hostile."""

from dataclasses import dataclass, field

import pytest
from flask import Flask, Response
from playwright.sync_api import Locator, Page, expect

from rag.access import KeyFile
from rag.settings import Settings
from tests.browser.parts import EVIL, assert_legible
from tests.web.fakes import make_hit
from tests.web.running import running

pytestmark = pytest.mark.browser

# what a page needs to allow for the box, and no more
POLICY = (
    "default-src 'self'; script-src 'self' {search}; connect-src 'self' {search}; require-trusted-types-for 'script'"
)
PAGE = """<!doctype html><html lang="en"{html}><head><meta charset="utf-8"><title>A site</title>{head}
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="/icon.svg">
<script src="{search}/embed.js"{attributes} defer></script></head><body><main><h1>A site</h1><p>{body}</p>
<p><button id="ask" type="button">Find</button> <label>Name <input id="name"></label></p>
<div id="note" contenteditable="true" role="textbox" aria-label="Note">note</div></main></body></html>"""
HOSTILE_STYLE = """
html > *, body *, pilotlight-search, pilotlight-search * { all: unset !important; }
pilotlight-search { display: none !important; visibility: hidden !important; position: absolute !important;
  z-index: -1 !important; opacity: 0 !important; pointer-events: none !important; color: red !important; }
* { font-size: 3px !important; letter-spacing: 1em !important; direction: ltr; }
dialog, button, input, a, mark { display: none !important; }
#ask { position: fixed; inset: 0; z-index: 2147483647 !important; }
"""


@dataclass
class Site:
    """A site of somebody else; its pages are set by the test."""

    search: str
    url: str = ""
    attributes: str = ""
    html: str = ""
    head: str = ""
    body: str = "Words."
    files: dict[str, tuple[str, str]] = field(default_factory=dict)


@pytest.fixture
def site(server):
    site = Site(server)
    app = Flask(__name__)

    @app.get("/")
    def page() -> Response:
        text = PAGE.format(**{name: getattr(site, name) for name in ("search", "attributes", "html", "head", "body")})
        return Response(text, headers={"Content-Security-Policy": POLICY.format(search=site.search)})

    @app.get("/<name>")
    def file(name: str) -> Response:
        text, media_type = site.files.get(name, ("", "image/svg+xml"))
        return Response(text, mimetype=media_type)

    with running(app) as address:
        site.url = address
        yield site


@pytest.fixture
def settings(tmp_path):
    return Settings(keys=str(tmp_path / "keys.json"))


@pytest.fixture
def key(settings, site):
    made = KeyFile(settings.keys_file).add("site", "read", origins=[site.url])
    site.attributes = f' data-key="{made}"'
    return made


@pytest.fixture
def page(browser, retriever):
    """A page that fails its test if anything is written to its console."""
    retriever.hits = several
    page = browser.new_page()
    page.set_default_timeout(300_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text))
    yield page
    page.close()
    assert faults == []


def several(query: str) -> list[object]:
    text = "🙂 is one letter. " * 20 + "A partial index is an index over a part. " + "More words. " * 30
    at = text.index("partial")
    return [
        make_hit(1, title=f"About {query}", section=f"About {query} › Examples", text=text, highlights=[(at, at + 7)]),
        make_hit(2, title=EVIL, section=EVIL, text=EVIL, highlights=[(0, 5)]),
        make_hit(3, title="Script", section="", url="javascript:window.hacked=1"),
        make_hit(4, title="فهرس جزئي", section="", text="الفهرس الجزئي هو فهرس على جزء.", highlights=[], language="ar"),
    ]


def opener(page: Page) -> Locator:
    return page.get_by_role("button", name="Search", exact=True)


def box(page: Page) -> Locator:
    return page.get_by_role("combobox")


def test_a_reader_searches_by_keys_alone(page, site, key):
    page.goto(site.url)
    expect(opener(page)).to_be_visible()
    for where in ("#name", "#note"):  # where somebody types, the keys are theirs
        page.locator(where).press("/")
        page.locator(where).press("Control+k")
    assert page.locator("#name").input_value() == "/"
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("#ask").focus()
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Search this site")).to_be_visible()
    expect(box(page)).to_be_focused()
    page.keyboard.type("partial/k")
    expect(page.get_by_role("status")).to_have_text("4 results")
    first = page.get_by_role("option").first
    expect(first).to_have_accessible_name("About partial/k Examples")
    expect(first.locator("mark")).to_have_text("partial")
    page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    expect(box(page)).to_have_attribute("aria-activedescendant", first.get_attribute("id") or "")
    assert_legible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#ask")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(box(page)).to_have_value("partial/k")
    page.route("https://docs.example/**", lambda route: route.fulfill(body="there", content_type="text/plain"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("https://docs.example/**")


def test_what_was_indexed_is_text(page, site, key):
    page.goto(site.url)
    opener(page).click()
    box(page).fill("index")
    expect(page.get_by_role("option").nth(1)).to_contain_text(EVIL)
    assert page.get_by_role("option").evaluate_all("rows => rows.map((row) => row.getAttribute('href') === null)") == [
        False, False, True, False,
    ]  # fmt: skip
    page.get_by_role("option").nth(2).click(force=True)  # it says that it is disabled
    assert page.evaluate("window.hacked") is None
    page.get_by_role("button", name="Close").click()
    expect(opener(page)).to_be_focused()


def test_a_hostile_page_changes_nothing(page, site, key):
    site.head = '<link rel="stylesheet" href="/hostile.css">'
    site.files = {"hostile.css": (HOSTILE_STYLE, "text/css")}
    page.goto(site.url)
    page.keyboard.press("/")
    page.keyboard.type("index")
    expect(page.get_by_role("option")).to_have_count(4)
    for part in (box(page), page.get_by_role("option").first, page.get_by_role("button", name="Close")):
        place = part.bounding_box()
        assert place is not None
        assert place["height"] >= 24  # as large as ever
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        seen = f"document.elementFromPoint({x}, {y}).localName"
        assert page.evaluate(seen) == "pilotlight-search"  # nothing of the page lies above
    expect(page.get_by_role("option").first).to_have_css("letter-spacing", "normal")
