"""Documents to read in the page, the files that they were read from, and what changed in them."""

from typing import Any

import pytest
from msgspec import structs

from indexer.generation.documents import document_id
from indexer.records import TextBlock
from rag.query.results import Hit
from tests.web.fakes import CODE, FakeRetriever, make_hit
from tests.web.test_problems import assert_problem
from web.pages.document_pages import SHOWN_PASSAGES
from web.pages.snippets import CUT, SNIPPET_CHARS, make_section, make_text

URL = "file:///srv/notes/a%20b.md"


class OneDocument(FakeRetriever):
    """Has a document of so many sections of three passages each."""

    count = 3

    def document_of(self, hit: Hit) -> dict[str, Any]:
        found = super().document_of(hit)
        found["title"] = "Notes"
        found["passages"] = [
            {
                "id": f"p{place}",
                "url": URL,
                "section": f"Notes › Part {place // 3}",
                "text": f"<Text> {place}.",
                "blocks": [],
            }
            for place in range(3 * self.count)
        ]
        return found


@pytest.fixture
def retriever():
    retriever = OneDocument()
    retriever.hits = [make_hit(url=URL, document=document_id(URL))]
    return retriever


@pytest.fixture
def address():
    return f"/document/{document_id(URL)}"


def test_a_document_is_shown_with_the_passage_marked(client, address):
    html = client.get(f"{address}?passage=p4&q=my+words").text
    assert "<h1>Notes</h1>" in html
    assert [f"<h2>Part {number}</h2>" in html for number in range(4)] == [True, True, True, False]
    assert '<div class="passage" id="passage"><p>&lt;Text&gt; 4.</p></div>' in html
    assert html.count('class="passage"') == 1
    assert 'href="/?q=my+words">Back to the results</a>' in html
    assert "Download" not in html


def test_a_long_document_is_shown_in_parts(client, retriever, address):
    retriever.count = 40
    html = client.get(f"{address}?passage=p70&collection=notes").text
    assert html.count("&lt;Text&gt;") == SHOWN_PASSAGES
    assert '<div class="passage" id="passage"><p>&lt;Text&gt; 70.</p></div>' in html
    assert f'href="{address}?start=0&amp;collection=notes">Earlier passages</a>' in html
    assert "Read on" not in html
    html = client.get(address).text
    assert f'href="{address}?start=60">Read on</a>' in html
    assert "Earlier" not in html
    assert "<h2>Part 39</h2>" in client.get(f"{address}?start=999").text
    assert client.get(f"{address}?start=-1").status_code == 400


def test_a_page_of_a_site_is_linked(client, retriever):
    url = "https://docs.example/a.html"
    retriever.hits = [make_hit(url=url, document=document_id(url))]
    html = client.get(f"/document/{document_id(url)}").text
    assert f'<a href="{url}" rel="noopener noreferrer">Open the page</a>' in html


def test_all_of_a_program_is_shown_as_code(client, retriever, address):
    retriever.hits = [structs.replace(hit, content_type="text/x-python") for hit in retriever.hits]
    html = client.get(address).text
    assert html.count("<pre") == html.count("&lt;Text&gt;") > 0


def test_the_richest_run_of_matches_wins():
    text = "An index. " + "Nothing of note. " * 60 + "A partial index on fsync. " + "Nothing of note. " * 60
    spans = [(text.index(word), text.index(word) + len(word)) for word in ("index", "partial", "fsync")]
    later = text.index("index", 20)
    snippet = make_text(text, [*spans, (later, later + 5)], size=SNIPPET_CHARS)
    assert "<mark>partial</mark> <mark>index</mark> on <mark>fsync</mark>" in snippet


def code_in(text: str, first: str, last: str, kind: str = "code") -> list[TextBlock]:
    return [TextBlock(text.index(first), text.index(last) + len(last), kind)]


def test_code_keeps_its_lines():
    at = CODE.index("SELECT")
    html = make_text(CODE, [(at, at + 6)], code_in(CODE, "CREATE", "b = 'x';"))
    assert "<p>The example makes a table and asks it:</p>" in html
    inside = html.partition("<code>")[2].partition("</code>")[0]
    assert "CREATE TABLE t (\n    a integer,\n\n    b text\n);\n<mark>SELECT</mark> a FROM t\n    WHERE b" in inside
    assert html.endswith("<p>And so it goes on in words, as before.</p>")
    assert "<pre" not in make_text(CODE), "an index of an earlier version has no blocks"


@pytest.mark.parametrize("end", [3, 99, -1])
def test_blocks_beyond_the_text_are_cut(end):
    assert "code" in make_text("Run it:\n\n  x=1", (), [TextBlock(9, 12, "code"), TextBlock(12, end, "table")])


def test_a_section_sets_its_passage_off():
    section = "Before <b>.\nA partial index.\nAfter."
    assert make_section(section, "A partial index. ", [(2, 9)]) == (
        '<p>Before &lt;b&gt;.</p><div class="passage"><p>A <mark>partial</mark> index.</p></div><p>After.</p>'
    )
    sets = make_section("Set:\n\na\nb\nc\n\nDone.", "b", [(0, 1)], [TextBlock(6, 11, "code")])
    pre = '<pre tabindex="0"><code>{}</code></pre>'
    passage = f'<div class="passage">{pre.format("<mark>b</mark>")}</div>'
    assert sets == f"<p>Set:</p>{pre.format('a')}{passage}{pre.format('c')}<p>Done.</p>"
    assert make_section("A partial index.", "A partial index.", [(2, 9)]) == "<p>A <mark>partial</mark> index.</p>"
    assert make_section("Something <else>.", "A partial index.", [(2, 9)]) == "<p>Something &lt;else&gt;.</p>"


def test_a_table_has_rows_and_cells_of_which_none_is_cut():
    rows = ["name | what it is", *(f"part {number} | a thing & more | {number}" for number in range(60))]
    text = "\n".join(rows[:5])
    html = make_text(text, (), [TextBlock(0, len(text), "table")])
    assert html.startswith('<div class="rows" tabindex="0"><table><tr><td>name</td><td>what it is</td></tr><tr>')
    assert html.count("<td>a thing &amp; more</td>") == 4
    text = "\n".join(rows)
    at = text.index("part 30") + 5
    html = make_text(text, [(at, at + 2)], [TextBlock(0, len(text), "table")], size=SNIPPET_CHARS)
    assert html.startswith(f'<div class="rows" tabindex="0"><table><tr><td>{CUT}</td></tr><tr><td>part 2')
    assert "<tr><td>part <mark>30</mark></td><td>a thing &amp; more</td><td>30</td></tr>" in html
    assert html.endswith(f"</td></tr><tr><td>{CUT}</td></tr></table></div>")


JSON = {"Accept": "application/json"}


def test_the_page_shows_sections_and_sentences(client):
    page = client.get("/changes")
    assert page.mimetype == "text/html"
    text = " ".join(page.text.split())
    assert "From 2026-11-20 04:00 UTC to 2026-11-27 04:00 UTC: 1 rewritten, 1 renamed in 2 documents." in text
    assert "<del>It is 4 MB.</del> <ins>It is 8 &lt;b&gt;.</ins>" in text
    assert "docs.example/old.html</p>" in text
    assert "renamed from “One”" in text
    assert '<a href="/changes?since=g0&amp;collection=default" aria-current="page">' in text


def test_json(client):
    body = client.get("/changes?limit=1&since=&path=/docs", headers=JSON).get_json()
    assert body["counts"] == {"documents": 2, "rewritten": 1, "renamed": 1}
    [document] = body["documents"]
    assert document["sections"][0]["edits"] == [{"old": "It is 4 MB.", "new": "It is 8 <b>."}]
    assert_problem(client.get("/changes?limit=0", headers=JSON), 400)
    assert_problem(client.get("/changes?colour=red", headers=JSON), 400)
    assert_problem(client.get("/changes?collection=gone", headers=JSON), 404)
