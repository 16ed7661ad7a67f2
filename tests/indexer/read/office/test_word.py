"""DOCX files as Word and other programs write them: all that their readers see, where they see it."""

import io
import re
import zipfile

import pytest

from indexer.read.office.docx_pptx import read_docx
from indexer.records import Section
from indexer.text import reader_notes
from tests.indexer import files
from tests.indexer.files import paragraph


def sections(body: str, **parts: str) -> tuple[Section, ...]:
    return read_docx(files.docx(body, **parts), None).sections


def text(body: str, **parts: str) -> str:
    return "\n\n".join(section.text for section in sections(body, **parts))


run = "<w:r>{}</w:r>".format
words = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'.format
control = '<w:sdt><w:sdtPr><w:alias w:val="NO"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'.format
math = "<m:oMath>{}</m:oMath>".format
letters = "<m:r><m:t>{}</m:t></m:r>".format
part = "<m:{0}><m:r><m:t>{1}</m:t></m:r></m:{0}>".format


def line(*inline: str) -> str:
    return f"<w:p>{''.join(inline)}</w:p>"


def cell(content: str, properties: str = "") -> str:
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(content)}</w:tc>"


def row(*cells: str, properties: str = "") -> str:
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def table(*rows: str) -> str:
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(rows)}</w:tbl>"


def box(content: str) -> str:
    """A text box as Word writes it: once for itself, once for programs of 2007."""
    inner = f"<w:txbxContent>{content}</w:txbxContent>"
    choice = f'<mc:Choice Requires="wps"><w:drawing><wp:anchor><wsp>{inner}</wsp></wp:anchor></w:drawing></mc:Choice>'
    return run(
        f"<mc:AlternateContent>{choice}<mc:Fallback><w:pict>{inner}</w:pict></mc:Fallback></mc:AlternateContent>"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (letters("E=m") + f"<m:sSup>{part('e', 'c')}{part('sup', '2')}</m:sSup>", "E=mc^2"),
        (f"<m:f><m:fPr/>{part('num', 'a+b')}{part('den', '2')}</m:f>", "(a+b)/2"),
        (f"<m:rad><m:radPr><m:degHide m:val='1'/></m:radPr><m:deg/>{part('e', 'x+1')}</m:rad>", "√(x+1)"),
        (f"<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr>{part('sub', 'i=1')}{part('sup', 'n')}{part('e', 'i')}"
         "</m:nary>", "∑_(i=1)^n i"),
        (f"<m:d><m:dPr><m:begChr m:val='['/><m:endChr m:val=']'/></m:dPr><m:e><m:m><m:mr>{part('e', '1')}"
         f"{part('e', '0')}</m:mr><m:mr>{part('e', '0')}{part('e', '1')}</m:mr></m:m></m:e></m:d>", "[1, 0; 0, 1]"),
        (f"<m:func><m:fName><m:limLow>{part('e', 'lim')}{part('lim', 'x→0')}</m:limLow></m:fName>{part('e', 'f')}"
         "</m:func>", "lim_(x→0) f"),
        (f"<w:del>{letters('NO')}</w:del><w:ins>{letters('y')}</w:ins>", "y"),
    ],
)  # fmt: skip
def test_equations(content: str, expected: str) -> None:
    assert text(f"<w:p>{words('so ')}{math(content)}{words(' holds')}</w:p>") == f"so {expected} holds"
    assert text(f"<w:p><m:oMathPara>{math(content)}</m:oMathPara></w:p>{paragraph('end')}") == f"{expected}\n\nend"


STYLES = (
    '<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
    '<w:style w:styleId="Local"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:styleId="Chapter"><w:name w:val="Chapter"/><w:basedOn w:val="berschrift1"/></w:style>'
    '<w:style w:styleId="Deep"><w:name w:val="Deep"/><w:basedOn w:val="Chapter"/></w:style>'
    '<w:style w:styleId="Own"><w:name w:val="Own"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
    '<w:style w:styleId="TOC"><w:name w:val="TOC Heading"/><w:basedOn w:val="berschrift1"/><w:pPr>'
    '<w:outlineLvl w:val="9"/></w:pPr></w:style>'
    '<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>'
    '<w:style w:styleId="Secret"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:styleId="More"><w:name w:val="More"/><w:basedOn w:val="Secret"/></w:style>'
)


def test_headings_by_outline_level_and_by_style() -> None:
    heading = '<w:p><w:pPr><w:pStyle w:val="{}"/><w:outlineLvl w:val="{}"/></w:pPr><w:r><w:t>Boats</w:t></w:r></w:p>'
    for style, level, path in (("", 0, ("Boats",)), ("Chapter", 9, ()), ("Chapter", "x", ())):
        found = sections(heading.format(style, level) + paragraph("They float."), styles=STYLES)
        assert found[0].path == path
    for style in ("berschrift1", "Local", "Deep", "Own"):
        assert sections(paragraph("Boats", style) + paragraph("They float."), styles=STYLES)[0].path == ("Boats",)
    for style in ("TOC", "Loop", "Heading4"):
        assert sections(paragraph("Boats", style) + paragraph("They float."), styles=STYLES)[0].path == ()


def test_a_heading_at_the_end_is_not_lost() -> None:
    found = sections(paragraph("Boats", "H1") + paragraph("They float.") + paragraph("Annex", "H1"))
    assert [section.text for section in found] == ["They float.\n\nAnnex"]


def test_hidden_text_by_inherited_style() -> None:
    shown = paragraph("yes", "More", run="<w:vanish w:val='0'/>")
    assert text(paragraph("NO", "More") + shown, styles=STYLES) == "yes"


def test_notes_stand_after_the_paragraph_that_refers_to_them() -> None:
    def note(kind: str, number: int, content: str) -> str:
        return f'<w:{kind} w:id="{number}">{paragraph(content)}</w:{kind}>'

    def refers(kind: str, number: int) -> str:
        return run(f'<w:{kind}Reference w:id="{number}"/>')

    body = (
        f"<w:p>{words('The pier')}{refers('footnote', 2)}{words(' is long.')}</w:p>"
        + paragraph("Ships", "H1")
        + "<w:tbl>"
        + row(cell("a"), "<w:tc>" + line(words("b"), refers("footnote", 3)) + "</w:tc>")
        + "</w:tbl>"
        + f"<w:p>{words('They sail.')}{refers('endnote', 2)}{refers('footnote', 2)}</w:p>"
    )
    found = sections(
        body,
        footnotes=note("footnote", -1, "NO") + note("footnote", 2, "It has 120 metres.") + note("footnote", 3, "in a"),
        endnotes=note("endnote", 2, "Since 1820."),
    )
    assert [section.text for section in found] == [
        "The pier is long.\n\nIt has 120 metres.",
        "a | b in a\n\nThey sail.\n\nSince 1820.",
    ]


def test_comments_stand_after_the_paragraph_that_they_are_on() -> None:
    remark = (
        f'<w:comment w:id="5">{paragraph("Still so?")}</w:comment><w:comment w:id="6">{paragraph("NO")}</w:comment>'
    )
    body = line(words("The pier closes."), run('<w:commentReference w:id="5"/>')) + paragraph("At nine.")
    assert text(body, comments=remark) == "The pier closes.\n\nStill so?\n\nAt nine."


def field(code: str, result: str) -> str:
    marks = [run(f'<w:fldChar w:fldCharType="{kind}"/>') for kind in ("begin", "separate", "end")]
    return f"{marks[0]}{run(f'<w:instrText>{code}</w:instrText>')}{marks[1]}{words(result)}{marks[2]}"


def test_headers_and_footers_are_read_once_without_page_numbers() -> None:
    number = line(words("Page "), field(" PAGE ", "17"), words(" of "), '<w:fldSimple w:instr="NUMPAGES"/>')
    roots = {
        "header1": paragraph("Harbour Authority") + paragraph("Rules of the port"),
        "header2": paragraph("Harbour Authority"),
        "header3": line(words("Sheet "), '<w:fldSimple w:instr=" PAGE "/>'),
        "footer1": number + table(row(cell("Account 22"), f"<w:tc>{number}</w:tc>")),
    }
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    parts: dict[str, str | bytes] = {f"word/{name}.xml": f"<w:x {space}>{root}</w:x>" for name, root in roots.items()}
    targets = {name: f"{name[:-1]} {name}.xml" for name in roots}
    parts["word/_rels/document.xml.rels"] = files.relations(styles="styles styles.xml", **targets)
    found = read_docx(files.with_parts(files.docx(paragraph("Boats", "H1") + paragraph("They float.")), parts), None)
    assert [(section.path, section.text) for section in found.sections] == [
        ((), "Harbour Authority\n\nRules of the port\n\nAccount 22"),
        (("Boats",), "They float."),
    ]


def test_the_strict_form_of_the_format() -> None:
    strict = rb"http://purl.oclc.org/ooxml/\1/\2"
    body = files.docx(paragraph("Boats", "H1") + line(math(letters("a=b"))))
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        parts = {
            name: re.sub(rb"http://schemas.openxmlformats.org/(\w+)/2006/(\w+)", strict, archive.read(name))
            for name in archive.namelist()
        }
    found = read_docx(files.zipped(dict(parts)), None).sections
    assert [(section.path, section.text) for section in found] == [(("Boats",), "a=b")]


def test_what_cannot_be_read_is_noted() -> None:
    reader_notes.take()
    text('<w:altChunk r:id="x"/><w:p><w:r><w:object><o:OLEObject ProgID="Equation.3"/></w:object></w:r></w:p>')
    assert reader_notes.take() == ("a document inside a document was not read", "an embedded object was not read")


ROWS = [row(cell("a"), control(cell("b"))), row(cell("NO"), cell("NO"), properties="<w:del/>")]
ROWS.append(control(control(row(cell("c"), cell("d")))))
RUBY = "<w:ruby><w:rt><w:r><w:t>NO</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby>"
PICTURE = "<w:drawing><wp:inline><wp:docPr id='1' name='Picture 1' descr='{}'/></wp:inline></w:drawing>".format
MORE = {
    "controls": (line(words("one "), control(words("two ") + control(words("three")))), "one two three"),
    "letters of a font": (line(run('<w:rPr><w:rFonts w:ascii="Symbol"/></w:rPr><w:t>\uf061\uf0b3</w:t>')), "α≥"),
    "ruby": (line(run(RUBY)), "東京"),
    "rows and cells in controls": (table(*ROWS) + control(table(*ROWS)), "a | b\nc | d\n\na | b\nc | d"),
    "a text box": (line(words("The boat "), box(paragraph("Mind the gap.")), words("leaves.")),
                   "The boat leaves.\n\nMind the gap."),
    "WordArt": (line(run("<w:pict><v:shape><v:textpath string='DRAFT ONLY'/></v:shape></w:pict>")), "DRAFT ONLY"),
    "pictures": (line(run(PICTURE("A map of the old harbour")), run(PICTURE("image1.png"))),
                 "A map of the old harbour"),
    "cases": (
        line(math("<m:d><m:dPr><m:begChr m:val='{'/><m:endChr m:val=''/></m:dPr><m:e>"
                  f"<m:eqArr>{part('e', 'x=1')}{part('e', 'y=2')}</m:eqArr></m:e></m:d>")),
        "{x=1; y=2",
    ),
    "other signs": (
        line(run('<w:sym w:font="Wingdings 2" w:char="F052"/>'), words(" x "),
             run('<w:sym w:font="Symbol" w:char="00A3"/>')),
        "☑ x ≤",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MORE.values(), ids=MORE)
def test_more(body: str, expected: str) -> None:
    assert text(body) == expected
