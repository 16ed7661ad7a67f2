"""Pictures of text as PDF and image files, and an engine that knows what it is shown by the size of it.

PDFium brings the fonts, so none of the machine is needed. The engine is for tests that are not about Tesseract.
"""

import io
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pypdfium2
import pytest

from indexer.read.ocr import Ocr
from indexer.read.reader_process import ReaderProcess
from indexer.read.scans import OcrLine, Raster
from tests.indexer.files import pdf

DOTS = 200  # per inch


def picture(*lines: str, mode: str = "L", size: tuple[int, int] = (1200, 400), font: str = "") -> Any:
    """The upper left corner of a page of text, in 12 points, as a scanner sees it; `font` is one of PDF's own."""
    image_module = pytest.importorskip("PIL.Image", reason="pilotlight[ocr] is not installed")
    image = image_module.new(mode, size, "white")
    if lines:
        image.paste(sheet(*lines, font=font).crop((120, 100, 120 + size[0], 100 + size[1])))
    else:
        image.paste("black", (size[0] // 4, size[1] // 4, size[0] // 2, size[1] // 2))
    return image


def sheet(*lines: str, font: str = "", points: float = 12) -> Any:
    """A whole page, letter size."""
    text = "\n".join(lines).translate(str.maketrans({sign: f"\\{sign}" for sign in "()\\"}))
    name = f"/BaseFont /{font or 'Helvetica'} /Encoding /WinAnsiEncoding"
    body = pdf(text.encode("cp1252").decode("latin-1")).replace(b"/BaseFont /Helvetica", name.encode())
    body = body.replace(b"/F1 12 Tf 14 TL", b"/F1 %g Tf %g TL" % (points, 1.25 * points))
    document = pypdfium2.PdfDocument(body)
    image = document[0].render(scale=DOTS / 72, grayscale=True).to_pil()
    document.close()
    return image


def encoded(image: Any, kind: str = "PNG", *more: Any, **options: Any) -> bytes:
    """An image as a file; more of them are further pages of it."""
    file = io.BytesIO()
    image.save(file, kind, **(options | ({"save_all": True, "append_images": list(more)} if more else {})))
    return file.getvalue()


def scanned(*pages: Any) -> bytes:
    """A PDF file with nothing but a picture on each page."""
    return encoded(pages[0], "PDF", *pages[1:], resolution=DOTS)


BEFORE = """
import indexer.read.scans as engine
from tests.indexer.read.scanned import Fake
engine.Tesseract = Fake
"""


class Fake:
    """Finds a line that says how wide the image is; what else depends on that: see the code."""

    def __init__(self, folder: str, languages: str) -> None:
        if folder != "fake":
            raise RuntimeError(f"no data in {folder}")

    def lines(self, image: Raster, dots: int) -> Iterator[OcrLine]:
        """Two lines, the second of which is uncertain; on narrow images none."""
        if image.width == 666:
            import ctypes

            ctypes.string_at(0)
        if image.width > 100:
            yield OcrLine(f"This page is {image.width} pixels wide, at {dots} dots per inch.", 90.0, True)
            yield OcrLine("Tbis 1ine is rnostly n0ise", 30.0, False)


OCR = Ocr("fake\neng")


@contextmanager
def reading() -> Iterator[ReaderProcess]:
    """A reader process whose engine is the fake."""
    with closing(ReaderProcess()) as box:
        box.program = "; ".join([*BEFORE.strip().splitlines(), box.program])
        yield box
