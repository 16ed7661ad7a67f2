"""An engine that knows what it is shown by the size of it, for tests that are not about Tesseract."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from indexer.read.ocr.pages import Ocr
from indexer.read.ocr.scans import OcrLine, Raster
from indexer.read.reader_process import ReaderProcess

BEFORE = """
import indexer.read.ocr.scans as engine
from tests.indexer.read.ocr.fake import Fake
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
    with closing(ReaderProcess(before="; ".join(BEFORE.strip().splitlines()) + "; ")) as box:
        yield box
