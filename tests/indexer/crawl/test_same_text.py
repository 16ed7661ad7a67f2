"""Pages of a site that have the same text: mistaken canonical addresses, soft 404, and other views of a page."""

import itertools
from http.server import BaseHTTPRequestHandler

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import _VIEW as VIEW
from indexer.crawl.same_text import view_pattern
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, send

TEXTS = {
    "hops": "Hops are picked in September and dried for two days in the loft above the stable of the brewery.",
    "malt": "Malt is barley that was left to sprout for a week and then roasted over beech wood by two men.",
    "yeast": "Yeast eats sugar and leaves alcohol and bubbles behind in the copper tank below the old bridge.",
}
NAV = "".join(f'<a href="/{name}">{name}</a> ' for name in TEXTS)
PLAIN, MARKDOWN = {"Content-Type": "text/plain"}, {"Content-Type": "text/markdown"}


def html(name: str, text: str, *, head: str = "", more: str = "", nav: str = NAV) -> str:
    return (
        f"<!doctype html><html lang=en><head><title>{name}</title>{head}</head><body><nav>{nav}</nav>"
        f"<main><h1>{name}</h1><p>{text}</p></main><footer>{more}</footer></body></html>"
    )


def brewery(site: Site, head: str = "", more: str = "") -> None:
    """Add a start page and three pages; `{}` stands for the name of a page."""
    site.routes["/"] = html("Start", "The brewery was founded by monks in the old town in 1420.", head=head)
    for name, text in TEXTS.items():
        site.routes[f"/{name}"] = html(name, text, head=head, more=more.format(name))


def skipped(report: object) -> dict[str, int]:
    return {group.reason: group.count for group in report.skipped}  # type: ignore[attr-defined]


PAGES = ["/", "/hops", "/malt", "/yeast"]


@pytest.mark.parametrize("named", ["/", "/hops", "/gone", "/?x=1"])
def test_a_template_that_names_one_page_everywhere(site: Site, work: Work, named: str) -> None:
    brewery(site, head=f'<link rel="canonical" href="{named}">')
    report = work.build(site.url)
    assert work.paths(site) == PAGES
    assert {note.count for note in report.notes} <= {3, 4}
    assert report.notes[0].reason.startswith("the page at its canonical address has different text")
    assert max(site.hits.count(path) for path in PAGES) == 1
    site.hits.clear()
    assert not work.build(site.url).published


def test_an_address_that_two_pages_name_at_once_is_fetched_once(site: Site, work: Work) -> None:
    site.routes["/"] = html("Start", "Two views.", nav='<a href="/a">a</a> <a href="/b">b</a>')
    view = html("Hops", TEXTS["hops"], head='<link rel="canonical" href="/hops">', nav="")

    def reply_late(handler: BaseHTTPRequestHandler) -> None:
        site.stopping.wait(1.0)
        send(handler, Reply(view.encode()))

    site.routes |= {"/a": view, "/b": view, "/hops": reply_late}
    work.build(site.url)
    assert work.paths(site) == ["/", "/hops"]
    assert site.hits.count("/hops") == 1


def test_the_pages_of_a_list_that_name_the_first(site: Site, work: Work) -> None:
    head = '<link rel="canonical" href="/list">'
    rows = {
        number: "".join(f"<p>Barrel {number}{row} holds beer of {row}.</p>" for row in range(9)) for number in "123"
    }
    site.routes["/"] = html("Start", "See the list.", nav='<a href="/list?sort=up">up</a> <a href="/list?page=2">2</a>')
    site.routes["/list"] = html("Barrels", rows["1"], head=head)
    site.routes["/list?sort=up"] = html("Barrels", rows["1"], head=head)
    site.routes["/list?page=2"] = html("Barrels", rows["2"] + rows["3"], head=head)
    report = work.build(site.url)
    assert [path for path in work.paths(site) if path.startswith("/list")] == ["/list", "/list?page=2"]
    assert [note.count for note in report.notes] == [1]


@pytest.mark.parametrize("folder", ["", "shop/"])
@pytest.mark.parametrize(
    "missing",
    [
        "Sorry, the page {} could not be found. It may have moved. Try the search or go back to the start page.",
        "Nichts gefunden: Diese Seite gibt es nicht (mehr). Bitte nutzen Sie die Suche.",
        "お探しのページは見つかりませんでした。{}",
        "Something went wrong: please tell the office {number}-ab, {number}.",
    ],
)
def test_answers_for_addresses_that_do_not_exist(site: Site, work: Work, missing: str, folder: str) -> None:
    brewery(site, more=f'<a href="/{folder}old-{{}}">old</a>')
    no_page = Reply(b"", 404)
    numbers = itertools.count(10)

    def answer(path: str) -> Reply:
        text = missing.format(path, number=next(numbers))
        return Reply(html("Oh", text).encode()) if path[1:].startswith(folder) else no_page

    site.missing = answer
    report = work.build(site.url)
    assert work.paths(site) == PAGES
    assert sorted(skipped(report).values()) == [3]
    made_up = 2 if folder else 1
    assert len(site.hits) == 1 + 4 + 3 + made_up, "robots.txt, pages, and an address that does not exist in each folder"


def test_a_site_that_knows_what_it_does_not_have_keeps_such_texts(site: Site, work: Work) -> None:
    brewery(site, more='<a href="/error-{}">x</a>')
    for name in TEXTS:
        site.routes[f"/error-{name}"] = html("404", f"Error 404 means that a page is not found, as {name} may tell.")
    work.build(site.url)
    assert len(work.paths(site)) == 7


@pytest.mark.parametrize(
    ("link", "headers"),
    [
        ("/_sources/{}.md", MARKDOWN), ("/{}.md", PLAIN), ("/raw/{}", PLAIN), ("/{}?plain=1", None),
        ("/print/{}", None), ("/{}/print", None), ("/show?page={}&as=text", None), ("/{}.rst.txt", PLAIN),
        ("/{}.html.md", MARKDOWN),
    ],
)  # fmt: skip
def test_other_views_of_a_page(site: Site, work: Work, link: str, headers: dict[str, str] | None) -> None:
    brewery(site, more=f'<a href="{link}">view</a>')
    for name, text in TEXTS.items():
        note = "> See /llms.txt\n\n" * link.endswith(".html.md")
        view = html(name, text, nav="") if headers is None else f"{note}# {name}\n\n{text}\n"
        site.routes[link.format(name)] = Reply(view.encode(), 200, headers or {"Content-Type": "text/html"})
    report = work.build(site.url)
    assert work.paths(site) == PAGES
    assert skipped(report) == {VIEW: 3}


@pytest.mark.parametrize("link", ["/v2/{}", "/de/{}", "/{}?lang=de"])
def test_other_versions_and_languages_are_no_views(site: Site, work: Work, link: str) -> None:
    brewery(site, more=f'<a href="{link}">other</a>')
    nav = "".join(f'<a href="{link.format(name)}">{name}</a>' for name in TEXTS)
    for name, text in TEXTS.items():
        same = text if link == "/v2/{}" else f"{name} auf Deutsch: das Bier reift im Keller hinter dem Haus und {name}."
        site.routes[link.format(name)] = html(name, same, nav=nav)
    work.build(site.url)
    assert len(work.paths(site)) == 7


@pytest.mark.parametrize(
    ("source", "are_views"),
    [
        ("Tides\n=====\n\n.. toctree::\n   :maxdepth: 2\n\nSoon.\n", True),
        ("Tides\n\nLow at noon, tomorrow at one.", False),
    ],
)
def test_sources_of_short_pages(site: Site, work: Work, source: str, are_views: bool) -> None:
    site.routes["/"] = html("Start", TEXTS["hops"], nav='<a href="/t.html">t</a>')
    site.routes["/t.html"] = html("Tides", "Soon.", more='<a href="/_sources/t.rst.txt">source</a>')
    site.routes["/_sources/t.rst.txt"] = Reply(source.encode(), 200, PLAIN)
    work.build(site.url)
    assert len(work.paths(site)) == (2 if are_views else 3)


def test_pages_that_differ_by_a_query_are_no_views_although_they_have_one_title(site: Site, work: Work) -> None:
    more = '<a href="/faq?page=2">2</a> <a href="/faq?page=3">3</a>'
    site.routes["/"] = html("Start", TEXTS["hops"], nav='<a href="/faq">t</a>')
    site.routes["/faq"] = html("Tides", "Low at noon.", more=more)
    site.routes["/faq?page=2"] = html("Tides", "High at seven, and low again.", nav="")
    site.routes["/faq?page=3"] = html("Tides", "Spring tide at new moon.", nav="")
    work.build(site.url)
    assert set(work.paths(site)) == {"/", "/faq", "/faq?page=2", "/faq?page=3"}


def test_a_source_with_text_of_its_own_is_read(site: Site, work: Work) -> None:
    brewery(site, more='<a href="/{}.md">more</a>')
    for name in TEXTS:
        text = f"# {name}\n\nThe long story of {name}, which the page does not tell, begins in a village by the sea.\n"
        site.routes[f"/{name}.md"] = Reply(text.encode(), 200, MARKDOWN)
    work.build(site.url)
    assert len(work.paths(site)) == 7


def test_views_that_all_pages_have_are_not_fetched(site: Site, work: Work) -> None:
    names = [f"page{number}" for number in range(30)]
    site.routes["/"] = html("Start", "Thirty pages.", nav="".join(f'<a href="/{name}">{name}</a>' for name in names))
    for name in names:
        text = " ".join(f"{name} has the word {name}{number}." for number in range(12))
        site.routes[f"/{name}"] = html(name, text, nav="", more=f'<a href="/src/{name}.txt">source</a>')
        site.routes[f"/src/{name}.txt"] = Reply(text.encode(), 200, PLAIN)
    report = work.build(site.url, limits=CrawlLimits(allow_private=True, concurrency=1))
    assert len([hit for hit in site.hits if hit.startswith("/src/")]) < 15
    assert len(work.paths(site)) == 31
    assert skipped(report) == {VIEW: 30}


def test_a_sitemap_of_pages_and_their_sources(site: Site, work: Work) -> None:
    brewery(site)
    site.routes["/robots.txt"] = "Sitemap: /all.txt\n"
    site.routes["/all.txt"] = Reply("\n".join(f"{site.url}/{n}\n{site.url}/{n}.md" for n in TEXTS).encode(), 200, PLAIN)
    site.routes |= {f"/{n}.md": Reply(f"# {n}\n\n{text}".encode(), 200, MARKDOWN) for n, text in TEXTS.items()}
    work.build(site.url)
    assert work.paths(site) == PAGES


def test_files_for_language_models_repeat_the_pages(site: Site, work: Work) -> None:
    brewery(site, more='<a href="/llms-full.txt">for models</a> <a href="/llms.txt">list</a>')
    site.routes["/llms-full.txt"] = Reply("\n\n".join(f"# {n}\n\n{t}" for n, t in TEXTS.items()).encode(), 200, PLAIN)
    site.routes["/llms.txt"] = Reply(b"# Brewery\n\n- [hops](/hops.md)\n- [cellar](/cellar.md)\n", 200, PLAIN)
    site.routes["/hops.md"] = Reply(f"# hops\n\n{TEXTS['hops']}".encode(), 200, MARKDOWN)
    site.routes["/cellar.md"] = Reply(
        b"# Cellar\n\nThe cellar is cold and dark, and holds forty barrels.", 200, MARKDOWN
    )
    work.build(site.url)
    assert work.paths(site) == ["/", "/cellar.md", *PAGES[1:]]


@pytest.mark.parametrize(
    ("page", "link", "pattern"),
    [
        ("/a/b.html", "/_sources/a/b.rst.txt", ">_sources/*.rst.txt?"),
        ("/d/numpy.ndarray.html", "/d/_sources/numpy.ndarray.rst.txt", ">_sources/*.rst.txt?"),
        ("/a/", "/a/index.md", ">/*.md?"), ("/a/", "/a.md", ">/*.md?"), ("/", "/index.md", ">/*.md?"),
        ("/o/n/blob/main/x.md", "/o/n/raw/main/x.md", "blob>raw/*.md?"), ("/a?x=1", "/a?x=1&print=y", "?x&print"),
        ("/wiki/A", "/w/index.php?title=wiki/A&action=edit", "/w/index.php?title=*&action=edit"),
        ("/wiki/A", "/index.php?title=A&printable=yes", "/index.php?title=*&printable=yes"),
        ("/a/b", "/a/b/print", "*/print"), ("/a/b", "/a/c", None), ("/a/b", "/a/", None), ("/", "/a", None),
        ("/a/b", "/a/b", None), ("/a/b/c/d", "/x/d", None),
    ],
)  # fmt: skip
def test_how_addresses_are_made(page: str, link: str, pattern: str | None) -> None:
    assert view_pattern(f"http://t.test{page}", f"http://t.test{link}") == pattern
