"""Code is read as it is written: whoever copies it out of a passage, or gives it to a model, gets what the page has."""

import pytest

from indexer.config import ChunkConfig
from indexer.cut.chunking import Chunker
from indexer.read.html.main_content import extract
from indexer.read.parsing import parse
from tests.dummy import DummyEmbedder
from tests.indexer.conftest import make_page

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
    document = parse(make_page(page.replace("{}", CODE), content_type))
    text = "\n\n".join(section.text for section in document.sections)
    assert CODE in text
    assert "1\n2\n3" not in text
    [*_, chunk] = Chunker(DummyEmbedder(), ChunkConfig()).split(document)
    assert CODE in chunk.text


def test_numbers_of_lines_go_and_numbers_that_are_printed_stay() -> None:
    for printed, shown in (
        ("f()\n<i>1</i>\nf()\n<i>2</i>\nf()", "f()\n1\nf()\n2\nf()"),
        ("<i>1</i>f\n<i>2</i>g", "f\ng"),
    ):
        [section] = parse(make_page(f"<pre>{printed}</pre>")).sections
        assert section.text == shown


def test_a_first_line_keeps_its_indentation() -> None:
    code = "    if x:\n\n        y()"
    for content_type, page in (("text/html", f"<pre>\n \n{code}\n</pre>"), ("text/plain", f"\n \n{code}\n")):
        [section] = parse(make_page(page, content_type)).sections
        assert section.text == code


def test_lines_of_code_that_are_elements_stay_lines() -> None:
    rows = "".join(f"<div class=line>{line}</div>" for line in ("def f():", "  if x:", "<br>", "    y()\n"))
    [section] = parse(make_page(f"<pre>{rows}</pre>")).sections
    assert section.text == "def f():\n  if x:\n\n    y()"


@pytest.mark.parametrize("kind", ["listing", "xmp", 'div style="white-space: break-spaces"'])
def test_other_elements_that_show_white_space_are_code(kind: str) -> None:
    [section] = parse(make_page(f"<p>Before.</p><{kind}>{CODE}</{kind.split()[0]}><p>After.</p>")).sections
    assert CODE in section.text


def test_lines_of_code_are_read_without_what_a_pointer_opens() -> None:
    lines = "".join(f'<div class="line">{line}</div>\n' for line in ("<a>def</a> f():", "", "    g()  "))
    [section] = parse(make_page(f'<div class="fragment">{lines}<div class="ttc">What g does.</div></div>')).sections
    assert section.text == "def f():\n\n    g()  "


def test_spaces_at_the_end_of_code_stay() -> None:
    [section] = parse(make_page("<p>Before.</p><pre>$ run  \n\n \n</pre>")).sections
    assert section.text == "Before.\n\n$ run  "


def test_a_coloured_signature_is_code_where_its_white_space_is_meant() -> None:
    parts = '<span class="m">static</span>&nbsp;<span class="n">f</span>(<span class="p">a,\n    b</span>)'
    [section] = parse(make_page(f"<p>Before.</p><div class=s>{parts}</div><p>After.</p>")).sections
    assert section.text == "Before.\n\nstatic\u00a0f(a,\n    b)\n\nAfter."


@pytest.mark.parametrize(
    "shown",
    [
        '<span class="a">Words of</span>\n      <span class="b">a sentence.</span>\n',
        '<span class="a">Words of</span> <span class="b">a sentence.</span>',
        '<span class="a">Words of</span> a sentence with a name that\n is in a colour of its own.',
    ],
)
def test_other_coloured_text_is_no_code(shown: str) -> None:
    [section] = parse(make_page(f"<p>Before.</p><div>{shown}</div><p>After.</p>")).sections
    assert "\n" not in section.text.removeprefix("Before.\n\n").removesuffix("\n\nAfter.")


def test_ids_in_code_are_known() -> None:
    page = "<h1 id=t>T</h1><pre>\n\n<b id=f>f</b>\u200b()\n  <a name=g>g</a>()</pre><p>After.</p><pre>h()</pre>"
    [section] = extract(page).sections
    assert section.text == "f()\n  g()\n\nAfter.\n\nh()"
    assert (section.anchor, section.marks) == ("t", ((0, "f"), (6, "g")))


def test_code_that_is_a_term_stays_code() -> None:
    page = "<h1>T</h1><dl><dt id=f><pre>def f(\n    x,\n)</pre></dt><dd>It does.</dd></dl>"
    [section] = extract(page).sections
    assert section.text == "def f(\n    x,\n)\nIt does."


def test_signs_in_code_stay_though_they_are_links() -> None:
    page = (
        '<h1>T</h1><pre>a <a href="#{}">{}</a> b <a href="m.html#h">#</a><a href="#l">¶</a>\n<a href="#x"></a>c</pre>'
    )
    assert extract(page).sections[0].text == "a {} b #\nc"
