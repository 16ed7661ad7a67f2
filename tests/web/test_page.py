import re
from pathlib import Path

import pytest
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


@pytest.mark.parametrize("query", ["", "%20", "%00", "%E2%80%8B"])
def test_blank_query_is_the_empty_page(client: FlaskClient, retriever: FakeRetriever, query: str) -> None:
    response = client.get("/?q=" + query)
    assert response.status_code == 200
    assert 'data-state="empty"' in response.text
    assert retriever.calls == []


def test_answer_shows_title_section_url_marks_score_and_timing(client: FlaskClient) -> None:
    html = client.get("/?q=partial+index&utm_source=x").text
    assert "<title>partial index – Pilotlight</title>" in html
    assert 'value="partial index"' in html
    assert (
        '<a href="https://docs.example/indexes/partial.html#part-1" rel="noopener noreferrer">Partial Indexes</a>'
        in html
    )
    assert "docs.example/indexes/partial.html</p>" in html
    assert "Indexes › Partial Indexes" in html
    assert "A <mark>partial</mark> <mark>index</mark> is an index" in html
    assert "0.72" in html
    assert "1 passage<" in html
    assert "<b>3.1 ms</b> <span>embedding 2.0 ms</span> <span>search 0.7 ms</span>" in html


def test_no_hits(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = []
    assert "Nothing found" in client.get("/?q=zebra").text


def test_not_ready(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.ready = False
    cold = client.get("/")
    assert cold.status_code == 200
    assert "The index is still loading." in cold.text
    waiting = client.get("/?q=zebra", headers={"Accept": "text/html"})
    assert waiting.status_code == 503
    assert waiting.headers["Retry-After"]
    assert '<noscript><meta http-equiv="refresh"' in waiting.text


def test_query_and_hits_are_escaped(client: FlaskClient, retriever: FakeRetriever) -> None:
    evil = '"><script>alert(1)</script>'
    retriever.hits = [make_hit(title=evil, section=evil, text=evil, url="https://x.example/" + evil)]
    html = client.get("/", query_string={"q": evil}).text
    assert len(re.findall("<script", html)) == 1
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


@pytest.mark.parametrize("url", ["http://a.example/", "HTTPS://a.example/x?y=1#z", "file:///srv/a%20b.md"])
def test_safe_url_is_a_link(client: FlaskClient, retriever: FakeRetriever, url: str) -> None:
    retriever.hits = [make_hit(url=url)]
    assert re.findall('<h3><a href="([^"]*)"', client.get("/?q=index").text) == [url]


def test_a_url_cannot_read_backwards(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(url="https://a.example/%E2%80%AEgpj.exe")]
    html = client.get("/?q=index").text
    assert ">a.example/gpj.exe</p>" in html


def test_missing_title_falls_back_to_the_url(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(title="")]
    assert ">docs.example/indexes/partial.html</a>" in client.get("/?q=index").text


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
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script>", response.text)
    assert not re.search(r'(?:src|href)="(?!/|https://docs\.example)', response.text)


def test_assets_are_versioned_cached_and_small(client: FlaskClient) -> None:
    html = client.get("/").text
    urls = set(re.findall(r'"(/static/[^"]+)"', html))
    assert len(urls) == 3
    for url in urls:
        response = client.get(url)
        assert response.status_code == 200
        assert "max-age=31536000" in response.headers["Cache-Control"]
        assert "?v=" in url
        response.close()
    files = [*WEB.glob("static/*"), *WEB.glob("templates/*")]
    assert sum(file.stat().st_size for file in files) <= 50_000
