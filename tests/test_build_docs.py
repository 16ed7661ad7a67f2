"""The documentation as a site: complete, linked, self-contained, and readable by the indexer."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from bs4 import BeautifulSoup

from indexer.config import CrawlLimits
from indexer.read.document_reader import read_document
from indexer.records import Page
from indexer.sources.reading import Reading, read_sources

ROOT = Path(__file__).resolve().parents[1]
FILES = {"index": ROOT / "README.md"} | {path.stem: path for path in sorted((ROOT / "docs").glob("*.md"))}


@pytest.fixture(scope="module")
def build_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(build_docs, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("site")
    (target / "gone.html").write_text("old")
    (target / "note.txt").write_text("mine")
    assert build_docs.write_site(target) == len(FILES)
    return target


@cache
def soup_of(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "lxml")


@cache
def ids_of(page: Path) -> frozenset[str]:
    return frozenset(str(element["id"]) for element in soup_of(page).select("[id]"))


def test_every_page_is_there_and_pages_of_before_are_gone(site):
    assert {path.stem for path in site.glob("*.html")} == set(FILES)
    assert (site / "note.txt").read_text() == "mine"


@pytest.mark.parametrize("name", FILES)
def test_page(site, name):
    page = site / f"{name}.html"
    soup = soup_of(page)
    assert len(soup.select("h1")) == 1
    assert len(ids_of(page)) == len(soup.select("[id]"))
    assert all(heading.get("id") for heading in soup.select("h1, h2, h3"))
    assert soup.title is not None
    assert "Pilotlight" in soup.title.get_text()
    assert len(soup.select("nav a[aria-current=page]")) == 1
    assert {str(link["href"]) for link in soup.select("nav a")} >= {f"{other}.html" for other in FILES}
    for link in soup.select("a[href]"):
        target, _, anchor = str(link["href"]).partition("#")
        if "://" in target:
            continue
        linked = site / target if target else page
        assert linked.is_file(), link
        assert not anchor or anchor in ids_of(linked), link
    loaded = {str(element.get("src") or element.get("href")) for element in soup.select("[src], link[href]")}
    assert {"icon.svg", "site.css"} <= loaded
    assert all((site / file).is_file() for file in loaded)
    assert not soup.select("script, style, iframe")


def test_stylesheet_loads_nothing(site):
    assert not re.search(r"@import|url\(|https?:", (site / "site.css").read_text(encoding="utf-8"))


def test_the_indexer_reads_what_the_pages_say(site):
    pages = [item for item in read_sources([str(site)], Reading(CrawlLimits())) if isinstance(item, Page)]
    pages = [page for page in pages if page.url.endswith(".html")]
    assert len(pages) == len(FILES)
    for page in pages:
        document = read_document(page)
        source = FILES[Path(page.url).stem].read_text(encoding="utf-8")
        assert document.title == source.partition("\n")[0].removeprefix("# ")
        wanted = re.findall(r"^#{1,3} (.+)$", re.sub(r"```.*?```", "", source, flags=re.DOTALL), re.MULTILINE)
        found = [section.path[-1] for section in document.sections]
        assert set(found) <= {heading.replace("`", "") for heading in wanted}  # no navigation among them
        assert all(section.anchor for section in document.sections)
