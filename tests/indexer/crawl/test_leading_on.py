"""Pages that lead on: refreshes, frames, scripts, listings of folders; and start pages that lead nowhere."""

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.crawler import crawl
from indexer.crawl.http_response import read_links
from indexer.errors import NothingToIndex
from indexer.records import Page
from indexer.source_context import SourceContext
from tests.indexer.conftest import make_page
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.pipeline.incremental import Work
from tests.indexer.server import Reply, Site, page

HTML = {"Content-Type": "text/html"}
WORDS = "The kettle boils a litre of water in three minutes. " * 12


@pytest.mark.parametrize(
    "markup",
    [
        "<meta http-equiv='refresh' content='0; url=\"guide\"'>",
        '<meta http-equiv="refresh" content="  0.5 ;  Url  =  guide#part ">',
        '<meta http-equiv="refresh" content="5; guide"><p>This page has moved to <a href="/guide">the guide</a>.',
        '<!DOCTYPE html><head><noscript><meta http-equiv="refresh" content="0; url=guide"></noscript></head>',
        '<script>x()</script><noscript><p>You are sent on</p><meta http-equiv="refresh" content="1;guide"></noscript>',
        f'<meta http-equiv="refresh" content="0; url=guide"><p>{WORDS}',
        '<meta name="robots" content="noindex, nofollow"><meta http-equiv="refresh" content="0; url=guide">',
    ],
)
def test_refreshes_are_followed_like_redirects(site: Site, limits: CrawlLimits, markup: str) -> None:
    site.routes["/"] = markup
    site.pages(guide=link("/more"), more="more")
    assert run(site, limits) == (["/guide", "/more"], {}, {})


@pytest.mark.parametrize("seconds", [0, 5])
def test_a_refresh_without_scripts_leaves_menus_alone(site: Site, limits: CrawlLimits, seconds: int) -> None:
    refresh = f'<noscript><meta http-equiv="refresh" content="{seconds}; url=plain"></noscript>'
    site.pages(index=refresh + link("/guide"), plain="Use a browser with scripts.", guide="guide")
    assert run(site, limits)[0] == ["/", "/guide", "/plain"]


def test_headers_lead_on_as_markup_does(site: Site, limits: CrawlLimits) -> None:
    site.routes["/"] = Reply(b"", 200, HTML | {"Refresh": "0; url=/guide"})
    site.pages(guide="guide")
    assert run(site, limits)[0] == ["/guide"]


@pytest.mark.parametrize("content", ["0", "0; url=/", "0; url=", "1800;url=/next", "0; url=mailto:a@b", "10; url=next"])
def test_refreshes_that_lead_nowhere_or_leave_time_to_read(site: Site, limits: CrawlLimits, content: str) -> None:
    site.routes["/"] = f'<meta http-equiv="refresh" content="{content}"><p>{WORDS}</p>'
    site.pages(next="next")
    assert run(site, limits) == (["/", "/next"] if content.startswith("10;") else ["/"], {}, {})


def test_refreshes_end_and_stay_on_the_site(site: Site, sentinel: Site, limits: CrawlLimits) -> None:
    def to(place: str) -> str:
        return f'<meta http-equiv="refresh" content="0; url={place}"> {place}'

    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    site.pages(index=link("/one", "/other", "/door", "/gone", "/0"))
    site.routes |= {"/one": to("/two"), "/two": to("/one"), "/other": to(sentinel.url), "/door": to("/private")}
    site.routes |= {"/gone": to("/404")} | {f"/{number}": to(f"/{number + 1}") for number in range(9)}
    pages, skips, failures = run(site, limits)
    assert pages == ["/", "/two", "/5"]
    assert skips == {"/other": "noindex", "/door": "noindex"}
    assert failures == {"/gone": "HTTP 404"}
    assert sentinel.hits == []


def test_a_refresh_that_is_refused_is_named(site: Site, sentinel: Site, work: Work) -> None:
    site.routes["/"] = f'<meta http-equiv="refresh" content="0; url={sentinel.url}">'
    with pytest.raises(NothingToIndex, match=r"leads to no other page: .*1 skipped .redirect to another site .http"):
        work.build(site.url)


@pytest.mark.parametrize(
    "markup",
    [
        '<frameset cols="20%,80%"><frame src="menu"><frame src="text"><noframes>Use a browser with frames</noframes>',
        "<HTML><FRAMESET ROWS='*,*'><FRAME SRC='/menu#top'><FRAMESET><FRAME NAME=x SRC=text></FRAMESET></FRAMESET>",
    ],
)
def test_framesets_are_followed_and_not_indexed(site: Site, limits: CrawlLimits, markup: str) -> None:
    site.routes["/"] = markup
    site.pages(menu=link("/text", "/more"), text="text", more="more")
    assert run(site, limits) == (["/menu", "/text", "/more"], {"/": "noindex"}, {})


@pytest.mark.parametrize(
    ("markup", "found"),
    [('<iframe src="inner" width="100%"></iframe>', ["inner"]), (f'<p>{WORDS}<iframe src="video"></iframe>', [])],
)
def test_frames_that_are_all_there_is(markup: str, found: list[str]) -> None:
    urls = read_links(make_page(f"<html>{markup}", url="http://t.test/")).urls
    assert urls == tuple(f"http://t.test/{name}" for name in found)


APACHE = """<html><head><title>Index of /pub</title></head><body><h1>Index of /pub</h1><table>
<tr><th valign="top"><img src="/icons/blank.gif" alt="[ICO]"></th><th><a href="?C=N;O=D">Name</a></th>
<th><a href="?C=M;O=A">Last modified</a></th><th><a href="?C=S;O=A">Size</a></th></tr>
<tr><td><img src="/icons/back.gif" alt="[PARENTDIR]"></td><td><a href="/">Parent Directory</a></td><td> - </td></tr>
<tr><td><a href="a.txt">a.txt</a></td><td align="right">2026-01-31 10:00  </td><td> 12K</td></tr>
<tr><td><a href="a%20long%20name%20of%20a%20file.pdf">a long name of a fi..&gt;</a></td><td>2026-01-31 10:00</td></tr>
<tr><td><a href="sub/">sub/</a></td><td align="right">2026-01-31 10:00  </td><td>  - </td></tr></table>
<address>Apache/2.4.57 (Debian) Server at t.test Port 80</address></body></html>"""
LISTED = ("a.txt", "a%20long%20name%20of%20a%20file.pdf", "sub/")
NGINX = """<html><head><title>Index of /pub/</title></head><body><h1>Index of /pub/</h1><hr><pre><a href="../">../</a>
<a href="sub/">sub/</a>                     31-Jan-2026 10:00       -
<a href="a.txt">a.txt</a>                   31-Jan-2026 10:00      12
</pre><hr></body></html>"""
IIS = """<html><head><title>t.test - /pub/</title></head><body><H1>t.test - /pub/</H1><hr><pre><A HREF="/">[To Parent
Directory]</A><br><br> 1/31/2026 10:00 AM        &lt;dir&gt; <A HREF="/pub/sub/">sub</A><br>
 1/31/2026 10:00 AM           12 <A HREF="/pub/a.txt">a.txt</A><br></pre><hr></body></html>"""
EMPTY = """<html><head><title>Index of /pub/</title></head><body><h1>Index of /pub/</h1><hr><pre><a href="../">../</a>
</pre><hr></body></html>"""


@pytest.mark.parametrize(
    ("markup", "found"),
    [
        (APACHE, [*LISTED]),
        (NGINX, ["sub/", "a.txt"]),
        (IIS, ["sub/", "a.txt"]),
        (EMPTY, []),
        ("<title>Index of /pub</title><ul><li><a href='/'> Parent Directory</a><li><a href='a'> a</a>", ["a"]),
    ],
)  # fmt: skip
def test_listings_of_folders_are_followed_and_not_indexed(markup: str, found: list[str]) -> None:
    links = read_links(make_page(markup, url="http://t.test/pub/"))
    assert links.urls == tuple(f"http://t.test/pub/{name}" for name in found)
    assert (links.noindex, links.followed_kind) == (True, "a listing of a folder")


@pytest.mark.parametrize(
    "markup",
    [
        f'<title>Index of /pub</title><a href="../">../</a> <a href="a.txt">a.txt</a><p>{WORDS}',
        '<title>Releases</title><a href="1.0/">1.0</a> <a href="2.0/">2.0</a>',
        '<title>About /pub/</title><a href="a.html">Our first article</a> <a href="b.html">The second one</a>',
    ],
)
def test_pages_that_are_no_listings(markup: str) -> None:
    assert not read_links(make_page(markup, url="http://t.test/pub/")).noindex


def test_a_listing_is_crawled_downwards(site: Site, work: Work) -> None:
    site.routes |= {"/pub/": NGINX, "/pub/a.txt": page("Words"), "/pub/sub/": EMPTY, "/": page("Start")}
    report = work.build(f"{site.url}/pub/")
    assert report.documents == 1
    assert [(group.reason, group.count) for group in report.skipped] == [("a listing of a folder", 2)]
    assert not work.build(f"{site.url}/pub/").published
    assert "/" not in site.hits


NOFOLLOW = '<a rel="nofollow" href="/a">a</a> <a rel="ugc nofollow" href="/b">b</a>'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("<p>Words", "it has no links"),
        ("<div id=app></div><script src=app.js></script>", "rendered by scripts, try --render"),
        ("<p>Words" + link("http://other.test/", "https://127.0.0.2:1/"), "it has only links to other hosts"),
        (f"<p>Words {NOFOLLOW}", "all its links are nofollow"),
        ('<meta name="robots" content="nofollow">' + link("/a", "/b", "/c"), "all its links are nofollow"),
        ("<p>Words" + link("/private/a", "/private/b"), "its links are excluded or point to it"),
    ],
)
def test_a_start_page_that_leads_nowhere_says_why(site: Site, body: str, why: str) -> None:
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    site.routes["/"] = Reply(f"<html><body>{body}{WORDS if 'Words' in body else ''}".encode(), 200, HTML)
    limits = CrawlLimits(allow_private=True)
    notes = [item.note for item in crawl(SourceContext(site.url, limits)) if isinstance(item, Page)]
    assert len(notes) == 1
    assert notes[0].startswith("the start page leads to no other page: ")
    assert why in notes[0]
