import pytest

from indexer.errors import ParseError
from indexer.read.formats import content_type_of
from indexer.records import Document, Section, SectionBlock
from tests.indexer import files
from tests.indexer.conftest import make_page, parsed
from tests.indexer.files import paragraph, shape


def read(name: str, body: bytes) -> Document:
    content_type = content_type_of(name)
    assert content_type is not None
    return parsed(make_page(body, content_type, f"http://t.test/{name}"))


def test_docx() -> None:
    cell = "<w:tc>{}</w:tc>".format
    item = "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>{}</w:t></w:r></w:p>".format
    document = read(
        "a.docx",
        files.docx(
            paragraph("Cats", "H1")
            + paragraph("Cats <sleep> & eat.")
            + paragraph("Food", "H2")
            + item("fish")
            + item("milk")
            + f"<w:tbl><w:tr>{cell(paragraph('Age'))}{cell(paragraph('3'))}</w:tr></w:tbl>",
            title="Zoo",
        ),
    )
    assert (document.title, document.language, document.date) == ("Zoo", "en", "2026-05-01")
    assert document.sections == (
        Section(("Cats",), None, "Cats <sleep> & eat."),
        Section(("Cats", "Food"), None, "- fish\n- milk\n\nAge | 3", blocks=(SectionBlock(15, 22, ""),)),
    )


def test_docx_shows_what_its_reader_sees() -> None:
    body = (
        paragraph("GHOST", "Ghost")
        + paragraph("VANISHED", run="<w:vanish/>")
        + paragraph("kept", run="<w:vanish w:val='0'/>")
        + f"<w:del>{paragraph('DELETED')}</w:del><w:ins>{paragraph('inserted')}</w:ins>"
        + f"<w:sdt><w:sdtContent>{paragraph('controlled')}</w:sdtContent></w:sdt>"
        + "<w:p><w:r><w:instrText>FIELD</w:instrText><w:delText>GONE</w:delText>"
        "<w:t>zero\u200b\U000e0041width</w:t></w:r></w:p>"
    )
    [section] = read("a.docx", files.docx(body)).sections
    assert section.text == "kept\n\ninserted\n\ncontrolled\n\nzerowidth"


def test_pptx() -> None:
    table = "<a:tbl><a:tr>" + "".join(f"<a:tc><a:p><a:t>{text}</a:t></a:p></a:tc>" for text in "ab") + "</a:tr></a:tbl>"
    slides = (
        shape("Cats", "title") + shape("sleep") + table,
        "hidden" + shape("NO"),
        shape("dogs") + shape("3", "sldNum"),
    )
    document = read("a.pptx", files.pptx(*slides, notes="say it slowly"))
    assert document.title == "Deck"
    assert document.sections == (
        Section(("Slide 1: Cats",), "slide=1", "sleep\n\na | b\n\nsay it slowly"),
        Section(("Slide 3",), "slide=3", "dogs"),
    )


def test_xlsx() -> None:
    sheets = {"Cats": [["name", "age"], ["Tom", "3"], ["", ""], ["Ann", ""]], "Hidden": [["NO"]], "Raw": [["1", "2"]]}
    document = read("a.xlsx", files.xlsx(**sheets))
    assert document.title == "Book"
    assert document.sections == (
        Section(("Cats",), None, "name: Tom | age: 3\nname: Ann"),
        Section(("Raw",), None, "1 | 2"),
    )


def test_epub_is_read_in_the_order_of_its_spine() -> None:
    document = read(
        "a.epub",
        files.epub(
            second="<html><head><title>Two</title></head><body><p>first <!-- NO -->read</p></body></html>",
            first="<html><body><h1>Cats</h1><p>sleep</p><p hidden>NO</p></body></html>",
        ),
    )
    assert (document.title, document.language, document.date) == ("Zoo", "en", "2024-02-03")
    assert document.sections == (Section(("Two",), None, "first read"), Section(("Cats",), None, "sleep"))


def test_a_chapter_of_epub_is_read_once_although_the_spine_lists_places_in_it() -> None:
    chapters = {"one": "<html><body><h1>Cats</h1><p>sleep</p></body></html>", "one.xhtml#place": ""}
    assert len(read("a.epub", files.epub(**chapters)).sections) == 1


def test_notes_of_epub_stand_apart_from_words() -> None:
    refers = '<a epub:type="noteref" href="#n">1</a>', '<sup><a href="notes.xhtml#n">2</a></sup>'
    note = '<aside epub:type="footnote" id="n">Old.</aside>'
    text = f"<html><body><p>pier{refers[0]} and quay{refers[1]}.</p>{note}</body></html>"
    [section] = read("a.epub", files.epub(first=text)).sections
    assert section.text == "pier 1 and quay 2.\n\nOld."


def test_pdf_keeps_its_pages() -> None:
    document = read("a.pdf", files.pdf("Cats sleep most\nof the day.", "", "Dogs bark.", title="Zoo"))
    assert (document.title, document.date) == ("Zoo", "2026-05-01")
    assert document.sections == (
        Section(("Page 1",), "page=1", "Cats sleep most of the day."),
        Section(("Page 3",), "page=3", "Dogs bark."),
    )


@pytest.mark.parametrize("title", ["Microsoft Word - draft.doc", "report.pdf", "Untitled 1", ""])
def test_pdf_titles_made_up_by_programs_are_not_used(title: str) -> None:
    assert read("zoo.pdf", files.pdf("x", title=title)).title == "zoo.pdf"


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000)
PASSWORD, OLD = "encrypted: it opens only with a password", "before 2007"
MANIFEST = '<manifest:file-entry><manifest:encryption-data manifest:checksum="x"/></manifest:file-entry>'
REFUSED = [
    ("a.pdf", files.ENCRYPTED_PDF, PASSWORD),
    *((f"a.{kind}", OLE + "EncryptedPackage".encode("utf-16-le"), PASSWORD)
      for kind in ("docx", "pptx", "xlsx", "xls")),
    ("a.xls", OLE + b"\x09\x08\x10\x00" + bytes(16) + b"\x2f\x00\x04\x00" + bytes(100), PASSWORD),
    ("a.ods", files.zipped({"content.xml": b"\x03\x00", "META-INF/manifest.xml": MANIFEST}), PASSWORD),
    ("a.xls", OLE, "damaged"),
    ("a.docx", OLE, OLD),
    ("a.pptx", OLE, OLD),
    *(("a.epub", files.with_parts(files.epub(first="x"), {f"META-INF/{mark}": "x"}), "protected against copying")
      for mark in ("rights.xml", "license.lcpl")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "message"), REFUSED)
def test_documents_that_cannot_be_opened_say_why(name: str, body: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read(name, body)
