"""Ways out of what a job may read: a page, a redirect or a list below the place that is allowed names another."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.errors import SourceError
from indexer.generation.layout import current_id
from indexer.generation.manifest import read_manifest
from indexer.records import Failure, Known, Page, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import read_path
from indexer.sources.reading import Reading, read_sources
from indexer.urls import is_below
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, page, redirect

SECRET = "secret"
XML = {"Content-Type": "application/xml"}
LINK = {"Content-Type": "text/html", "Link": '</admin/secret.html>; rel="canonical"'}
# what is served at an address below /docs/; everything else that is not named here is secret
WAYS: dict[str, dict[str, Reply | str]] = {
    "link": {"/docs/": page("<a href=/admin/secret.html>x</a>")},
    "link upwards": {"/docs/": page("<a href=../admin/secret.html>x</a>")},
    "link with escaped dots": {"/docs/": page("<a href=%2e%2e/admin/secret.html>x</a>")},
    "link with an escaped slash": {"/docs/": page("<a href=..%2fadmin/secret.html>x</a>")},
    "link escaped twice": {"/docs/": page("<a href=%252e%252e/admin/secret.html>x</a>")},
    "link with a backslash": {"/docs/": page(r"<a href='..\admin\secret.html'>x</a>")},
    "link with a parameter": {"/docs/": page("<a href='..;/admin/secret.html'>x</a>")},
    "neighbour of that name": {"/docs/": page("<a href=/docs-internal/secret.html>x</a>")},
    "base": {"/docs/": "<base href=/admin/><a href=secret.html>x</a>"},
    "redirect": {"/docs/": page("<a href=r>x</a>"), "/docs/r": redirect("/admin/secret.html")},
    "second redirect": {"/docs/": page("<a href=r>x</a>"), "/docs/r": redirect("s"), "/docs/s": redirect("/admin/x")},
    "redirect of the start": {"/docs/": redirect("/admin/secret.html")},
    "canonical link": {"/docs/": "<link rel=canonical href=/admin/secret.html><p>text"},
    "canonical header": {"/docs/": Reply(b"<p>text", headers=LINK)},
    "Markdown": {"/docs/": Reply(b"[x](/admin/secret.md)", headers={"Content-Type": "text/markdown"})},
    "sitemap": {"/docs/": Reply(b"<urlset><url><loc>/admin/x</loc></url></urlset>", headers=XML)},
    "sitemap of sitemaps": {
        "/docs/": Reply(b"<sitemapindex><sitemap><loc>/s.xml</loc></sitemap></sitemapindex>", headers=XML)
    },
    "sitemap in robots.txt": {
        "/robots.txt": Reply(b"Sitemap: /secret.xml\nSitemap: /docs/map.xml"),
        "/docs/map.xml": Reply(b"<urlset><url><loc>/admin/secret.html</loc></url></urlset>", headers=XML),
        "/docs/": page("text"),
    },
    "feed": {"/docs/": Reply(b"<feed><entry><link href='/admin/secret.html'/></entry></feed>", headers=XML)},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_is_asked_for(way: str, site: Site) -> None:
    site.routes |= {"/robots.txt": Reply(b""), **WAYS[way]}
    start = f"{site.url}/docs/"
    limits = CrawlLimits(timeout=20.0, allow_private=("127.0.0.2/32",), within={start: (start,)})
    try:
        read = [item for item in crawl(SourceContext(start, limits)) if isinstance(item, Page)]
    except SourceError:  # the start leads nowhere else
        read = []
    assert all(SECRET not in item.body.decode() or item.url.startswith(start) for item in read)
    outside = [path for path in site.hits if not path.startswith("/docs/") and path != "/robots.txt"]
    assert outside == []
    assert not any(".." in path or "%2e" in path.lower() for path in site.hits)


def test_without_bounds_links_lead_anywhere_on_the_site(site: Site) -> None:
    site.routes |= {"/robots.txt": Reply(b""), "/docs/": WAYS["link"]["/docs/"], "/admin/secret.html": page(SECRET)}
    limits = CrawlLimits(timeout=20.0, allow_private=("127.0.0.2/32",))
    assert len(list(crawl(SourceContext(f"{site.url}/docs/", limits)))) == 2


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_path_that_became_a_link_after_the_job_was_allowed(kind: str, tmp_path: Path) -> None:
    for folder in ("allowed/guide", "outside"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "page.md").write_text(SECRET)
    source = tmp_path / "allowed" / "guide" / ("page.md" if kind == "file" else "")
    places = (str(tmp_path / "allowed"),)
    assert is_below(str(source), places)
    (tmp_path / "allowed" / "guide").rename(tmp_path / "allowed" / "was")
    (tmp_path / "allowed" / "guide").symlink_to(tmp_path / "outside")
    limits = CrawlLimits(within={str(source): places})
    with pytest.raises(SourceError, match="leads out of"):
        list(read_sources([str(source)], Reading(limits)))


def test_a_source_stays_within_whoever_reads_it_again(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "a.md").write_text("Cats sleep.")
    work, source, places = Work(tmp_path / "index"), str(tmp_path / "guide"), (str(tmp_path),)
    work.build(source, within={source: places})
    (tmp_path / "guide" / "b.md").write_text("Dogs bark.")
    work.build(source)
    manifest = read_manifest(work.index / "generations" / current_id(work.index))
    assert manifest.counts.documents == 2
    assert manifest.settings["crawl"]["within"] == {source: list(places)}


Item = Page | Known | Skip | Failure


def swap(path: Path, target: Path) -> None:
    """Put a link in the place of a folder or file."""
    path.rename(path.with_name(f"{path.name}.was"))
    path.symlink_to(target)


# What is done once the folder is listed and its first file is read.
SWAPS: dict[str, Callable[[Path, Path], None]] = {
    "a folder for a link": lambda docs, outside: swap(docs / "b", outside),
    "a folder for a relative link": lambda docs, outside: swap(docs / "b", Path("../outside")),
    "a folder above it": lambda docs, outside: swap(docs / "c", outside / "up"),
    "the root": lambda docs, outside: swap(docs, outside.parent / "other"),
    "a file": lambda docs, outside: swap(docs / "b" / "page.md", outside / "page.md"),
    "a file for a link to itself": lambda docs, outside: swap(docs / "b" / "page.md", Path("page.md")),
    "a folder for a link to /proc": lambda docs, outside: swap(docs / "b", Path("/proc/self/root") / outside),
}


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder to read, and others beside it that hold a secret under the same names."""
    for folder in ("docs/b", "docs/c/d", "outside/up/d", "other/b", "other/c/d"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("docs/a.md", "docs/b/page.md", "docs/c/d/page.md"):
        (tmp_path / name).write_text(f"healthy {name}")
    for name in ("outside/page.md", "outside/up/d/page.md", "other/b/page.md", "other/c/d/page.md", "other/a.md"):
        (tmp_path / name).write_text(SECRET)
    return tmp_path / "docs"


def bodies(items: list[Item]) -> list[bytes]:
    return [item.body for item in items if isinstance(item, Page)]


@pytest.mark.parametrize("name", SWAPS)
def test_nothing_outside_is_read_whatever_is_swapped_after_the_listing(name: str, docs: Path, tmp_path: Path) -> None:
    items = read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000)))
    first = next(items)
    SWAPS[name](docs, tmp_path / "outside")
    rest = list(items)
    read = bodies([first, *rest])
    assert SECRET.encode() not in read
    assert b"healthy docs/a.md" in read
    assert len(read) + sum(isinstance(item, Failure) for item in rest) == 3, "what is not read is named"


@pytest.mark.parametrize("name", SWAPS)
def test_nothing_outside_is_listed_whatever_is_swapped_during_the_listing(
    name: str, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, is_swapped = os.listdir, False

    def listed(handle: int) -> list[str]:
        nonlocal is_swapped
        names = real(handle)
        if not is_swapped:
            is_swapped = True
            SWAPS[name](docs, tmp_path / "outside")
        return names

    monkeypatch.setattr(os, "listdir", listed)
    items = list(read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000))))
    assert is_swapped
    assert SECRET.encode() not in bodies(items)


def test_no_descriptor_is_left_open(docs: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert len(bodies(list(read_path(SourceContext(str(docs), CrawlLimits(max_bytes=1_000)))))) == 3
    assert len(os.listdir("/proc/self/fd")) == before
