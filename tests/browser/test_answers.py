"""Answers of a language model above the hits, with an endpoint that writes what the test says."""

import re
import threading

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from rag.query.results import Hit
from rag.settings import Settings
from tests.browser.parts import EVIL, assert_legible, box, several, titles
from tests.endpoint import fake_endpoint
from tests.web.fakes import make_hit

pytestmark = pytest.mark.browser

SAID = "A partial index is built over a subset of a table [1]. It has 73 colours [4]."
FOLLOW = "How does snow fall on hills in winter?"


@pytest.fixture
def endpoint():
    with fake_endpoint() as running:
        running.answers(SAID)
        yield running


@pytest.fixture
def settings(endpoint, request):
    return Settings(answer_url=endpoint.url, answer_model="small", **getattr(request, "param", {}))


@pytest.fixture(autouse=True)
def hits(retriever):
    def found(query: str) -> list[Hit]:
        own = several(query)
        if "snow" in query.lower():
            return [make_hit(9, id="snow", title="Snow", text="Snow falls softly on hills in winter."), *own[:1]]
        return [replace(hit, section_text="Before.\n" + hit.text + "\nAfter.") for hit in own]

    retriever.hits = found


def region(page: Page) -> Locator:
    return page.get_by_role("region", name="Answer")


def reply(page: Page) -> Locator:
    return region(page).locator(".answer-text")


def ask(page: Page, address: str = "/?q=partial+index") -> None:
    page.goto(address)
    region(page).get_by_role("button", name="Answer").click()


def written(page: Page) -> None:
    expect(region(page).get_by_role("status")).to_have_text("The answer is written.")


def test_an_answer_comes_as_it_is_written(page, endpoint):
    go_on = threading.Event()
    endpoint.answers("A partial index is built ", go_on, "over a subset [1]. ", "It has 73 colours.")
    page.goto("/?q=partial+index&language=en")
    expect(titles(page)).to_have_count(3)
    assert endpoint.requests == []  # until it is asked for
    button = region(page).get_by_role("button")
    button.click()
    expect(reply(page)).to_have_text("A partial index is built")
    expect(reply(page)).to_have_attribute("aria-busy", "true")
    expect(button).to_have_text("Stop")
    expect(region(page).get_by_role("status")).to_have_text("Writing an answer…")
    expect(titles(page)).to_have_count(3)
    go_on.set()
    written(page)
    expect(reply(page)).not_to_have_attribute("aria-busy", "true")
    expect(reply(page)).to_have_text("A partial index is built over a subset 1. It has 73 colours.")
    expect(button.first).to_have_text("Answer again")


def test_a_citation_opens_its_passage_and_escape_leads_back(page):
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


def test_stopping_ends_the_call(page, endpoint):
    endpoint.answers("A partial", threading.Event())
    ask(page)
    expect(reply(page)).to_have_text("A partial")
    region(page).get_by_role("button", name="Stop").click()
    expect(region(page).get_by_role("status")).to_have_text("Stopped.")
    assert endpoint.left.wait(300)
    expect(region(page).get_by_role("button", name="Answer again")).to_be_focused()
    endpoint.answers("All of it, again.")
    page.keyboard.press("Enter")
    written(page)
    expect(reply(page)).to_contain_text("All of it, again.")
    expect(reply(page)).to_have_count(1)


def test_asking_further(page, retriever, endpoint):
    ask(page)
    written(page)
    endpoint.answers("Snow falls on hills in winter [1]. It is not short.")
    field = region(page).get_by_label("Ask a follow-up question")
    field.fill(FOLLOW)
    field.press("Enter")
    expect(reply(page)).to_have_count(2)
    expect(reply(page).nth(1)).to_contain_text("Snow falls on hills")
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
    expect(reply(page)).to_have_count(3)
    assert retriever.calls[-1][0] == f"{FOLLOW} and why?"
    assert_legible(page)
    # a citation of the first answer brings its passages back
    reply(page).first.get_by_role("button", name=re.compile("^Passage 4")).click()
    expect(page.locator("[data-hit=chunk-4]")).to_be_focused()
    expect(reply(page)).to_have_count(3)
    box(page).fill("other")
    expect(reply(page)).to_have_count(0)
    page.go_back()
    expect(reply(page)).to_have_count(3)


def test_marks_say_whether_a_sentence_is_in_the_passages(page, endpoint):
    endpoint.answers(
        'It 😀 is "an index built over a subset" [1]. It is "made of cheese" [4]. Good.\n\n- So **it** has 73.'
    )
    ask(page)
    written(page)
    marks = reply(page).locator(".proof")
    expect(marks).to_have_count(3)
    expect(reply(page)).to_contain_text('It 😀 is "an index built over a subset" 1. It is "made of cheese" 4. Good.')
    expect(reply(page).locator("mark")).to_have_text(["made of cheese", "73"])
    note = region(page).locator(".proof-note")
    expect(note).to_be_empty()
    region(page).get_by_role("button", name="In the passages. Word for word in passage 1.").focus()
    expect(note).to_contain_text("an index built over a subset")
    link = note.get_by_role("link", name="Open the sentence")
    expect(link).to_have_attribute("href", re.compile("#a:~:text=an%20index%20built%20over%20a%20subset$"))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(marks.nth(1)).to_be_focused()
    expect(note).to_have_text("Not in the passages. Not in passage 4.")
    expect(marks.nth(1)).to_have_attribute("title", "Not in the passages. Not in passage 4.")
    assert_legible(page)


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


def test_hostile_text_stays_text(page, endpoint, retriever):
    retriever.hits = [make_hit(1, title=EVIL, section=f"\u202e{EVIL}")]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    endpoint.answers(*HOSTILE)
    ask(page)
    written(page)
    assert page.evaluate("window.hacked") is None
    assert reply(page).locator("a, img, script, iframe").count() == 0
    expect(reply(page).locator("pre")).to_have_text(EVIL)
    assert "\u202e" not in reply(page).inner_text()
    expect(reply(page).locator(".citation")).to_have_text(["1"])
    assert not [url for url in asked if "evil.test" in url]
    assert_legible(page)
