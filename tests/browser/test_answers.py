"""Answers of a language model above the hits, with an endpoint that writes what the test says."""

import re
import threading
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from rag.query.options import MOST_EXCHANGES
from rag.query.results import Hit
from rag.settings import Settings
from tests.browser.parts import EVIL, assert_legible, box, several, titles
from tests.endpoint import FakeEndpoint, fake_endpoint
from tests.web.fakes import FakeRetriever, make_hit

pytestmark = pytest.mark.browser

SAID = "A partial index is built over a subset of a table [1]. It has 73 colours [4]."
FOLLOW = "How does snow fall on hills in winter?"


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint() as running:
        running.answers(SAID)
        yield running


@pytest.fixture
def settings(endpoint: FakeEndpoint, request: pytest.FixtureRequest) -> Settings:
    return Settings(answer_url=endpoint.url, answer_model="small", **getattr(request, "param", {}))


@pytest.fixture(autouse=True)
def hits(retriever: FakeRetriever) -> None:
    def found(query: str) -> list[Hit]:
        own = several(query)
        if "snow" in query.lower():
            return [make_hit(9, id="snow", title="Snow", text="Snow falls softly on hills in winter."), *own[:1]]
        return [replace(hit, section_text="Before.\n" + hit.text + "\nAfter.") for hit in own]

    retriever.hits = found


def region(page: Page) -> Locator:
    return page.get_by_role("region", name="Answer")


def said(page: Page) -> Locator:
    return region(page).locator(".said")


def ask(page: Page, address: str = "/?q=partial+index") -> None:
    page.goto(address)
    region(page).get_by_role("button", name="Answer").click()


def written(page: Page) -> None:
    expect(region(page).get_by_role("status")).to_have_text("The answer is written.")


def test_an_answer_comes_as_it_is_written(page: Page, endpoint: FakeEndpoint) -> None:
    go_on = threading.Event()
    endpoint.answers("A partial index is built ", go_on, "over a subset [1]. ", "It has 73 colours.")
    page.goto("/?q=partial+index&language=en")
    expect(titles(page)).to_have_count(3)
    assert endpoint.requests == []  # until it is asked for
    button = region(page).get_by_role("button")
    button.click()
    expect(said(page)).to_have_text("A partial index is built")
    expect(said(page)).to_have_attribute("aria-busy", "true")
    expect(button).to_have_text("Stop")
    expect(region(page).get_by_role("status")).to_have_text("Writing an answer…")
    expect(titles(page)).to_have_count(3)
    go_on.set()
    written(page)
    expect(said(page)).not_to_have_attribute("aria-busy", "true")
    expect(said(page)).to_have_text(re.compile(r"^A partial index is built over a subset 1\. It has 73 colours\.\?"))
    expect(button.first).to_have_text("Answer again")
    expect(said(page).locator(".unsupported")).to_have_text("It has 73 colours.")
    expect(said(page).get_by_text("(no passage supports this)")).to_have_count(1)
    expect(region(page).get_by_text("supported by no passage that was found")).to_be_visible()


def test_the_search_that_is_answered_is_that_of_the_page(page: Page, retriever: FakeRetriever) -> None:
    ask(page, "/?q=partial+index&mode=dense&collection=notes&meta.team=core&language=en&per_document=1")
    written(page)
    asked = retriever.requests[-1]
    assert (asked.query, asked.mode, asked.collection, asked.k, asked.per_document) == (
        "partial index",
        "dense",
        "notes",
        6,
        1,
    )
    assert asked.filter is not None
    assert asked.filter.as_dict() == {"language": ["en"], "metadata": {"team": ["core"]}}  # type: ignore[union-attr]


def test_a_citation_opens_its_passage_and_escape_leads_back(page: Page) -> None:
    page.set_viewport_size({"width": 900, "height": 500})
    ask(page)
    written(page)
    mark = region(page).get_by_role("button", name="Passage 4: Note")
    mark.focus()
    page.keyboard.press("Enter")
    hit = page.locator("[data-hit=chunk-4]")
    expect(hit.locator(".text.whole")).to_contain_text("Before.")
    expect(hit).to_be_focused()
    expect(hit).to_be_in_viewport()
    assert_legible(page)
    page.keyboard.press("Escape")
    expect(mark).to_be_focused()
    expect(mark).to_be_in_viewport()
    expect(box(page)).to_have_value("partial index")


def test_stopping_ends_the_call(page: Page, endpoint: FakeEndpoint) -> None:
    endpoint.answers("A partial", threading.Event())
    ask(page)
    expect(said(page)).to_have_text("A partial")
    region(page).get_by_role("button", name="Stop").click()
    expect(region(page).get_by_role("status")).to_have_text("Stopped.")
    assert endpoint.left.wait(10)
    expect(region(page).get_by_role("button", name="Answer again")).to_be_focused()
    endpoint.answers("All of it, again.")
    page.keyboard.press("Enter")
    written(page)
    expect(said(page)).to_contain_text("All of it, again.")
    expect(said(page)).to_have_count(1)


@pytest.mark.parametrize("leave", ["escape", "reload", "another search", "another page"])
def test_leaving_leaves_nothing_running(page: Page, endpoint: FakeEndpoint, leave: str) -> None:
    endpoint.answers("A partial", threading.Event())
    ask(page)
    expect(said(page)).to_have_text("A partial")
    if leave == "escape":
        page.keyboard.press("Escape")
    elif leave == "reload":
        page.reload()
    elif leave == "another page":
        page.goto("/status")
    else:
        box(page).fill("something else")
        expect(said(page)).to_have_count(0)
    assert endpoint.left.wait(10)
    assert len(endpoint.requests) == 1
    if leave == "another search":
        page.go_back()
        expect(region(page).get_by_role("button", name="Answer")).to_be_visible()


def test_asking_further(page: Page, retriever: FakeRetriever, endpoint: FakeEndpoint) -> None:
    ask(page)
    written(page)
    endpoint.answers("Snow falls on hills in winter [1]. It is not short.")
    field = region(page).get_by_label("Ask further")
    field.fill(FOLLOW)
    field.press("Enter")
    expect(said(page)).to_have_count(2)
    expect(said(page).nth(1)).to_contain_text("Snow falls on hills")
    written(page)
    prompt = endpoint.requests[-1]["messages"][1]["content"]
    assert "<conversation>\nQuestion: partial index\nAnswer: A partial index is built over a subset" in prompt
    expect(titles(page).last).not_to_have_text("Note")
    expect(page.locator("[data-hit=snow]")).to_be_visible()  # what it was written from stands below
    expect(page).to_have_url(re.compile(r"\?q=partial\+index$"))
    expect(box(page)).to_have_value("partial index")
    field.fill("and why?")
    field.press("Enter")
    written(page)
    expect(said(page)).to_have_count(3)
    assert retriever.calls[-1][0] == f"{FOLLOW} and why?"
    assert_legible(page)
    # a citation of the first answer brings its passages back
    said(page).first.get_by_role("button", name="Passage 4").click()
    expect(page.locator("[data-hit=chunk-4]")).to_be_focused()
    expect(said(page)).to_have_count(3)
    box(page).fill("other")
    expect(said(page)).to_have_count(0)
    page.go_back()
    expect(said(page)).to_have_count(3)


@pytest.mark.parametrize("settings", [{"answer_page": "auto"}], indirect=True)
def test_questions_that_are_entered_are_answered_by_themselves(
    page: Page, retriever: FakeRetriever, endpoint: FakeEndpoint
) -> None:
    page.goto("/")
    box(page).fill("what is a partial index")  # at once, so that these are the first hits of the page
    expect(titles(page)).to_have_count(3)
    expect(region(page).locator(".turns > *")).to_have_count(0)  # while somebody types
    box(page).press("Enter")
    written(page)
    box(page).fill("index")
    box(page).press("Enter")
    expect(said(page)).to_have_count(0)
    expect(region(page).get_by_role("button", name="Answer")).to_be_visible()  # too short to be a question
    page.go_back()
    expect(said(page)).to_have_count(1)  # what was written is still there
    assert len(endpoint.requests) == 1
    page.goto("/?q=is+it+a+link%3F")
    written(page)
    retriever.is_close = False
    page.goto("/?q=how+is+banana+bread+made")
    expect(region(page).get_by_role("button", name="Answer")).to_be_visible()
    assert len(endpoint.requests) == 2


def test_without_a_model_there_is_nothing(browser_server: str, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{browser_server}/?q=partial+index")
    expect(titles(page)).to_have_count(3)
    assert "answer.js" not in page.content()
    assert page.locator("#answer, #question").count() == 0
    assert not [url for url in asked if "answer" in url]


@pytest.fixture
def browser_server(retriever: FakeRetriever) -> Iterator[str]:
    from tests.web.running import running
    from web.app import create_app

    with running(create_app(retriever, Settings())) as address:
        yield address


HOSTILE = f"""# {EVIL}

{EVIL} [a link](javascript:window.hacked=1) <a href="https://evil.test">click</a> https://evil.test
\u202eturned\u202c `{EVIL}` **{EVIL}** [1] [99] [0] &lt;b&gt;

- {EVIL}
1. <iframe src="https://evil.test"></iframe>

```html
{EVIL}
```
| a | b |
**unclosed `and [
"""


def test_hostile_text_stays_text(page: Page, endpoint: FakeEndpoint, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(1, title=EVIL, section=f"\u202e{EVIL}")]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    endpoint.answers(*HOSTILE)
    ask(page)
    written(page)
    assert page.evaluate("window.hacked") is None
    assert said(page).locator("a, img, script, iframe").count() == 0
    expect(said(page).locator("pre")).to_have_text(EVIL)
    assert "\u202e" not in said(page).inner_text()
    expect(said(page).get_by_role("button")).to_have_text(["1"])
    assert not [url for url in asked if "evil.test" in url]
    assert_legible(page)


def test_what_is_too_long_is_cut_off(page: Page, endpoint: FakeEndpoint) -> None:
    endpoint.answers(*["word " * 1000] * 12, threading.Event())
    ask(page)
    expect(region(page).get_by_role("status")).to_have_text("The answer was cut off: it is too long.")
    assert endpoint.left.wait(10)
    assert len(said(page).inner_text()) <= 50_000


def test_what_goes_wrong_is_said_and_the_hits_stay(
    page: Page, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint.status = 500
    ask(page)
    status = region(page).get_by_role("status")
    again = region(page).get_by_role("button", name="Answer again")
    expect(status).to_have_text("No answer: the answer endpoint returned status 500.")
    endpoint.status = 200
    endpoint.steps = ["It is", b"data: rubbish\n\n"]
    again.click()
    expect(status).to_contain_text("sent something that is not a completion")
    expect(said(page)).to_have_text("It is")
    page.route("**/api/v1/answer", lambda route: route.fulfill(status=429, json={"detail": "At most 1 a second."}))
    again.click()
    expect(status).to_have_text("No answer: At most 1 a second.")
    page.unroute("**/api/v1/answer")
    page.route("**/api/v1/answer", lambda route: route.abort())
    again.click()
    expect(status).to_contain_text("cannot be reached")
    page.unroute("**/api/v1/answer")
    page.route("**/api/v1/answer", lambda route: route.fulfill(status=200, content_type="text/event-stream", body=""))
    again.click()
    expect(status).to_have_text("The answer broke off.")
    page.unroute("**/api/v1/answer")
    expect(titles(page)).to_have_count(3)
    assert_legible(page)


def test_it_fits_small_screens_and_either_direction(page: Page, endpoint: FakeEndpoint) -> None:
    endpoint.answers(f"{'x' * 300} [1][2].\n\n```\n{'y' * 300}\n```\n\n1. {'z' * 300}\n\nمرحبا بالعالم هذا نص [1].")
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 320, "height": 640})
    ask(page)
    written(page)
    for direction in ("ltr", "rtl"):
        page.evaluate("to => document.documentElement.dir = to", direction)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        assert_legible(page)
    expect(said(page).locator("p").last).to_have_css("direction", "rtl")


def test_typing_is_not_disturbed(page: Page, endpoint: FakeEndpoint) -> None:
    go_on = threading.Event()
    endpoint.answers("First [1]. Second", go_on, " [2]. Third.")
    ask(page)
    mark = said(page).get_by_role("button", name="Passage 1")
    mark.focus()
    go_on.set()
    written(page)
    expect(mark).to_be_focused()  # though its paragraph was written on
    assert MOST_EXCHANGES >= 10  # as many as the page sends
