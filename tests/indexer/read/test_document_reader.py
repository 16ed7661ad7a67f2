from dataclasses import replace
from html import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.crawl.http_response import read_links
from indexer.cut.chunking import Chunker
from indexer.errors import ParseError
from indexer.network.urls import normalise, origin
from indexer.read.document_reader import read_document
from tests.dummy import DummyEmbedder
from tests.indexer.conftest import make_page


def test_markdown() -> None:
    document = read_document(
        make_page(
            "---\ntitle: 'Front'\nx: y\n---\n# Top `code`\n\nOne *two*\nthree.\n\n## Why? Who's (x)!\n\n"
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\n$ run\n  now\n```\n\n## Why? Who's (x)!\n\n- p\n- q\n",
            "text/markdown",
        )
    )
    assert document.title == "Front"
    assert [(section.path, section.anchor, section.text) for section in document.sections] == [
        (("Top code",), "top-code", "One two three."),
        (("Top code", "Why? Who's (x)!"), "why-whos-x", "a | b\n1 | 2\n\n$ run\n  now"),
        (("Top code", "Why? Who's (x)!"), "why-whos-x-1", "- p\n- q"),
    ]


def test_markdown_served_as_plain_text_is_markdown() -> None:
    document = read_document(make_page("# A\n\n*b*", "text/plain", "http://t.test/x.MD"))
    assert document.sections[0].text == "b"


@pytest.mark.parametrize(
    ("body", "url", "title", "text"),
    [
        (
            "Title line\n\n\n\nSecond  paragraph\n  kept",
            "http://t.test/a.txt",
            "Title line",
            "Title line\n\nSecond  paragraph\n  kept",
        ),
        ("x" * 300, "http://t.test/my%20notes.txt", "my notes.txt", "x" * 300),
        ("=====\nunder", "http://t.test/a.txt", "under", "=====\nunder"),
        (".. comment\nunder", "http://t.test/", "t.test", ".. comment\nunder"),
    ],
)
def test_plain_text(body: str, url: str, title: str, text: str) -> None:
    document = read_document(make_page(body, "text/plain", url))
    assert document.title == title
    assert [section.text for section in document.sections] == [text]
    assert document.sections[0].path == ()


def test_binary_data_is_no_page() -> None:
    with pytest.raises(ParseError, match="binary data"):
        read_document(make_page(b"\x89PNG\r\n\x1a\n\x00\x00\x00", "text/html"))
    with pytest.raises(ParseError, match="content type image/gif"):
        read_document(make_page(b"x", "image/gif"))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Se você quiser que o novo usuário tenha acesso ao computador, selecione o tipo de conta.", "windows-1252"),
        ("A saját fiókjától eltérő fiókok szerkesztéséhez rendszergazdai jogosultság szükséges.", "windows-1250"),
        ("Norint pakeisti slaptažodį, pirmiausia reikia atrakinti skydelį ir pasirinkti naudotoją.", "windows-1257"),
    ],
)
@pytest.mark.parametrize(
    ("content_type", "around"), [("text/plain", "{}"), ("text/html", "<main class=page><p>{}</p>")]
)
def test_a_guessed_encoding_is_noted_and_told_by_the_language(
    text: str, encoding: str, content_type: str, around: str
) -> None:
    document = read_document(make_page(around.format(text).encode(encoding), content_type))
    assert document.sections[0].text == text
    assert document.notes == (f"an encoding was guessed: {encoding}",)


def test_links_of_a_page() -> None:
    page = make_page(
        '<base href="/b/"><a href="x#1">1</a><a href="x#2">2</a><a name=n>3</a><map><area href="/y"></map>'
        '<a href="//other.test/">o</a><a href="mailto:x">m</a><link rel=next href="/n"><!-- <a href="/c"> -->'
    )
    assert read_links(page).urls == ("http://t.test/b/x", "http://t.test/y")


_PIECES = [*"x/?;:.=&@[\\ \t\n", "..", "//", "http:", "http://", "https://t", "t.test", "%2e", "\u00e9", "8"]


@given(
    path=st.lists(st.sampled_from([*"/ab;", "..", "%20", "//"]), max_size=5).map("".join),
    query=st.sampled_from(["", "?q", "?q=/r"]),
    href=st.lists(st.sampled_from(_PIECES), min_size=1, max_size=5).map("".join),
)
@settings(max_examples=300, deadline=None)
def test_a_link_leads_where_it_leads_from_its_own_page(path: str, query: str, href: str) -> None:
    """Though links are kept by folder."""
    here = normalise(f"http://t.test/{path}{query}", "")
    assert here is not None
    there = normalise(here, href)
    found = read_links(replace(make_page(f'<a href="{escape(href)}">'), url=here)).urls
    assert found == (() if there is None or origin(there) != origin(here) else (there,))


CODE = 'x = 1\n\n    if x:\n\ty = "a  b"  \n \n\n        z()\n\n\n    return y'


@pytest.mark.parametrize(
    ("content_type", "page"),
    [
        ("text/html", "<p>Before.</p><pre>\n{}\n</pre><p>After.</p>"),
        ("text/html", "<ul><li><p>Before.</p><pre><code>{}</code></pre></li><li><pre>{}</pre></li></ul>"),
        ("text/html", "<p>Before.</p><pre><span>x = 1<br></span><br>    if x:" + CODE[16:] + "</pre>"),
        (
            "text/html",
            "<table><tr><td><pre>1\n2\n3\n4\n5\n6\n7\n8\n9\n10</pre></td><td><pre>{}</pre></td></tr></table>",
        ),
        ("text/markdown", "Before.\n\n```python\n{}\n```\n\nAfter.\n"),
        ("text/x-python", "{}\n"),
    ],
)
def test_code_is_byte_equal(content_type: str, page: str) -> None:
    """Whoever copies code out of a passage, or gives it to a model, gets what the page has."""
    document = read_document(make_page(page.replace("{}", CODE), content_type))
    text = "\n\n".join(section.text for section in document.sections)
    assert CODE in text
    assert "1\n2\n3" not in text
    [*_, chunk] = Chunker(DummyEmbedder(), 200).split(document)
    assert CODE in chunk.text
