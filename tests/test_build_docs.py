"""The documentation as a site: complete, linked, self-contained, and readable by the indexer."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from bs4 import BeautifulSoup

from indexer.config import CrawlLimits
from indexer.read.parsing import parse
from indexer.records import Page
from indexer.sources.round_robin import read_sources

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAMES = sorted(path.stem for path in DOCS.glob("*.md"))


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
    assert build_docs.build(DOCS, target) == len(NAMES)
    return target


@cache
def soup_of(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "lxml")


@cache
def ids_of(page: Path) -> frozenset[str]:
    return frozenset(str(element["id"]) for element in soup_of(page).select("[id]"))


def test_every_page_is_there(site):
    assert sorted(path.stem for path in site.glob("*.html")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_links_and_anchors(site, name):
    soup = soup_of(site / f"{name}.html")
    ids = [element["id"] for element in soup.select("[id]")]
    assert len(ids_of(site / f"{name}.html")) == len(ids)
    assert all(heading.get("id") for heading in soup.select("h1, h2, h3"))
    for link in soup.select("a[href]"):
        target, _, anchor = str(link["href"]).partition("#")
        if "://" in target:
            continue
        page = site / target if target else site / f"{name}.html"
        assert page.is_file(), link
        assert not anchor or anchor in ids_of(page), link


@pytest.mark.parametrize("name", NAMES)
def test_page_frame(site, name):
    soup = soup_of(site / f"{name}.html")
    assert len(soup.select("h1")) == 1
    assert soup.title is not None
    assert "Pilotlight" in soup.title.get_text()
    assert len(soup.select("nav a[aria-current=page]")) == 1
    assert {str(link["href"]) for link in soup.select("nav a")} >= {f"{other}.html" for other in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_loaded_from_elsewhere(site, name):
    soup = soup_of(site / f"{name}.html")
    loaded = {str(element.get("src") or element.get("href")) for element in soup.select("[src], link[href]")}
    assert {"icon.svg", "site.css"} <= loaded
    assert all(re.fullmatch(r"[\w-]+\.(?:svg|css)", file) for file in loaded)
    assert all((site / file).is_file() for file in loaded)
    assert not soup.select("script, style, iframe")


def test_stylesheet_loads_nothing(site):
    assert not re.search(r"@import|url\(|https?:", (site / "site.css").read_text(encoding="utf-8"))


def test_order_follows_the_index(site):
    shown = [str(link["href"]) for link in soup_of(site / "index.html").select("nav > ul > li > a")]
    linked = [f"{name}.html" for name in re.findall(r"\]\(([\w-]+)\.md", (DOCS / "index.md").read_text("utf-8"))]
    assert shown == ["index.html", *linked]


def test_the_indexer_reads_what_the_pages_say(site):
    pages = [item for item in read_sources([str(site)], CrawlLimits(), lambda due: None) if isinstance(item, Page)]
    assert len(pages) == len(NAMES)
    for page in pages:
        document = parse(page)
        source = (DOCS / f"{Path(page.url).stem}.md").read_text(encoding="utf-8")
        assert document.title == source.partition("\n")[0].removeprefix("# ")
        wanted = re.findall(r"^#{1,3} (.+)$", re.sub(r"```.*?```", "", source, flags=re.DOTALL), re.MULTILINE)
        found = [section.path[-1] for section in document.sections]
        assert set(found) <= {heading.replace("`", "") for heading in wanted}  # no navigation among them
        assert all(section.anchor for section in document.sections)


def test_building_again_replaces_pages_and_keeps_other_files(build_docs, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "site.css").write_text("")
    (source / "index.md").write_text("# Home\n\nSee [b](b.md#one-two) & [a](a.md).\n")
    (source / "a.md").write_text("# A < B\n\n## `code`\n")
    (source / "b.md").write_text('# B\n\n## One, two\n\n| x |\n|---|\n| y |\n\n```html\n<a href="a.md">\n```\n')
    (target / "gone.html").write_text("old")
    (target / "note.txt").write_text("mine")
    for _ in range(2):
        assert build_docs.build(source, target) == 3
    assert not (target / "gone.html").exists()
    assert (target / "note.txt").read_text() == "mine"
    home, b = soup_of(target / "index.html"), soup_of(target / "b.html")
    assert [str(link["href"]) for link in home.select("main > p a")] == ["b.html#one-two", "a.html"]
    assert b.select_one("h2#one-two") is not None
    assert b.select_one("pre").get_text() == '<a href="a.md">\n'
    assert [str(link["href"]) for link in b.select("footer a")] == ["index.html", "a.html"]
    title = soup_of(target / "a.html").title
    assert title is not None
    assert title.get_text() == "A < B · Pilotlight"


def test_a_folder_without_index_is_refused(build_docs, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"index\.md"):
        build_docs.build(tmp_path, tmp_path / "target")
