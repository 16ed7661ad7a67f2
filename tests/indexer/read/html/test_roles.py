"""Words of the interface, lists of links and symbols, told by what they are on a page and not by what made it."""

import pytest

from indexer.read.html.main_content import extract
from tests.indexer.read.html.test_main_content import LONG, sections, text

NOISE = [
    '<div><h4>fn f()</h4><span>1.0 · <a href="/src">source</a> · <a href="javascript:void(0)">[−]</a></span></div>',
    '<h4>fn f()</h4><p><a href="#" onclick="copy(); return false">Copy this item</a></p>',
    '<h4>fn f() <span>[<a href="/edit">edit</a>]</span></h4>',
    '<div><a href="https://t.test/edit/p.md">Edit this page</a></div>',
    '<p>f <a href="#n" title="note">ⓘ</a></p>',
    '<div role="toolbar">Copy</div>',
    '<ul><li><a href="#a">Edit a</a><li><a href="#b">Copy b</a></ul>',
]


@pytest.mark.parametrize("markup", NOISE)
def test_words_of_the_interface_are_told_by_their_role(markup: str) -> None:
    page = f"<main><h1>T</h1><p>Own text of the page.</p>{markup}<p>More of it.</p></main>"
    found = " ".join(" ".join((*path, shown)) for path, _, shown in sections(page))
    assert "Own text" in found
    assert "More of it." in found
    for word in ("source", "edit", "Copy", "ⓘ", "[", "1.0"):
        assert word not in found


@pytest.mark.parametrize(
    "title",
    [
        '<h4>fn f() -&gt; Option&lt;&amp;mut <a href="/slice">[T]</a>&gt;</h4>',
        '<dt>fn f(data: &amp;<a href="/slice">[T]</a>)</dt>',
        '<h4 class="code-header">fn f() -&gt; &amp;mut <a href="/slice">[T]</a></h4>',
        '<h3>Of <a href="/a">[a]</a> and others</h3>',
    ],
)
def test_a_link_in_brackets_that_is_part_of_a_title_stays(title: str) -> None:
    tag = "dl" if "<dt>" in title else "div"
    said = str(sections(f"<h1>A</h1><{tag}>{title}<dd>Words.</dd></{tag}><p>More words."))
    assert "[T]" in said or "[a]" in said


def test_what_says_more_than_a_label_stays_beside_a_heading() -> None:
    row = '<table><tr><td><p>when</p><td><p>a <a href="/Time">Time</a></p></table>'
    assert "when | a Time" in text(f"<div><h4>Parameters</h4><div>{row}</div></div>")
    assert "buy milk" in text("<main><ul><li><label><input type=checkbox disabled> buy milk</label></ul></main>")


def test_a_long_list_of_links_goes_and_what_the_page_is_about_stays() -> None:
    items = "".join(f"<li><a href=/{n}>impl Display for Type number {n}</a></li>" for n in range(400))
    found = extract(
        f"<title>Display</title><h1>Display</h1><p>Formats a value.</p><h2>Implementors</h2><ul>{items}</ul>"
    )
    assert not found.is_link_list
    assert [(section.path, section.text) for section in found.sections] == [(("Display",), "Formats a value.")]


def test_a_heading_with_nothing_under_it_is_a_line_of_the_text() -> None:
    markup = "<h1>T</h1><p>Text.</p><h2>Methods</h2><h3>fn one()</h3><h3>fn two()</h3><h2>Contents</h2><nav>x</nav>"
    assert sections(markup) == [(("T",), None, "Text."), (("T", "Methods"), None, "fn one()\n\nfn two()\n\nContents")]


def test_a_page_that_leads_to_another_at_once_has_no_text() -> None:
    stub = '<meta http-equiv="refresh" content="{}"><p>Redirecting to <a href=b.html>b.html</a>...'
    assert text(stub.format("0;URL=b.html")) == ""
    assert text(stub.format("300")) != ""


def test_long_terms_and_rows_with_an_id_are_sections() -> None:
    listed = f"<h1>ABI</h1><dl><dt>/sys/a</dt><dd>{LONG}</dd><dt>/sys/b</dt><dd>{LONG}</dd></dl>"
    assert [path for path, _, _ in sections(listed)] == [("ABI", "/sys/a"), ("ABI", "/sys/b")]
    row = f"<tr id={{0}}><td>{{0}}()</td><td>{LONG}</td></tr>"
    found = sections(f"<h1>API</h1><table><tr><th>Name<th>What</tr>{row.format('f')}{row.format('g')}</table>")
    assert [(path, anchor) for path, anchor, _ in found] == [
        (("API",), None),
        (("API", "f()"), "f"),
        (("API", "g()"), "g"),
    ]
