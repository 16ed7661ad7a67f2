"""Parts of the search page as a test names them."""

from playwright.sync_api import Locator, Page

from rag.results import Hit
from tests.web.fakes import make_hit


def echo(query: str) -> list[Hit]:
    return [make_hit(title=f"About {query}")]


def box(page: Page) -> Locator:
    return page.get_by_role("searchbox", name="Search the documents")


def titles(page: Page) -> Locator:
    return page.get_by_role("heading", level=3)
