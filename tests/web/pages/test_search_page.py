"""The page of a search, as a browser without scripts sees it."""

import re
from html import unescape
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from rag.errors import SettingsError
from rag.settings import Settings
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.running import library
from web.app import create_app
from web.display_urls import DisplayNames

BROWSER = {"Accept": "text/html"}
EVIL = '"><script>alert(1)</script>'


def without(html):
    """Parameters of the links that take one thing away from the search."""
    found = re.findall(r'<a href="([^"]+)" aria-label="Remove', html)
    return [parse_qs(urlsplit(unescape(href)).query) for href in found]


def test_empty_page_says_what_is_indexed(client, retriever):
    html = client.get("/").text
    assert all(words in html for words in ("1,170", "13,402", "20 Nov 2026", 'maxlength="10000"'))
    html = client.get("/?path=/guide&collection=notes&q=").text
    assert 'data-state="empty"' in html
    assert without(html) == [{"collection": ["notes"]}]  # without the path; the collection is chosen elsewhere
    assert 'value="notes" checked>' in html
    assert 'value="default" checked>' not in html
    assert retriever.calls == []


def test_several_collections_are_searched_as_one(client, retriever):
    html = client.get("/?collections=notes&collections=default").text
    assert "1,173" in html  # documents of both
    html = client.get("/?collections=notes,default&q=index&mode=dense").text
    assert html.count(" checked>") == 3
    assert [request.collections for request in retriever.requests] == ["notes,default"]
    assert "collections=notes%2Cdefault" in html


def test_answer_shows_title_section_url_and_marks(client, retriever):
    retriever.did_you_mean = "vacuum & co"
    html = client.get("/?q=partial+index&utm_source=x").text
    for part in (
        "<title>partial index – Pilotlight</title>",
        'value="partial index"',
        '<a href="https://docs.example/indexes/partial.html#part-1" rel="noopener noreferrer">Partial Indexes</a>',
        "<span>docs.example/indexes/</span><span>partial.html</span></p>",
        "Indexes › Partial Indexes",
        "A <mark>partial</mark> <mark>index</mark> is an index",
        "1 passage on 1 page<",
        '<a class="stay" href="/?q=vacuum+%26+co">vacuum &amp; co</a>',
    ):
        assert part in html, part


def test_scores_and_times_are_for_who_asks_for_them(client):
    html = client.get("/?q=index").text
    assert not any(part in html for part in ("0.72", " ms<", "Why this hit"))
    assert 'href="/?q=index&amp;explain=true">Why these hits?</a>' in html
    html = client.get("/?q=index&explain=true").text
    why = dict(re.findall("<dt>(.*)</dt><dd>(.*)</dd>", html))
    assert why["Meaning"] == "0.72, rank 3: 0.62 × 0.50 = 0.310"
    assert list(why) == ["Meaning", "Words", "Sum", "Limit", "Place"]
    assert 'href="/?q=index">Hide explanations</a>' in html
    assert '<input type="hidden" name="explain" value="true">' in html
    assert 'href="/?q=index&amp;explain=true&amp;open=chunk-1#hit-1"' in html


def test_everything_is_escaped_and_no_code_is_inline(client, retriever):
    retriever.hits = [make_hit(title=EVIL, section=EVIL, text=EVIL, url="https://x.example/" + EVIL)]
    response = client.get("/", query_string={"q": EVIL, "source": EVIL, f"meta.{EVIL}": EVIL})
    assert len(re.findall("<script", response.text)) == 3
    assert "alert(1)</script>" not in response.text
    assert len(without(response.text)) == 2
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", client.get("/?q=index").text)
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert policy.endswith("frame-ancestors 'none'")
    assert "unsafe" not in policy
    names = ("X-Content-Type-Options", "Referrer-Policy", "Cache-Control")
    assert [response.headers[name] for name in names] == ["nosniff", "no-referrer", "no-store"]
    assert not re.search(r'(?:src|href)="(?!/|#|https://x\.example)', response.text)


@pytest.mark.parametrize(
    "url",
    ["JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "data:text/html,<b>", "//evil.example/", "https://a\x00b", ""],
)
def test_unsafe_url_is_text(client, retriever, url):
    retriever.hits = [make_hit(url=url)]
    html = client.get("/?q=index").text
    assert re.findall('<h3><a href="([^"]*)"', html) == []
    assert "<h3>Partial Indexes</h3>" in html


def test_a_file_leads_to_its_text_here_and_no_url_reads_backwards(client, retriever):
    hit = make_hit(url="file:///srv/a%20b.zip!/c.md#x", duplicates=["file:///srv/d.md"])
    retriever.hits = [hit, make_hit(url="https://a.example/%E2%80%AEgpj.exe")]
    html = client.get("/?q=my+index&collection=notes").text
    address = f"/document/{hit.document}?passage=chunk-1&amp;q=my+index&amp;collection=notes#passage"
    assert re.findall('<h3><a href="(/[^"]*)"', html) == [address]
    assert 'href="file:' not in html
    assert "Also at d.md" in html  # not where it lies on the server
    assert "<span>a.example/</span><span>gpj.exe</span></p>" in html


def test_hits_of_one_page_stand_together_with_links_to_their_sections(client, retriever):
    there, here = "https://docs.example/other.html", "https://docs.example/indexes.html"
    retriever.hits = [
        make_hit(url=f"{here}#a", title="Indexes", section="Indexes", more=3),
        make_hit(url=there, title="Other", section=""),
        make_hit(url=f"{here}#b", title="Indexes", section="Indexes › Examples", more=3),
    ]
    html = client.get("/?q=index&language=en").text
    assert re.findall(r"<h3>(.*)</h3>", html) == [
        f'<a href="{here}#a" rel="noopener noreferrer">Indexes</a>',
        f'<a href="{there}" rel="noopener noreferrer">Other</a>',
    ]
    assert f'<p class="section"><a href="{here}#b" rel="noopener noreferrer">Examples</a></p>' in html
    assert re.findall(r'id="(hit-\d)"', html) == ["hit-1", "hit-3", "hit-2"]
    assert "3 passages on 2 pages" in html
    assert retriever.requests[-1].per_document is None
    [address] = re.findall('<a class="stay" href="([^"]*)">3 more from this page</a>', html)
    assert address == (
        "/?q=index&amp;language=en&amp;url_prefix=https%3A%2F%2Fdocs.example%2Findexes.html&amp;per_document=0"
    )
    html = client.get(unescape(address)).text
    assert retriever.requests[-1].per_document == 0
    assert 'href="/?q=index&amp;language=en" aria-label="Remove' in html


def test_what_it_is_narrowed_to_and_a_way_out_of_each(client, retriever):
    address = "/?q=index&mode=dense&language=en&language=de&from=2026-01-01&meta.team=core&utm_source=x&path="
    html = client.get(address).text
    everything = {
        "q": ["index"],
        "mode": ["dense"],
        "language": ["de", "en"],
        "from": ["2026-01-01"],
        "meta.team": ["core"],
    }
    hidden = re.findall(r'type="hidden" name="([^"]+)" value="([^"]+)"', html)
    assert hidden == [("language", "de"), ("language", "en"), ("from", "2026-01-01"), ("meta.team", "core")]
    assert without(html) == [
        {**everything, "language": ["en"]},
        {**everything, "language": ["de"]},
        {name: values for name, values in everything.items() if name != "from"},
        {name: values for name, values in everything.items() if name != "meta.team"},
    ]
    assert "team core" in html
    assert 'value="dense" checked' in html
    retriever.ready = False
    assert 'type="hidden" name="language" value="en"' in client.get(address, headers=BROWSER).text


def test_facets_are_links_that_narrow(client, retriever):
    retriever.hits = [
        make_hit(1, url="https://a.example/docs/17/x", language="en"),
        make_hit(2, url="https://a.example/docs/18/y", language="de"),
        make_hit(3, url="https://a.example/docs/18/z", language="en", content_type="text/markdown"),
    ]
    html = client.get("/?q=index&mode=dense").text
    found = re.findall(r'<li><a href="([^"]+)" title="([^"]+)"><bdi>.+?</bdi> <span>(\d)', html)
    assert found == [
        ("/?q=index&amp;mode=dense&amp;language=en", "en", "2"),
        ("/?q=index&amp;mode=dense&amp;language=de", "de", "1"),
        ("/?q=index&amp;mode=dense&amp;content_type=text%2Fhtml", "Web page", "2"),
        ("/?q=index&amp;mode=dense&amp;content_type=text%2Fmarkdown", "Markdown", "1"),
        ("/?q=index&amp;mode=dense&amp;path=%2Fdocs%2F18", "/docs/18", "2"),
        ("/?q=index&amp;mode=dense&amp;path=%2Fdocs%2F17", "/docs/17", "1"),
    ]
    narrowed = client.get("/?q=index&language=en&path=/docs").text
    assert "language=de" not in narrowed
    assert 'href="/?q=index&amp;language=en&amp;path=%2Fdocs%2F18"' in narrowed


@pytest.mark.parametrize(
    ("query_string", "status", "message"),
    [
        ("language=no+language", 400, "Language must be a language tag"),
        ("mode=both", 400, "Mode must be one of"),
        ("q=index&collection=gone", 404, "There is no collection"),
    ],
)
def test_page_says_what_is_wrong(client, query_string, status, message):
    response = client.get(f"/?{query_string}", headers=BROWSER)
    assert (response.status_code, response.mimetype) == (status, "text/html")
    assert message in response.text


def test_pages_have_the_name_of_the_operator():
    html = create_app(FakeRetriever(), Settings(site_name="Acme <Docs>")).test_client().get("/").text
    assert "<title>Acme &lt;Docs&gt;</title>" in html
    assert "Pilotlight" not in html
    with pytest.raises(SettingsError, match="must have 1 to 60 characters"):
        create_app(FakeRetriever(), Settings(site_name=" "))


def test_every_site_may_load_the_search_box_without_a_key_and_nothing_else():
    client = create_app(FakeRetriever(), Settings(anonymous="none")).test_client()
    with client.get("/embed.js") as response:
        assert (response.status_code, response.mimetype) == (200, "text/javascript")
        assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "public, max-age=3600"
    with client.get("/embed.js", headers={"If-None-Match": response.headers["ETag"]}) as again:
        assert again.status_code == 304
    for other in ("/static/embed.js", "/static/page.js", "/api/v1/search?q=a"):
        with client.get(other) as found:
            assert found.headers["Cross-Origin-Resource-Policy"] == "same-origin"


PLACES = DisplayNames(
    ["/srv/data/docs", "/srv/data/docs/old", "file:///home/me/notes.zip", "https://docs.example/guide/"]
)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///srv/data/docs/a%20b/c.md#x", "docs/a b/c.md"),
        ("file:///srv/data/docs/old/c.md", "old/c.md"),
        ("file:///srv/data/docs2/c.md", "c.md"),  # of no source
        ("git+file:///srv/data/docs/e.md", "docs/e.md"),
        ("https://docs.example/guide/f.html", "docs.example/guide/f.html"),
    ],
)
def test_a_file_is_named_from_its_source_on(url, place):
    assert PLACES.of(url) == place
    assert [PLACES.of_folder(path) for path in ("/srv/data/docs/sub", "/srv", "/guide/x")] == [
        "docs/sub",
        "srv",
        "/guide/x",
    ]
    assert PLACES.within("/srv/data/docs/x.md: cannot be read") == "docs/x.md: cannot be read"
    assert [DisplayNames(["/a/docs", "/b/docs/", "/c/x"]).of(path) for path in ("/a/docs", "/b/docs/y", "/c/x")] == [
        "a/docs",
        "b/docs/y",
        "x",
    ]


def test_the_page_narrows_by_names_and_shows_no_path_of_the_server(tmp_path):
    with library(tmp_path, pages=3) as retriever:
        client = create_app(retriever, Settings()).test_client()
        [root] = retriever.describe()["sources"]
        for address in ("/?q=index", "/?q=index&source=source", "/?q=index&path=source", "/status"):
            page = client.get(address).text
            assert "source" in page
            assert root not in page
            assert quote(root, safe="") not in page
            if address != "/status":
                assert page.count('class="hit"') == 3
        names = client.get("/api/v1/suggest?q=number&source=source").json["suggestions"]
        assert [each["text"] for each in names] == ["Number 1", "Number 2", "Number 3"]
        assert client.get("/api/v1/suggest?q=number&source=other").json["suggestions"] == []
