import re
from html import unescape
from pathlib import Path

import pytest
from flask import Flask, abort
from flask.testing import FlaskClient

import web
from tests.web.fakes import FakeRetriever, make_hit

WEB = Path(web.__path__[0])


def test_empty_page_says_what_is_indexed(client: FlaskClient, retriever: FakeRetriever) -> None:
    html = client.get("/").text
    assert "1,170" in html
    assert "13,402" in html
    assert "20 Nov 2026" in html
    assert retriever.calls == []


def test_answer_shows_title_section_url_and_marks(client: FlaskClient) -> None:
    html = client.get("/?q=partial+index&utm_source=x").text
    assert "<title>partial index – Pilotlight</title>" in html
    assert 'value="partial index"' in html
    assert (
        '<a href="https://docs.example/indexes/partial.html#part-1" rel="noopener noreferrer">Partial Indexes</a>'
        in html
    )
    assert "<span>docs.example/indexes/</span><span>partial.html</span></p>" in html
    assert "Indexes › Partial Indexes" in html
    assert "A <mark>partial</mark> <mark>index</mark> is an index" in html
    assert "1 passage on 1 page<" in html


def test_scores_and_times_are_for_who_asks_for_them(client: FlaskClient) -> None:
    html = client.get("/?q=index").text
    assert "0.72" not in html
    assert " ms<" not in html
    assert "Why this hit" not in html
    assert 'href="/?q=index&amp;explain=true">Why these hits?</a>' in html
    html = client.get("/?q=index&explain=true").text
    assert re.findall("<dt>(.*)</dt><dd>(.*)</dd>", html) == [
        ("Meaning", "0.72, rank 3: 0.62 × 0.50 = 0.310"),
        ("Words", "14.3, rank 1: 1.00 × 0.50 = 0.500"),
        ("Matches", "partial in title, body; index in body"),
        ("Sum", "0.810"),
        ("Boilerplate", "50% repeated: × 0.950 gives 0.769"),
        ("Boosts", "language=en*1.2 × 1.200: gives 0.923"),
        ("Place", "2 of 143 candidates; stands for 1 duplicate; 2 more of its document left out"),
    ]
    assert 'href="/?q=index">Hide explanations</a>' in html
    assert '<input type="hidden" name="explain" value="true">' in html
    assert "<span>total 3.1 ms</span><span>embed 2.0 ms</span><span>dense 0.7 ms</span>" in html
    assert 'href="/?q=index&amp;explain=true&amp;open=chunk-1#hit-1"' in html


def test_no_hits(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = []
    assert "Nothing found" in client.get("/?q=zebra").text


def test_query_and_hits_are_escaped(client: FlaskClient, retriever: FakeRetriever) -> None:
    evil = '"><script>alert(1)</script>'
    retriever.hits = [make_hit(title=evil, section=evil, text=evil, url="https://x.example/" + evil)]
    html = client.get("/", query_string={"q": evil}).text
    assert len(re.findall("<script", html)) == 3
    assert "alert(1)</script>" not in html


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,<b>",
        "vbscript:x",
        "//evil.example/",
        "http:evil",
        "https://a b",
        "https://a\x00b",
        "file:relative",
        "",
    ],
)
def test_unsafe_url_is_text(client: FlaskClient, retriever: FakeRetriever, url: str) -> None:
    retriever.hits = [make_hit(url=url)]
    html = client.get("/?q=index").text
    assert re.findall('<h3><a href="([^"]*)"', html) == []
    assert "<h3>Partial Indexes</h3>" in html


def test_a_file_leads_to_its_text_here(client: FlaskClient, retriever: FakeRetriever) -> None:
    hit = make_hit(url="file:///srv/a%20b.zip!/c.md#x", duplicates=["file:///srv/d.md"])
    retriever.hits = [hit]
    html = client.get("/?q=my+index&collection=notes").text
    address = f"/document/{hit.document}?passage=chunk-1&amp;q=my+index&amp;collection=notes#passage"
    assert re.findall('<h3><a href="([^"]*)"', html) == [address]
    assert 'href="file:' not in html
    assert "Also at d.md" in html  # not where it lies on the server


def test_a_page_has_few_passages_and_says_how_many_more_there_are(
    client: FlaskClient, retriever: FakeRetriever
) -> None:
    url = "https://docs.example/indexes.html"
    retriever.hits = [make_hit(1, url=f"{url}#a", more=3), make_hit(2, url=f"{url}#b", more=3)]
    html = client.get("/?q=index&language=en").text
    assert retriever.requests[-1].per_document is None
    [address] = re.findall('<a class="stay" href="([^"]*)">3 more from this page</a>', html)
    assert address == (
        "/?q=index&amp;language=en&amp;url_prefix=https%3A%2F%2Fdocs.example%2Findexes.html&amp;per_document=0"
    )
    html = client.get(unescape(address)).text
    assert retriever.requests[-1].per_document == 0
    assert 'href="/?q=index&amp;language=en" aria-label="Remove' in html


def test_a_long_query_is_sent_as_a_form(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert 'maxlength="10000"' in client.get("/").text
    query = "語" * 9_000
    answer = client.post("/", data={"q": query, "mode": "dense"})
    assert answer.status_code == 200
    assert retriever.calls == [(query, 10, "dense")]
    assert client.post("/", json={"q": query}).status_code == 415
    long = client.post("/", data={"q": query * 2}, headers={"Accept": "text/html"})
    assert long.status_code == 400
    assert "is too long" in long.text


def test_a_url_cannot_read_backwards(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(url="https://a.example/%E2%80%AEgpj.exe")]
    html = client.get("/?q=index").text
    assert "<span>a.example/</span><span>gpj.exe</span></p>" in html


def test_long_query_is_an_error_page(client: FlaskClient, retriever: FakeRetriever) -> None:
    response = client.get("/?q=" + "a" * 10_001, headers={"Accept": "text/html"})
    assert response.status_code == 400
    assert "at most 10000" in response.text
    assert retriever.calls == []


def test_security_headers_and_no_inline_code(client: FlaskClient) -> None:
    response = client.get("/?q=index")
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", response.text)
    assert not re.search(r'(?:src|href)="(?!/|#|https://docs\.example)', response.text)


def test_all_that_a_browser_is_sent_is_small(client: FlaskClient) -> None:
    # for other sites, for those who keep what is asked and look at it, and for those who have a language model
    others = ("embed.js", "feedback.js", "answer.", "insights.")
    sent = [file for file in WEB.glob("static/*") if not file.name.startswith(others)]
    made = [file for file in WEB.glob("templates/*") if not file.name.startswith(others)]
    assert sum(file.stat().st_size for file in [*sent, *made]) <= 62_000
    shown = sum(len(client.get(path).data) for path in ("/", "/?q=index"))
    assert shown + sum(file.stat().st_size for file in sent) <= 56_000


def test_hits_of_one_page_stand_together_with_links_to_their_sections(
    client: FlaskClient, retriever: FakeRetriever
) -> None:
    there, here = "https://docs.example/other.html", "https://docs.example/indexes.html"
    retriever.hits = [
        make_hit(url=f"{here}#a", title="Indexes", section="Indexes"),
        make_hit(url=there, title="Other", section=""),
        make_hit(url=f"{here}#b", title="Indexes", section="Indexes › Examples"),
    ]
    html = client.get("/?q=index").text
    assert re.findall(r"<h3>(.*)</h3>", html) == [
        f'<a href="{here}#a" rel="noopener noreferrer">Indexes</a>',
        f'<a href="{there}" rel="noopener noreferrer">Other</a>',
    ]
    assert f'<p class="section"><a href="{here}#b" rel="noopener noreferrer">Examples</a></p>' in html
    assert re.findall(r'id="(hit-\d)"', html) == ["hit-1", "hit-3", "hit-2"]
    assert "3 passages on 2 pages" in html


def test_facets_are_links_that_narrow(client: FlaskClient, retriever: FakeRetriever) -> None:
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
    assert "path=%2Fdocs&amp;path" not in narrowed


def test_no_index_yet_says_how_to_make_one(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.ready, retriever.missing = False, True
    retriever.reason = "there is no index in /srv/index; build one with: pilotlight index SOURCE --index /srv/index"
    for path in ("/", "/?q=index"):
        html = client.get(path, headers={"Accept": "text/html"}).text
        assert "<h2>No index yet</h2>" in html
        assert "<code>pilotlight index SOURCE --index /srv/index</code>" in html


@pytest.mark.parametrize(
    ("status", "heading"),
    [
        (401, "Key required"),
        (403, "Not allowed"),
        (429, "Too many requests"),
        (503, "Not available right now"),
    ],
)
def test_refusals_are_worded_for_people(app: Flask, status: int, heading: str) -> None:
    app.before_request_funcs.setdefault(None, []).append(lambda: abort(status))
    response = app.test_client().get("/?q=%22index", headers={"Accept": "text/html"})
    assert response.status_code == status
    assert f"<h2>{heading}</h2>" in response.text
    assert 'value="&#34;index"' in response.text
