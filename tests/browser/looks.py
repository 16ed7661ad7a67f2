"""Everything that the page shows, each with how it is reached."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.parts import box, several
from tests.web.fakes import CODE, FakeRetriever, make_hit

Reach = Callable[[Page, FakeRetriever], None]
ROWS = "error | what it means | what to do\nE4 | the pump draws air | Fill the tank.\nE7 | blocked | Take it out."


def empty(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/")


def answered(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = lambda query: several(query) * 4
    page.goto("/?q=index")
    box(page).press("ArrowDown")


def opened(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(section_text="Before.\nA partial index is an index built over a subset of a table.")]
    page.goto("/?q=index&language=en&meta.team=core&mode=dense&open=chunk-1")
    expect(page.locator(".passage")).to_be_visible()


def nothing(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = []
    page.goto("/?q=zebra&language=en")


def waiting(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready = False
    page.goto("/?q=index")


def unbuilt(page: Page, retriever: FakeRetriever) -> None:
    retriever.ready, retriever.missing = False, True
    page.goto("/")


def refused(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/?q=index&mode=nope")


def unreachable(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/")
    page.context.set_offline(True)
    box(page).fill("index")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def operator(page: Page, retriever: FakeRetriever) -> None:
    page.goto("/?q=index")
    page.goto("/status")
    expect(page.get_by_role("heading", name="Latency")).to_be_visible()


def far(page: Page, retriever: FakeRetriever) -> None:
    retriever.is_close = False
    page.goto("/?q=banana+bread&explain=true")
    expect(page.get_by_role("heading", name="Nothing close")).to_be_visible()


def explained(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = several
    page.goto("/?q=index&explain=true")
    page.get_by_text("Why this hit").first.click()
    expect(page.get_by_text("Meaning").first).to_be_visible()


def code(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(text=CODE, highlights=[(CODE.index("SELECT"), CODE.index("SELECT") + 6)])]
    page.goto("/?q=select")
    expect(page.locator("pre mark")).to_have_text("SELECT")


def table(page: Page, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(text=ROWS, highlights=[(0, 5)])]
    page.goto("/?q=codes")
    expect(page.locator(".rows mark")).to_have_text("error")


def reading(page: Page, retriever: FakeRetriever) -> None:
    hit = make_hit(url="file:///srv/a.md", text=CODE)
    retriever.hits = [hit]
    page.goto(f"/document/{hit.document}?passage=chunk-1&q=x")
    expect(page.locator("#passage pre")).to_be_visible()


LOOKS: list[Reach] = [
    empty,
    answered,
    opened,
    table,
    far,
    explained,
    code,
    reading,
    nothing,
    waiting,
    unbuilt,
    refused,
    unreachable,
    operator,
]
