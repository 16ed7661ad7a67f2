"""PPTX files as PowerPoint and other programs write them: all that is shown on a slide, once."""

import pytest

from indexer.read.office.docx_pptx import read_pptx
from indexer.text import reader_notes
from tests.indexer import files
from tests.indexer.files import shape


def text(*shapes: str, **parts: str) -> str:
    """The text of a slide with these shapes; `parts` are others that it refers to, by their kind."""
    body = files.pptx("".join(shapes))
    more: dict[str, str | bytes] = {f"ppt/slides/{kind}.xml": content for kind, content in parts.items()}
    more["ppt/slides/_rels/0.xml.rels"] = files.relations(**{kind: f"{kind} {kind}.xml" for kind in parts})
    found = read_pptx(files.with_parts(body, more), None).sections
    return found[0].text if found else ""


words = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>".format
box = "<p:sp><p:nvSpPr><p:cNvPr id='2' name='Text Box 1'/></p:nvSpPr><p:txBody>{}</p:txBody></p:sp>".format
frame = (
    "<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id='3' name='x'/></p:nvGraphicFramePr>"
    "<a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"
).format


def cell(content: str = "", spans: str = "") -> str:
    return f"<a:tc {spans}><a:txBody>{words(content)}</a:txBody></a:tc>"


def table(*rows: str) -> str:
    return frame(f"<a:tbl><a:tblPr/>{''.join(f'<a:tr>{row}</a:tr>' for row in rows)}</a:tbl>")


HIDDEN = "<p:nvGrpSpPr><p:cNvPr id='4' name='x' hidden='1'/></p:nvGrpSpPr>"
FRACTION = "<m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f>"
MATH = f'<m:oMath xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math">{FRACTION}</m:oMath>'
FORMS = (
    '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
    "<mc:Choice Requires='a14'>{}</mc:Choice><mc:Fallback>{}</mc:Fallback></mc:AlternateContent>"
)
A14 = "<a14:m xmlns:a14='http://schemas.microsoft.com/office/drawing/2010/main'>{}</a14:m>"
D, C, A = (f"http://schemas.openxmlformats.org/drawingml/2006/{name}" for name in ("diagram", "chart", "main"))
R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (f"<p:grpSp><p:nvGrpSpPr/>{box(words('one'))}<p:grpSp>{box(words('two'))}</p:grpSp></p:grpSp>"
         f"<p:grpSp>{HIDDEN}{box(words('NO'))}</p:grpSp>{box(words('three'))}", "one\n\ntwo\n\nthree"),
        (box("<a:p><a:r><a:t>Line</a:t></a:r><a:br/><a:fld type='x'><a:t>7</a:t></a:fld></a:p>"), "Line\n7"),
        (box("<a:p><a:r><a:rPr><a:sym typeface='Wingdings'/></a:rPr><a:t>\uf0e0</a:t></a:r>"
             "<a:r><a:t> out</a:t></a:r></a:p>"),
         "→ out"),
        (FORMS.format(box(f"<a:p>{A14.format(MATH)}</a:p>"), box(words("NO"))), "a/b"),
        (table(cell("Zone") + cell("Ticket") + cell("Price"), cell("Port", "rowSpan='2'") + cell("Day") + cell("6"),
               cell("", "vMerge='1'") + cell("Week") + cell("19"), cell("") * 3),
         "Zone | Ticket | Price\nPort | Day | 6\nPort | Week | 19"),
        (table(cell("Region", "rowSpan='2'") + cell("Sales", "gridSpan='2'") + cell("", "hMerge='1'"),
               cell("", "vMerge='1'") + cell("2023") + cell("2024"), cell("North") + cell("5") + cell("6")),
         "Region | Sales 2023 | Sales 2024\nNorth | 5 | 6"),
        ("<p:pic><p:nvPicPr><p:cNvPr id='5' name='Picture 4' descr='A map of the old harbour'/></p:nvPicPr></p:pic>",
         "A map of the old harbour"),
    ],
)  # fmt: skip
def test_shapes(shapes: str, expected: str) -> None:
    assert text(shape("Title", "title"), shapes) == expected


def test_diagrams_and_titles_of_charts() -> None:
    points = "".join(
        f"<d:pt modelId='{number}' type='{kind}'><d:t>{words(content)}</d:t></d:pt>"
        for number, (kind, content) in enumerate([("doc", ""), ("node", "Plan"), ("node", "Build"), ("pres", "NO")])
    )
    diagram = f"<d:dataModel xmlns:d='{D}' xmlns:a='{A}'><d:ptLst>{points}</d:ptLst></d:dataModel>"
    used = f"<d:relIds xmlns:d='{D}' xmlns:r='{R}' r:dm='diagramData'/>"
    assert text(frame(used), diagramData=diagram) == "Plan\n\nBuild"

    title = f"<c:title><c:tx><c:rich>{words('Arrivals')}</c:rich></c:tx></c:title>"
    plot = f"<c:chart>{title}<c:plotArea/></c:chart>"
    chart = f"<c:chartSpace xmlns:c='{C}' xmlns:a='{A}'>{plot}</c:chartSpace>"
    used = f"<c:chart xmlns:c='{C}' xmlns:r='{R}' r:id='chart'/>"
    assert text(frame(used), chart=chart) == "Arrivals"


def test_what_cannot_be_read_is_noted() -> None:
    reader_notes.take()
    text(frame("<p:oleObj progId='Excel.Sheet.12'/>"),
         "<p:pic><p:nvPicPr><p:cNvPr id='5' name='x'/></p:nvPicPr></p:pic>",
         frame(f"<c:chart xmlns:c='{C}' xmlns:r='{R}' r:id='lost'/>"))  # fmt: skip
    assert reader_notes.take() == (
        "an embedded object was not read",
        "a picture without a description was left out",
        "the figures of a chart were not read",
    )


def test_footers_are_read_once_and_comments_with_their_slide() -> None:
    footer = shape("Harbour Days", "ftr")
    body = files.pptx(shape("One", "title") + footer, shape("Two", "title") + shape("text") + footer)
    old = "<p:cmLst xmlns:p='{}'><p:cm><p:text>Too long?</p:text></p:cm></p:cmLst>"
    new = "<x:cmLst xmlns:x='x' xmlns:a='{}'><x:cm><x:txBody>{}</x:txBody></x:cm></x:cmLst>"
    parts: dict[str, str | bytes] = {
        "ppt/slides/c.xml": old.format("http://schemas.openxmlformats.org/presentationml/2006/main"),
        "ppt/slides/d.xml": new.format(A, words("Better so")),
        "ppt/slides/_rels/1.xml.rels": files.relations(c="comments c.xml", d="comments d.xml"),
    }
    found = read_pptx(files.with_parts(body, parts), None).sections
    assert [section.text for section in found] == ["Harbour Days", "text\n\nToo long?\n\nBetter so"]
