"""The search page in a real browser, with a retriever whose answers the test decides."""

import re
import threading

import pytest
from playwright.sync_api import Browser, Page, expect

from rag.errors import QueryError
from rag.results import Hit
from tests.browser.parts import box, echo, titles
from tests.web.fakes import FakeRetriever, make_hit

pytestmark = pytest.mark.browser

EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
LONG = "Words before. " * 40 + "A partial index is here. " + "Words after. " * 40


def test_results_come_while_typing(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.goto("/")
    expect(box(page)).to_be_focused()
    expect(page.get_by_text("1,170")).to_be_visible()
    page.keyboard.type("partial index")
    expect(titles(page)).to_have_text("About partial index")
    expect(page.locator("mark")).to_have_text(["partial", "index"])
    expect(page.get_by_role("status")).to_have_text("1 passage")
    expect(page.locator("#timing")).to_contain_text("3.1 ms")
    expect(page).to_have_title("partial index – Pilotlight")
    expect(page).to_have_url(re.compile(r"/\?q=partial\+index$"))
    assert len(retriever.calls) < len("partial index")


def test_the_address_can_be_shared_and_back_works(page: Page, retriever: FakeRetriever) -> None:
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


def test_keyboard(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.goto("/?q=fsync")
    expect(box(page)).not_to_be_focused()
    page.keyboard.press("/")
    expect(box(page)).to_be_focused()
    expect(box(page)).to_have_value("fsync")
    page.keyboard.press("End")
    page.keyboard.type("/wal")
    expect(titles(page)).to_have_text("About fsync/wal")
    page.keyboard.press("Escape")
    expect(box(page)).to_have_value("")
    expect(box(page)).to_be_focused()
    expect(page.get_by_text("Ask in your own words")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/$"))
    page.keyboard.press("Escape")
    expect(box(page)).not_to_be_focused()


def test_every_control_is_reached_by_tab_and_shows_focus(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(text=LONG, highlights=[])]
    page.goto("/?q=index")
    seen = []
    for _ in range(6):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
        outlined = "getComputedStyle(document.activeElement.closest('label') ?? document.activeElement).outlineStyle"
        assert page.evaluate(outlined) == "solid"
    assert seen == ["Pilotlight", "q", "Search", "mode", "Partial Indexes", "Whole passageShow less"]
    page.keyboard.press("Enter")
    expect(page.get_by_text("Show less")).to_be_visible()


def test_whole_passage_can_be_opened(page: Page, retriever: FakeRetriever) -> None:
    at = LONG.index("partial")
    retriever.hits = [make_hit(text=LONG, highlights=[(at, at + 7)])]
    page.goto("/?q=partial")
    expect(page.locator(".short")).to_contain_text("… A partial index is here.")
    expect(page.locator(".whole")).not_to_be_visible()
    page.get_by_text("Whole passage").click()
    expect(page.locator(".whole")).to_have_text(LONG.strip())
    expect(page.locator(".short")).not_to_be_visible()


@pytest.mark.parametrize("typed", [True, False])
def test_hostile_content_is_inert(page: Page, retriever: FakeRetriever, typed: bool) -> None:
    retriever.hits = [
        make_hit(1, title=EVIL, section=EVIL, text=EVIL, highlights=[(0, 9)], url="https://x.example/" + EVIL),
        make_hit(2, title="Bad link", url="javascript:window.hacked=1"),
    ]
    page.goto("/")
    box(page).fill(EVIL)
    if not typed:
        page.goto(page.url.split("?")[0] + "?q=" + EVIL.replace('"', "%22").replace("<", "%3C"))
    expect(titles(page)).to_have_text([EVIL, "Bad link"])
    expect(box(page)).to_have_value(EVIL)
    titles(page).nth(1).click()
    expect(page.locator("#results a")).to_have_count(0)
    assert page.locator("#results img, #results script").count() == 0
    assert page.evaluate("window.hacked") is None


def test_a_late_answer_does_not_replace_a_newer_one(page: Page, retriever: FakeRetriever) -> None:
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


def test_an_answer_that_ignores_the_abort_is_dropped(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.add_init_script(DEAF_FETCH)
    page.goto("/")
    box(page).fill("slow")
    expect(page.locator("html")).to_have_attribute("data-held", "slow")
    box(page).fill("fast")
    expect(titles(page)).to_have_text("About fast")
    page.evaluate("window.release()")
    page.evaluate("new Promise((done) => setTimeout(done))")
    expect(titles(page)).to_have_text("About fast")


# fetch() without abort signals, which holds the answer to "slow" until release() and then gives it at once
DEAF_FETCH = """
const original = window.fetch;
window.fetch = async (url) => {
  const reply = await original(url);
  const body = await reply.text();
  if (String(url).includes("slow")) {
    await new Promise((done) => {
      window.release = done;
      document.documentElement.dataset.held = "slow";
    });
  }
  return { status: reply.status, text: async () => body };
};
"""


def test_errors_are_said_and_left_again(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = []
    page.goto("/")
    box(page).fill("zebra")
    expect(page.get_by_role("heading", name="Nothing found")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Nothing found")

    retriever.error = QueryError("the query has no token")
    box(page).fill("zebra two")
    expect(page.get_by_text("The query has no token.")).to_be_visible()

    retriever.error = RuntimeError("secret")
    box(page).fill("zebra three")
    expect(page.get_by_role("heading", name="The search failed")).to_be_visible()
    assert "secret" not in page.content()

    retriever.error, retriever.hits = None, echo
    box(page).fill("zebra four")
    expect(titles(page)).to_have_text("About zebra four")


def test_unreachable_server_can_be_tried_again(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = echo
    page.goto("/")
    page.route("**/?q=*", lambda route: route.abort())
    box(page).fill("index")
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
    page.unroute("**/?q=*")
    page.get_by_role("button", name="Try again").click()
    expect(titles(page)).to_have_text("About index")


@pytest.mark.parametrize(("status", "message"), [(414, "too long to send"), (502, "answered with status 502")])
def test_answer_that_is_no_page(page: Page, status: int, message: str) -> None:
    page.goto("/")
    page.route("**/?q=*", lambda route: route.fulfill(status=status, content_type="text/plain", body="no"))
    box(page).fill("index")
    expect(page.locator("#results")).to_contain_text(message)


def test_a_page_that_waits_shows_the_answer_when_ready(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready = False
    page.goto("/?q=index")
    expect(page.get_by_role("heading", name="Not ready yet")).to_be_visible()
    expect(page.get_by_text("The index is still loading.")).to_be_visible()
    retriever.ready = True
    expect(titles(page)).to_have_text("Partial Indexes")


def test_without_javascript(plain_page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = lambda query: [make_hit(title=f"About {query}", text=LONG, highlights=[])]
    plain_page.goto("/")
    box(plain_page).fill("partial index")
    plain_page.get_by_role("button", name="Search").click()
    expect(titles(plain_page)).to_have_text("About partial index")
    expect(box(plain_page)).to_have_value("partial index")
    expect(plain_page).to_have_url(re.compile(r"/\?q=partial\+index&mode=hybrid$"))
    plain_page.get_by_text("Whole passage").click()
    expect(plain_page.locator(".whole")).to_be_visible()


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", f"/?q=index&language=de&source={'x' * 300}", "/nope"])
def test_fits_and_is_legible(
    browser: Browser, server: str, retriever: FakeRetriever, width: int, scheme: str, path: str
) -> None:
    unbroken = "pg_" + "x" * 300
    retriever.hits = [
        make_hit(
            title=unbroken,
            section=unbroken,
            text=unbroken * 3,
            url=f"https://a.example/{unbroken}",
            language="de",
            date="2026-03-04",
            scores={"dense": 0.7, "lexical": 123.4},
            duplicates=[f"https://a.example/{unbroken}/2"],
        )
    ]
    context = browser.new_context(
        base_url=server,
        viewport={"width": width, "height": 640},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    page.goto(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = page.evaluate(CONTRASTS)
    context.close()
    assert contrasts
    assert min(contrasts.values()) >= 4.5, contrasts


# WCAG contrast of every piece of text with the page's background, by the text's colour
CONTRASTS = """() => {
  const channels = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((value) => value / 255)
    .map((value) => value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4);
  const light = (color) => channels(color).reduce((sum, value, i) => sum + value * [.2126, .7152, .0722][i], 0);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const found = {};
  for (const element of document.querySelectorAll("body *")) {
    if (!element.checkVisibility()) continue;
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const color = getComputedStyle(element).color;
    const [high, low] = [light(color), paper].sort((a, b) => b - a);
    found[color] = (high + .05) / (low + .05);
  }
  return found;
}"""


def test_dark_and_light_differ(browser: Browser, server: str) -> None:
    backgrounds = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(base_url=server, color_scheme=scheme)
        page = context.new_page()
        page.goto("/")
        backgrounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        context.close()
    assert backgrounds == {"light": "rgb(252, 251, 248)", "dark": "rgb(20, 20, 23)"}


def test_nothing_is_asked_of_other_hosts(page: Page, server: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    box(page).fill("index")
    expect(titles(page)).to_have_count(1)
    assert len(asked) >= 4
    assert all(url.startswith(server) for url in asked)
