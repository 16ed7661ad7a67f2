"""Documents of one piece over and over: twice as many take twice as long, whatever the piece is."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest

from indexer.network.http import decode_body
from indexer.read.access_list import begins_with_list, looks_like_list
from indexer.read.extraction import clean, tidy
from indexer.read.formats import FUNCTIONS
from indexer.read.html import main_content
from indexer.read.web_page import page_parts
from indexer.text.charsets import decode
from tests.indexer import files
from tests.indexer.files import paragraph, zipped
from tests.linear import check_linear

SIZE = 20_000  # characters of the longer document
MARKDOWN = [
    "\n", " ", "> ", "- ", "1. ", "# a\n\n\n\n", "*", "**a", "_a ", "`", "```\n", "~~~\n", "    a\n", "[", "[a](",
    "[a]: b\n", "![", "<a |", "<a b='", "<!-- ", "&amp", "\\", "$", "$$", ":::", ":a:", "!!! a\n    b\n", "{", "{{<",
    "{% raw %}", "{#", "{/*", "{a}", "[^1]", "[^1]: a\n", "[[", "---\n", "+++\n", "---\ntitle: a\n",
    "access: a\n", "---\naccess",
    "%%", "<!--\naccess: a\n", "import a from 'b'\n", "export const a = {\n", "<Tab ", "<div markdown>\n", "a\n: b\n\n",
    "<script>\n", "{: .a}\n", "> [!A]\n", "http://a.b ", "```{a}\n", '--8<-- "a"\n', "{% highlight a %}\n", "日本",
    "{% comment %}", "- a\n  - b\n", "a\n=\n", "==a ", "==`", "~a^b", "- {a: &x [*x]}\n", "<A b={", "| a ",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n", "[block:a]\n", '[block:a]\n{"body": "', "+--+\n", "+--+--+\n| a| b|\n",
    "{++", "{~~a", "++a", "{::comment}", "a:: b\n", "[!a", "<xref:", "<<a ", "^^a ", "% a\n", "*[a]: b\n",
    "```{r}\n#| a: b\n", "```\n// [!code", "{a=", "[#a] ",
]  # fmt: skip
PIECES: dict[str, list[str]] = {
    "markdown": MARKDOWN,
    "mdx": ["<Tab ", "<A b={", "{", "import {\n", "<>", "export const a = 1\n"],
    "restructured": [".. ", "`", "*", "|a|_ ", "- ", ".. a::\n\n", ":a:`b` ", "a\n=\n\n", "\n", "..\n",
                     ":a:\n", ":a: b\n  c\n", ".. a\n b\n", ".. deprecated:: 1 "],
    "asciidoc": ["\n", "* ", "* a\n", "a:: ", "a::\n", "+\n", "----\n", "====\n", "=====\n====\n", "|===\n", "|a ",
                 "[[a]]\n", "[a,", ":a: {a}\n", "{a}", "*a ", "__a", "`+", "a:b[", "a::[", "<<a", "((a", "ifdef::a[]\n",
                 "a\n--\n", ".a\n", "//\n", " a\n", "footnote:[", "\\", "= a ", "[cols=1"],
    "plain": ["\n", " ", "- ", "-\n", "access: a\n", "\u200b", "a "],
    "source_code": [" ", "pub(a ", "static ", "create a ", "a b c(", "a::b<c>,", "// a\n", "class A\n  ",
                    "fn <", "  def a\n"],
    "csv_text": [",", '"', '""', '"a"b,', "a,b\n", "a,b\n\n", ",,,\n", "sep=,", "2024,2025\n", " ", "\n"],
    "mail": ["To: a\n", "a: b\n c\n", "Subject: =?utf-8?q?a?= ", "Content-Type: text/plain; a=b", ";a*0=b", "(", "=?"],
}  # fmt: skip
ROW = "<w:tr><w:tc><w:p/></w:tc><w:tc><w:p/></w:tc></w:tr>"
FIELD = "<w:r><w:fldChar w:fldCharType='begin'/></w:r>"
PART = b"--a\nContent-Disposition: attachment; filename=a.txt\n\nb\n"
BODIES: dict[str, tuple[str, Callable[[int], bytes]]] = {  # by name: the reader, and a document of so many pieces
    "headings": ("word", lambda n: files.docx(paragraph("A", "H1") * n)),
    "empty paragraphs": ("word", lambda n: files.docx("<w:p/>" * n)),
    "fields": ("word", lambda n: files.docx(f"<w:p>{FIELD * n}</w:p>")),
    "a description": ("word", lambda n: files.docx(f"<w:p><wp:docPr id='1' descr='{'&#10; ' * n}'/></w:p>")),
    "rows": ("word", lambda n: files.docx(f"<w:tbl>{ROW * n}</w:tbl>")),
    "shapes": ("slides", lambda n: files.pptx(files.shape("a") * n)),
    "formats": ("sheets", lambda n: styled(n)),
    "hidden columns": ("sheets", lambda n: styled(2, '<col min="1" max="16384" hidden="1"/>' * n)),
    "front matter": ("markdown", lambda n: b"---\n" + b"k: v\n" * n + b"---\n"),
    "cells": ("notebook", lambda n: json.dumps({"cells": [{"cell_type": "code", "source": "`"}] * n}).encode()),
    "folders": ("container", lambda n: zipped({f"{'d/' * 20}{i}.md{'.access.toml' * (i % 2)}": "" for i in range(n)})),
    "attachments": ("attachments", lambda n: b"Content-Type: multipart/mixed; boundary=a\n\n" + PART * n),
    "parts": ("mail", lambda n: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\nb\n" * n),
}
WANTED = {"links": True, "needs_rendering": False, "blocks": True, "text": True, "template": "", "reader": "html"}
HEADS = {"plain": "<body>", "single": "<meta property=og:title content=x><body><p>x"}
UNITS = [
    "<div>", "<p>a", "<b><i><u><p>", "<ul><li>", "<dl><dt id=a>t<dd>", "<table><tr><td>", "<tr id=a><td>x<td>y",
    "<tr><td rowspan=65000>a<td colspan=1000>b", "<section></section>", "<h1>a<h2>b<h3>c<h4>d<h5>e<h6>f", "<p id=a>b",
    '<p a="b" c="d" class="e f" id=g>h</p>', '<p a="', "<!-- ", "<", "&nbsp;", "\n\n\n\n",
    "<a href=/" + "a" * 1_000 + ">b</a>",
    "<a href=x><span>", '<ul><li><a href="#a">a</a>', '<ul><li>aaaa<a href="#a">a</a>', "<div hidden>a b c d e f g",
    "<button aria-controls=x class=b>a</button><div class=c id=x>word</div>", "<aside epub:type=footnote><p>a",
    "<main><aside><p>a b c", "<form><p>a", "<div class=refnamediv><h2>a</h2>b</div>", "<pre><a id=x>a</a>\n",
    "<div><div class=line>a</div>", "<math><msup>", '<script type="math/tex">a</script>', "<span class=katex>a",
    '<span><img alt="one two three four five">', "a.<br><b id=x><script>w</script></b>", "<div id=comments><p>x",
    "<div class=related>x ", "<math>", '<h2><a href="#" onclick="x()">',
    "<h3>q</h3><div class=a hidden>some words that are five</div>",
    "<frameset><frame src=a>",
]  # fmt: skip
DECODED = ["<", "<a '\"", "a= ", "<!--", "<meta http-equiv=content-type content='charset ", "\x1b$B", "<script"]


def styled(count: int, columns: str = "") -> bytes:
    """A workbook with so many formats and cells."""
    formats = "".join(f'<numFmt numFmtId="{200 + n}" formatCode="0.{n}"/>' for n in range(count))
    cells = "<cellXfs>" + "".join(f'<xf numFmtId="{200 + n}"/>' for n in range(count)) + "</cellXfs>"
    rows = "".join(f'<row r="{n + 1}"><c r="A{n + 1}" s="{n}"><v>1</v></c></row>' for n in range(count))
    parts: dict[str, str | bytes] = {
        "xl/worksheets/1.xml": f"<worksheet {files.SHEET}>{columns}<sheetData>{rows}</sheetData></worksheet>",
        "xl/_rels/workbook.xml.rels": files.relations(s1="worksheet worksheets/1.xml", s="styles styles.xml"),
        "xl/styles.xml": f"<styleSheet {files.SHEET}>{formats}{cells}</styleSheet>",
    }
    return files.with_parts(files.xlsx(S=[]), parts)


def read_by(reader: str) -> tuple[Callable[..., Any], list[Any]]:
    module, _, name = FUNCTIONS[reader].partition(":")
    read: Callable[..., Any] = getattr(import_module(f"indexer.read.{module}"), name)
    return read, [1_000_000, ""] if reader in ("container", "attachments") else [None]


@pytest.mark.parametrize("reader", PIECES)
def test_pieces(reader: str) -> None:
    read, arguments = read_by(reader)
    for piece in PIECES[reader]:
        check_linear(lambda body: read(body, *arguments), repeated(piece), SIZE)


@pytest.mark.parametrize("name", BODIES)
def test_documents(name: str) -> None:
    reader, make = BODIES[name]
    read, arguments = read_by(reader)
    check_linear(lambda body: read(body, *arguments), make, 2_000)


def repeated(piece: str, head: str = "") -> Callable[[int], bytes]:
    return lambda size: (head + piece * (size // len(piece))).encode()


def test_what_is_looked_at_before_and_after_reading() -> None:
    for piece in (*MARKDOWN, "access", "{access", "users", "<!--", "a."):
        check_linear(lambda body: begins_with_list(body.decode()), repeated(piece), 4 * SIZE)
        check_linear(lambda body: looks_like_list(body.decode()), repeated(piece), 4 * SIZE)
    for piece in DECODED:
        for charset in (None, "big5", "iso-2022-jp"):
            check_linear(partial(decode_with, charset), repeated(piece), SIZE)
    for packed in (gzip.compress(b""), gzip.compress(b"a")):
        check_linear(
            partial(decode_body, encoding="", is_text=True), partial(lambda packed, size: [packed * size], packed), SIZE
        )


def decode_with(charset: str | None, body: bytes) -> object:
    return decode(body + b"\xe9", charset, markup=True)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit[:40])
def test_pages(unit: str, head: str) -> None:
    wanted = WANTED | {"charset": "utf-8"}
    check_linear(lambda body: list(page_parts(body, wanted)), repeated(unit, head), 4 * SIZE)


@pytest.mark.parametrize("unit", ["\n", " \n", "\t\n", "\u00a0\n", "a\n\n\n", "\u200b\n"])
def test_empty_lines(unit: str) -> None:
    check_linear(lambda body: clean(tidy(body.decode())), repeated(unit * 10), 4 * SIZE)
    check_linear(lambda body: main_content.read(body, "utf-8"), repeated(unit, "<pre>a"), 4 * SIZE)
