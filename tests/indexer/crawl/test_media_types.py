import gzip

import pytest

from indexer.config import CrawlLimits
from indexer.crawl.answers import actual_type, media_type, names_of
from tests.indexer.crawl.test_crawler import link, run
from tests.indexer.files import docx, epub, pdf, pptx, xlsx, zipped
from tests.indexer.server import Reply, Site

OFFICE = "application/vnd.openxmlformats-officedocument"
WORD, SHEET, SLIDES = (
    f"{OFFICE}.{kind}" for kind in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
PDF, EPUB, HTML, PLAIN = "application/pdf", "application/epub+zip", "text/html", "text/plain"
ANYTHING = "application/octet-stream"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
DOCX, XLSX, PPTX, BOOK = docx("<w:p/>"), xlsx(A=[["1"]]), pptx("<p/>"), epub(one="<p>x</p>")
ODS_TYPE = "application/vnd.oasis.opendocument.spreadsheet"
ODS = b"PK\x03\x04" + bytes(22) + b"\x08\x00\x00\x00mimetype" + ODS_TYPE.encode() + b"PK\x03\x04"
PAGE = b"<!DOCTYPE html><html><p>x"


@pytest.mark.parametrize(
    ("declared", "name", "body", "expected"),
    [
        (ANYTHING, "a.pdf", pdf("x"), PDF),
        (ANYTHING, "get.php", pdf("x"), PDF),
        ("", "a", pdf("x"), PDF),
        (PLAIN, "a.pdf", pdf("x"), PDF),
        (HTML, "a.pdf", b"\r\n" + pdf("x"), PDF),
        ("application/x-pdf", "a", pdf("x"), PDF),
        ("application/force-download", "a.docx", DOCX, WORD),
        ("application/msword", "a.docx", DOCX, WORD),
        ("application/zip", "download", DOCX, WORD),
        ("binary/octet-stream", "a", XLSX, SHEET),
        ("application/x-msexcel", "a", XLSX, SHEET),
        ("application/vnd.ms-powerpoint", "", PPTX, SLIDES),
        (WORD, "a.docx", XLSX, SHEET),
        (ANYTHING, "a", BOOK, EPUB),
        (ANYTHING, "a.bin", ODS, ODS_TYPE),
        (ANYTHING, "a.xls", OLE + "Workbook".encode("utf-16-le"), "application/vnd.ms-excel"),
        (ANYTHING, "a.html", PAGE, HTML),
        ("", "", b"\xef\xbb\xbf\n<!-- x -->\n<html><p>x", HTML),
        ("application/xml", "a", b'<?xml version="1.0"?><!DOCTYPE html PUBLIC "x" "y"><html>', HTML),
        (PLAIN, "a.html", PAGE, HTML),
        (PDF, "a.pdf", PAGE, HTML),
        ("application/json", "x", PAGE, HTML),
        (ANYTHING, "guide.md", b"# Guide\n\nText", "text/markdown"),
        (ANYTHING, "a.txt", "Grüße".encode(), PLAIN),
        ("unknown/unknown", "README", b"Read me", PLAIN),
        ("", "", b"\xff\xfeR\x00", PLAIN),
        ("*/*", "table.csv", b"a,b\n1,2\n", "text/csv"),
        ("application/vnd.ms-excel", "a.csv", b"a,b\n1,2", "text/csv"),
        ("application/vnd.ms-excel", "a.xls", b"<html><table>", HTML),
        ("text/xml", "a", b'<html xmlns="http://www.w3.org/1999/xhtml">', HTML),
        ("application/x-download", "a.json", b"{}", "application/json"),
    ],
)  # fmt: skip
def test_types_are_known_by_name_and_first_bytes(declared: str, name: str, body: bytes, expected: str) -> None:
    assert actual_type(declared, (name,) if name else (), body) == expected


@pytest.mark.parametrize(
    ("declared", "name", "body"),
    [
        (PLAIN, "page.txt", PAGE),  # shows markup
        (PLAIN, "a.md", b"# A"),
        (HTML, "a", b"no tags at all"),
        ("application/xhtml+xml", "a", PAGE),
        ("text/css", "a.css", b"p { color: red }"),
        ("image/png", "a.png", b"\x89PNG\r\n\x1a\n"),
        ("image/svg+xml", "a.svg", b"<svg/>"),
        (ANYTHING, "a.iso", bytes(600)),
        (ANYTHING, "main.css", b"p { color: red }"),
        (ANYTHING, "a.zip", zipped({"readme.txt": "x"})),
        (ANYTHING, "a.doc", OLE),
        (ANYTHING, "sitemap.xml", b"<urlset/>"),
        (ANYTHING, "sitemap", b"<?xml version='1.0'?><urlset/>"),
        ("application/xml", "sitemap.xml", b"<urlset/>"),
        ("application/gzip", "a.gz", gzip.compress(b"x")),
        ("application/x-msdownload", "a.exe", b"MZ\x90\x00"),
        ("application/rtf", "a.rtf", b"{\\rtf1 x}"),
    ],
)  # fmt: skip
def test_other_types_stay_as_they_are_declared(declared: str, name: str, body: bytes) -> None:
    assert actual_type(declared, (name,), body) == declared


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Text/HTML; charset="UTF-8"', ("text/html", "UTF-8")),
        ("text/html, text/html; charset=utf-8", ("text/html", "utf-8")),
        (" application/pdf ;", ("application/pdf", None)),
        ("html", ("", None)),
        ("", ("", None)),
        ("; charset=utf-8", ("", "utf-8")),
    ],
)
def test_headers(header: str, expected: tuple[str, str | None]) -> None:
    assert media_type(header) == expected


@pytest.mark.parametrize(
    ("url", "disposition", "expected"),
    [
        ("http://t.test/a/b%20c.PDF", "", ("b c.pdf",)),
        ("http://t.test/get?file=a%2Fb.pdf&x=1", "", ("get", "b.pdf", "1")),
        ("http://t.test/get", 'attachment; filename="plan.docx"', ("plan.docx", "get")),
        ("http://t.test/get", "attachment; filename*=UTF-8''%e2%82%ac.pdf", ("€.pdf", "get")),
        ("http://t.test/get", r'inline; FILENAME="C:\x\plan.pdf"', ("plan.pdf", "get")),
        ("http://t.test/get", "attachment; filename*=nonsense''x.pdf", ("x.pdf", "get")),
        ("http://t.test/get", "attachment; filename*=a; filename*0=b; filename*x=c", ("get",)),
        ("http://t.test/", "attachment", ()),
    ],
)
def test_names(url: str, disposition: str, expected: tuple[str, ...]) -> None:
    assert names_of(url, disposition) == expected


def test_files_of_any_type_are_read_and_others_are_not_received(site: Site) -> None:
    vague = {"Content-Type": ANYTHING}
    site.pages(index=link("/get?id=1", "/plan", "/guide.md", "/disk", "/large"))
    site.routes["/get?id=1"] = Reply(pdf("A report of the year"), 200, vague)
    site.routes["/plan"] = Reply(DOCX, 200, vague | {"Content-Disposition": 'attachment; filename="plan.docx"'})
    site.routes["/guide.md"] = Reply(link("/further").encode(), 200, vague)
    site.routes["/disk"] = Reply(bytes(60_000), 200, vague)
    site.routes["/large"] = Reply(b"%PDF-1.4" + bytes(60_000), 200, vague)
    site.pages(further="more")
    pages, skips, failures = run(site, CrawlLimits(allow_private=True, max_bytes=50_000))
    assert pages == ["/", "/get?id=1", "/plan", "/guide.md", "/further"]
    assert skips == {"/disk": f"content type {ANYTHING} is not read"}
    assert failures == {"/large": "larger than 50,000 bytes"}
