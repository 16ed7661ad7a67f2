"""An engine that knows what it is shown by the size of it, for tests that are not about Tesseract."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from indexer.config import OcrConfig
from indexer.read.ocr.pages import Ocr
from indexer.read.ocr.scans import Line, Raster
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

    def lines(self, image: Raster, dots: int) -> Iterator[Line]:
        """Two lines, the second of which is uncertain; on narrow images none."""
        if image.width == 666:
            import ctypes

            ctypes.string_at(0)
        if image.width > 100:
            yield Line(f"This page is {image.width} pixels wide, at {dots} dots per inch.", 90.0, True)
            yield Line("Tbis 1ine is rnostly n0ise", 30.0, False)


def ocr(**config: object) -> Ocr:
    return Ocr(OcrConfig(**config), engine="fake\neng")  # type: ignore[arg-type]


@contextmanager
def reading(**options: object) -> Iterator[ReaderProcess]:
    """A reader process whose engine is the fake."""
    before = "; ".join(BEFORE.strip().splitlines()) + "; "
    with closing(ReaderProcess(before=before, **options)) as box:  # type: ignore[arg-type]
        yield box
