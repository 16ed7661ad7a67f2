"""What can be done with a hit, and what a hostile one cannot do."""

import re

import pytest
from playwright.sync_api import expect

from rag.query.results import link_to_text
from tests.browser.parts import EVIL, LONG, box, titles
from tests.indexer.server import Site
from tests.web.fakes import make_hit

pytestmark = pytest.mark.browser


def test_a_file_opens_in_the_page_at_its_passage(page, plain_page, retriever):
    text = "Before the passage.\n\n" + LONG
    hit = make_hit(url="file:///srv/notes/archive.zip!/a.md", title="Notes", section="Notes › Part", text=text)
    retriever.hits = [hit]
    for each in (page, plain_page):
        each.goto("/?q=index")
        titles(each).get_by_role("link").click()
        expect(each).to_have_url(re.compile(rf"/document/{hit.document}\?passage=chunk-1&q=index#passage$"))
        expect(each.get_by_role("heading", level=1)).to_have_text("Notes")
        expect(each.locator("#passage")).to_contain_text("Before the passage.")
        expect(each.locator("#passage")).to_be_in_viewport()
        each.get_by_role("link", name="Back to the results").click()
        expect(titles(each)).to_have_text("Notes")


def test_a_section_can_be_read_in_place(page, retriever):
    at = LONG.index("partial")
    whole = "Heading.\n" * 30 + LONG.strip() + "\nThe end." * 30
    retriever.hits = [make_hit(text=LONG, highlights=[(at, at + 7)], section_text=whole)]
    page.set_viewport_size({"width": 800, "height": 600})
    page.goto("/?q=partial")
    expect(page.locator(".text")).to_contain_text("Words before. A partial index is here. Words after.")
    top = page.locator(".text").bounding_box()
    page.get_by_role("link", name="Read the section").press("Enter")
    expect(page.locator(".passage")).to_have_text(LONG.strip())
    expect(page.locator(".text")).to_contain_text("Heading.")
    expect(page.locator(".passage mark")).to_have_text("partial")
    there = page.locator(".passage").bounding_box()
    assert top is not None
    assert there is not None
    assert abs(there["y"] - top["y"]) < 10  # what is being read stays where it is
    expect(page).to_have_url(re.compile(r"\?q=partial$"))
    expect(page.get_by_role("link", name="Show less")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".passage")).to_have_count(0)
    expect(page.locator(".text")).to_contain_text("Words before. A partial index is here. Words after.")


def test_a_hit_opens_at_its_text_on_a_page_without_anchors(page, retriever):
    site, text = Site(), "The zebra parameter limits how much memory a session takes."
    around = "<p>Something else is said here.</p>" * 100
    site.pages(
        tall=f"{around}<p>The <b>zebra</b>&nbsp;para&shy;meter limits how much\nmemory a session takes.</p>{around}"
    )
    url = f"{site.url}/tall"
    retriever.hits = [make_hit(url=url, link=link_to_text(url, "text/html", text, []))]
    page.goto("/?q=zebra")
    titles(page).get_by_role("link").click()
    page.wait_for_function("scrollY > 1000")
    expect(page.locator("b")).to_be_in_viewport()
    site.close()


@pytest.mark.parametrize("clipboard", [True, False])
def test_a_hit_is_copied_as_a_citation(context, page, retriever, clipboard):
    if clipboard:
        context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:  # as where there is no TLS
        page.add_init_script("delete Navigator.prototype.clipboard")
    retriever.hits = [make_hit(date="2026-03-04", title=EVIL)]
    page.goto("/?q=index")
    page.get_by_role("button", name="Copy citation").click()
    expect(page.get_by_role("status")).to_have_text("Citation copied")
    box(page).fill("")
    box(page).press("ControlOrMeta+v")
    cited = f"“{EVIL} › Indexes › Partial Indexes”, https://docs.example/indexes/partial.html#part-1, 2026-03-04"
    expect(box(page)).to_have_value(cited)


@pytest.mark.parametrize("typed", [True, False])
def test_hostile_content_is_inert(page, retriever, typed):
    retriever.hits = [
        make_hit(1, title=EVIL, section=EVIL, text=EVIL, highlights=[(0, 9)], url="https://x.example/" + EVIL),
        make_hit(2, title="Bad link", url="javascript:window.hacked=1", duplicates=["javascript:window.hacked=1"]),
        *(  # cut through everywhere: a snippet ends somewhere in it
            make_hit(
                3, title="Cut", text="x" * (320 - at) + EVIL + "y" * 40, highlights=[(318, 322)], url=f"about:{at}"
            )
            for at in range(0, len(EVIL), 10)
        ),
    ]
    page.goto("/")
    box(page).fill(EVIL)
    if not typed:
        page.goto(page.url.split("?")[0] + "?q=" + EVIL.replace('"', "%22").replace("<", "%3C"))
    expect(titles(page)).to_have_text([EVIL, "Bad link", *["Cut"] * 8])
    expect(box(page)).to_have_value(EVIL)
    titles(page).nth(1).click()
    expect(page.locator("#results a:not(.toggle, .stay)")).to_have_count(0)
    assert page.locator("#results img, #results script").count() == 0
    assert page.evaluate("window.hacked") is None
