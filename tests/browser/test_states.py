"""What the page says where there is no answer to show."""

import threading

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from rag.errors import QueryError
from rag.query.results import Hit
from tests.browser.parts import assert_legible, box, echo, titles
from tests.web.fakes import FakeRetriever

pytestmark = pytest.mark.browser


def test_a_search_that_takes_long_is_said_to_be_going_on(page: Page, retriever: FakeRetriever) -> None:
    release = threading.Event()

    def answer(query: str) -> list[Hit]:
        release.wait(20)
        return echo(query)

    retriever.hits = answer
    said = page.get_by_role("status")
    page.goto("/")
    box(page).fill("slow")
    expect(said).to_have_text("Searching…")
    expect(said).to_have_css("clip-path", "none")  # for everybody, not only for screen readers
    assert_legible(page)
    release.set()
    expect(said).to_have_text("1 passage on 1 page")
    release.clear()
    box(page).fill("slow again")  # with the hits of before still there
    expect(said).to_have_text("Searching…")
    expect(page.locator(".pages")).to_have_css("filter", "grayscale(1)")
    assert_legible(page)
    release.set()
    expect(titles(page)).to_have_text("About slow again")
    expect(page.locator(".pages")).to_have_css("filter", "none")


def test_the_search_goes_on_once_there_is_a_connection_again(
    context: BrowserContext, page: Page, retriever: FakeRetriever
) -> None:
    retriever.hits = echo
    page.goto("/")
    context.set_offline(True)
    box(page).fill("index")
    expect(page.get_by_role("heading", name="You are offline")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("You are offline")
    context.set_offline(False)
    expect(titles(page)).to_have_text("About index")


def test_without_an_index_the_page_waits_for_one(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready, retriever.missing = False, True
    retriever.reason = "there is no index in /srv/x; build one with: pilotlight index SOURCE --index /srv/x"
    page.goto("/")
    expect(page.get_by_role("heading", name="No index yet")).to_be_visible()
    expect(page.get_by_text("pilotlight index SOURCE --index /srv/x")).to_be_visible()
    retriever.ready, retriever.missing = True, False
    expect(page.get_by_role("heading", name="Ask in your own words")).to_be_visible()


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
