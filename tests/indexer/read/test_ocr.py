"""What becomes of pages that are pictures, without and with an engine; that is a fake but in the last tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.config import OcrConfig
from indexer.errors import ParseError
from indexer.read import ocr
from indexer.read.document_reader import Unwanted, read_document
from indexer.read.ocr import NO_OCR, Ocr, find_engine
from indexer.read.reader_process import ReaderProcess
from indexer.records import Page
from tests.indexer.conftest import make_page
from tests.indexer.files import pdf
from tests.indexer.read.scanned import OCR, encoded, picture, reading, scanned
from tests.security.bombs import png

FOUND = find_engine(OcrConfig())
needs_tesseract = pytest.mark.skipif(bool(FOUND.obstacle), reason=FOUND.obstacle)


@pytest.fixture(scope="module")
def box() -> Iterator[ReaderProcess]:
    with reading() as process:
        yield process


def a_pdf(body: bytes) -> Page:
    return make_page(body, "application/pdf", "http://t.test/a.pdf")


def test_a_page_without_text_is_read_where_it_stands(box: ReaderProcess) -> None:
    body = scanned(picture(size=(400, 600)), picture(size=(300, 300)))
    document = read_document(a_pdf(body), box, OCR)
    assert [(section.anchor, section.path) for section in document.sections] == [
        ("page=1", ("Page 1",)),
        ("page=2", ("Page 2",)),
    ]
    assert document.sections[0].text == "This page is 400 pixels wide, at 200 dots per inch."
    assert document.scans == (2, 4, 2, ())
    assert document.metadata == {"ocr_confidence": ("90",)}
    assert document.language == "en"


def test_scans_come_between_pages_of_text(box: ReaderProcess) -> None:
    mixed = mixed_pdf()
    document = read_document(a_pdf(mixed), box, OCR)
    assert [section.anchor for section in document.sections] == ["page=1", "page=2", "page=3"]
    assert [section.text.split()[0] for section in document.sections] == ["First", "This", "Third"]


def mixed_pdf() -> bytes:
    """Text, a drawing, and text again."""
    body = pdf("First page", "X", "Third page")
    start = body.index(b"stream\nBT", body.index(b"First page")) + 7
    end = body.index(b"ET", start) + 2
    return body[:start] + b"72 72 300 300 re f".ljust(end - start) + body[end:]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "BMP"])
def test_kinds_of_images(box: ReaderProcess, kind: str) -> None:
    body = encoded(picture(size=(500, 200)), kind)
    document = read_document(make_page(body, f"image/{kind.lower()}", "http://t.test/a"), box, OCR)
    [section] = document.sections
    assert (section.path, section.anchor) == ((), None)
    assert section.text.startswith("This page is 500 pixels wide")


def test_pages_of_a_tiff(box: ReaderProcess) -> None:
    body = encoded(picture(size=(500, 200)), "TIFF", picture(size=(50, 50)), picture(size=(400, 200)))
    document = read_document(make_page(body, "image/tiff", "http://t.test/a.tif"), box, OCR)
    assert [section.anchor for section in document.sections] == ["page=1", "page=3"]
    assert document.scans.pages == 3


@pytest.mark.parametrize("mode", ["1", "P", "RGB", "RGBA", "LA", "I;16", "CMYK"])
def test_modes_of_pixels(mode: str) -> None:
    from indexer.read.scans import decode_image

    whole = picture("x", mode="L", size=(300, 200))
    deep = whole.convert("I").point(lambda value: value * 257)
    image = deep.convert(mode) if mode == "I;16" else whole.convert(mode)
    raster, _ = decode_image(encoded(image, "TIFF" if mode == "CMYK" else "PNG"), 1)
    assert (raster.width, raster.height, len(raster.pixels)) == (300, 200, 60_000)
    assert raster.pixels[0] >= 254
    assert min(raster.pixels) <= 5
    raster, _ = decode_image(encoded(whole.convert("RGBA").point(lambda value: 0)), 1)
    assert set(raster.pixels) == {255}  # what is transparent is white


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"x", "truncated or damaged: it is not a readable image"),
        ("GIF", "not a readable image"),  # which no build reads
        ("PNG", "not a readable image"),  # cut short
        (png(30_000), "an image of 30,000 × 30,000 pixels, more than 40,000,000"),
    ],
)
def test_images_that_are_none_or_bombs(box: ReaderProcess, body: bytes | str, reason: str) -> None:
    if isinstance(body, str):
        body = encoded(picture("text", size=(500, 200)), body)[: 900 if body == "PNG" else None]
    with pytest.raises(ParseError, match=reason):
        read_document(make_page(body, "image/png", "http://t.test/a.png"), box, OCR)


def test_a_page_that_ends_the_reader_costs_itself(box: ReaderProcess) -> None:
    body = scanned(picture(size=(400, 400)), picture(size=(666, 400)), picture(size=(300, 300)))
    document = read_document(a_pdf(body), box, OCR)
    assert [section.anchor for section in document.sections] == ["page=1", "page=3"]
    [(page, reason)] = document.scans.unread
    assert page == 2
    assert "crashed, or took more than 672 MB" in reason


def test_after_three_the_rest_is_given_up(box: ReaderProcess) -> None:
    body = scanned(*[picture(size=(666, 400))] * 5)
    document = read_document(a_pdf(body), box, OCR)
    assert [reason for _, reason in document.scans.unread][3:] == ["skipped after 3 unreadable pages"] * 2


def test_without_an_engine_that_is_said(box: ReaderProcess) -> None:
    body = encoded(picture(size=(300, 300)))
    with pytest.raises(Unwanted, match="an image: OCR is off"):
        read_document(make_page(body, "image/png", "http://t.test/a.png"), box)
    missing = Ocr(obstacle="OCR needs pip install 'pilotlight[ocr]'")
    document = read_document(a_pdf(mixed_pdf()), box, missing)
    assert document.scans.unread == ((2, "OCR needs pip install 'pilotlight[ocr]'"),)
    assert [section.anchor for section in document.sections] == ["page=1", "page=3"]


def test_an_engine_that_cannot_be_loaded_is_named() -> None:
    with reading() as box:
        broken = Ocr("nowhere\neng")
        document = read_document(a_pdf(scanned(picture())), box, broken)
        assert "cannot be loaded (no data in nowhere)" in document.scans.unread[0][1]
        assert read_document(make_page("text", "text/plain"), box).sections[0].text == "text"


def test_what_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ocr, "is_installed", lambda: False)
    assert find_engine(OcrConfig()).obstacle == "OCR needs pip install 'pilotlight[ocr]'"
    assert find_engine(OcrConfig(mode="off")) == NO_OCR
    with pytest.raises(ocr.ConfigError, match="ocr is on, but OCR needs pip install"):
        find_engine(OcrConfig(mode="on"))
    monkeypatch.setattr(ocr, "is_installed", lambda: True)
    monkeypatch.setattr(ocr, "_folders", lambda: [tmp_path])
    (tmp_path / "fra.traineddata").touch()
    assert find_engine(OcrConfig(languages=("fra",))).engine == f"{tmp_path}\nfra"
    obstacle = find_engine(OcrConfig(languages=("fra", "chi_sim"))).obstacle
    assert obstacle.startswith("OCR has no data for chi_sim: apt-get install tesseract-ocr-chi-sim")


@pytest.mark.parametrize("languages", [(), ("../x",)])
def test_languages_that_make_no_sense(languages: tuple[str, ...]) -> None:
    with pytest.raises(ocr.ConfigError, match="ocr_languages"):
        OcrConfig(languages=languages)


@needs_tesseract
def test_tesseract_reads_both_languages() -> None:
    german, english = "Über süße Äpfel freuen sich größere Kühe.", "The quick brown fox jumps over the lazy dog."
    lines = "The first line of a paragraph has a hy-", "phen at its end.", "", german, "", english
    image = picture(*lines, size=(1400, 500))
    box = ReaderProcess()
    document = read_document(make_page(encoded(image), "image/png", "http://t.test/a.png"), box, FOUND)
    box.close()
    [section] = document.sections
    assert section.text == f"The first line of a paragraph has a hyphen at its end.\n\n{german}\n\n{english}"
    assert int(document.metadata["ocr_confidence"][0]) > 80
    assert document.scans.lines == 4
