"""More of what DOCX files hold: tables, equations, changes and fields in unusual places."""

import pytest

from indexer.read.office import word
from tests.indexer import files
from tests.indexer.files import paragraph
from tests.indexer.read.office.test_word import box, cell, control, line, math, part, row, run, text, words


def group(*boxes: str) -> str:
    inner = "".join(f"<wsp><w:txbxContent>{content}</w:txbxContent></wsp>" for content in boxes)
    choice = f"<mc:Choice Requires='wpg'><w:drawing><wp:inline>{inner}</wp:inline></w:drawing></mc:Choice>"
    return run(
        f"<mc:AlternateContent>{choice}<mc:Fallback><w:pict>{inner}</w:pict></mc:Fallback></mc:AlternateContent>"
    )


def mark(kind: str, content: str = "") -> str:
    return run(f"<w:fldChar w:fldCharType='{kind}'>{content}</w:fldChar>")


def table(*rows: str) -> str:
    return f"<w:tbl>{''.join(rows)}</w:tbl>"


def styled(style: str, *inline: str) -> str:
    return f"<w:p><w:pPr><w:pStyle w:val='{style}'/></w:pPr>{''.join(inline)}</w:p>"


MORE = {
    "rows that repeat": (
        table(row(cell("Boat"), cell("7")), control(control(row(cell("Gull"), cell("8"))))),
        "Boat | 7\nGull | 8",
    ),
    "a text box in a cell": (
        table(row("<w:tc>" + line(words("a"), box(paragraph("inside"))) + "</w:tc>", cell("b"))),
        "a inside | b",
    ),
    "scripts before": (
        line(math(f"<m:sPre>{part('sub', '92')}{part('sup', '238')}{part('e', 'U')}</m:sPre>")),
        "_92^238U",
    ),
    "cases": (
        line(
            math(
                "<m:d><m:dPr><m:begChr m:val='{'/><m:endChr m:val=''/></m:dPr><m:e>"
                f"<m:eqArr>{part('e', 'x=1')}{part('e', 'y=2')}</m:eqArr></m:e></m:d>"
            )
        ),
        "{x=1; y=2",
    ),
    "a limit above": (line(math(f"<m:limUpp>{part('e', '=')}{part('lim', 'def')}</m:limUpp>")), "=^def"),
    "a fraction without a line": (
        line(math(f"<m:f><m:fPr><m:type m:val='noBar'/></m:fPr>{part('num', 'n')}{part('den', 'k')}</m:f>")),
        "n¦k",
    ),
    "deleted cells": (
        table(*(row(cell(first), cell("NO", "<w:cellDel/>"), cell(last)) for first, last in ("ab", "cd"))),
        "a | b\nc | d",
    ),
    "a large first letter": (
        line("<w:pPr><w:framePr w:dropCap='drop' w:lines='3'/></w:pPr>", words("T")) + paragraph("he boat sails."),
        "The boat sails.",
    ),
    "the last end is deleted": (line("<w:pPr><w:rPr><w:del/></w:rPr></w:pPr>", words("kept")), "kept"),
    "an instruction in pieces": (
        line(
            mark("begin"), run("<w:instrText>HYPER</w:instrText>"), run("<w:instrText>LINK x</w:instrText>"),
            mark("separate"), words("the port"), mark("end"), words("."),
        ),
        "the port.",
    ),
    "other signs": (
        line(run('<w:sym w:font="Wingdings 2" w:char="F052"/>'), words(" x "),
             run('<w:sym w:font="Symbol" w:char="00A3"/>')),
        "☑ x ≤",
    ),
    "a choice of a form": (
        line(
            mark("begin", "<w:ffData><w:ddList><w:result w:val='1'/><w:listEntry w:val='red'/>"
                 "<w:listEntry w:val='blue'/></w:ddList></w:ffData>"),
            run("<w:instrText>FORMDROPDOWN</w:instrText>"), mark("end"),
        ),
        "blue",
    ),
    "an indented row": (
        table(row(cell("a"), cell("b")), row(cell("d"), properties="<w:gridBefore w:val='1'/>")),
        "a | b\n | d",
    ),
    "cells merged in the old way": (
        table(row(cell("Zone"), cell("Sales", "<w:hMerge w:val='restart'/>"), cell("", "<w:hMerge/>")),
              row(cell("x"), cell("1"), cell("2")), row(cell("y"), cell("3"), cell("4"))),
        "Zone | Sales | Sales\nx | 1 | 2\ny | 3 | 4",
    ),
    "merged again and again": (
        table(row(cell("A", "<w:vMerge w:val='restart'/>"), cell("b")),
              row(cell("", "<w:vMerge w:val='continue'/>"), cell("c")),
              row(cell("D", "<w:vMerge w:val='restart'/>"), cell("e")), row(cell("", "<w:vMerge/>"), cell("f"))),
        "A | b\nA | c\nD | e\nD | f",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MORE.values(), ids=MORE)
def test_more(body: str, expected: str) -> None:
    assert text(body) == expected


@pytest.mark.parametrize(
    ("name", "chunk"),
    [
        ("a.html", "<html><head><title>NO</title></head><body><p>caf&eacute;</p></body></html>"),
        ("a.mht", "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html; "
                  "charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n<p>caf=C3=A9</p>\n--b--\n"),
    ],
)  # fmt: skip
def test_pages_that_programs_put_into_a_document(name: str, chunk: str) -> None:
    parts = files.docx_parts(paragraph("before") + '<w:altChunk r:id="a"/>' + paragraph("after"))
    parts |= {"word/_rels/document.xml.rels": files.relations(a=f"aFChunk {name}"), f"word/{name}": chunk}
    [section] = word.read(files.zipped(parts), None).sections
    assert section.text == "before\n\ncafé\n\nafter"
