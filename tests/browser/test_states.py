"""What the page says where there is no answer to show."""

import pytest
from playwright.sync_api import expect

from rag.errors import QueryError
from tests.browser.parts import box, echo, titles

pytestmark = pytest.mark.browser


def test_errors_are_said_and_left_again(page, retriever):
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


def test_unreachable_server_can_be_tried_again(page, retriever):
    retriever.hits = echo
    page.goto("/")
    page.route("**/?q=*", lambda route: route.abort())
    box(page).fill("index")
    expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
    page.unroute("**/?q=*")
    page.get_by_role("button", name="Try again").click()
    expect(titles(page)).to_have_text("About index")


def test_a_page_that_waits_shows_the_answer_when_ready(page, retriever):
    retriever.ready = False
    page.goto("/?q=index")
    expect(page.get_by_role("heading", name="Not ready yet")).to_be_visible()
    expect(page.get_by_text("The index is still loading.")).to_be_visible()
    retriever.ready = True
    expect(titles(page)).to_have_text("Partial Indexes")
