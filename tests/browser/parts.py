"""Parts of the search page as a test names them."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from rag.query.results import Hit
from tests.web.fakes import make_hit

EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
AXE = Axe()
LONG = "Words before. " * 40 + "A partial index is here. " + "Words after. " * 40


def echo(query: str) -> list[Hit]:
    return [make_hit(title=f"About {query}")]


def several(query: str) -> list[Hit]:
    """Four passages on three pages that differ in language, type and folder."""
    here = "https://docs.example/docs/17/indexes.html"
    return [
        make_hit(1, url=f"{here}#a", title="Indexes", section="Indexes", language="en", date="2026-03-04"),
        make_hit(2, url=f"{here}#b", title="Indexes", section="Indexes › Examples", language="en"),
        make_hit(
            3,
            url="https://docs.example/docs/18/teil.html",
            title="Teilindexe",
            section="",
            text="Es ist kalt. Schnee fällt auf die Hügel.",
            highlights=[],
            language="de",
            duplicates=["https://docs.example/docs/16/teil.html"],
        ),
        make_hit(4, url="https://docs.example/blog/x.md", title="Note", text=LONG, content_type="text/markdown"),
    ]


def box(page: Page) -> Locator:
    return page.get_by_label("Search the documents")


def titles(page: Page) -> Locator:
    return page.get_by_role("heading", level=3)


def assert_legible(page: Page) -> None:
    """Have axe look at a page in light and in dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = AXE.run(page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], scheme
