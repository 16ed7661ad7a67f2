"""Tesseract: an image to lines of text, each with how sure it is of it.

It was chosen by measurement, see docs/evaluation.md. Its models are loaded by the process that readers are forked from,
so they are in memory once.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from indexer.errors import ParseError

_SURE = 100.0


class Line(NamedTuple):
    """A line of text."""

    text: str
    confidence: float  # 0 to 100, the mean of its words
    begins: bool  # whether a paragraph begins with it


class Raster(NamedTuple):
    """An image in shades of grey, a byte a pixel, row after row."""

    pixels: bytes
    width: int
    height: int


class Recogniser(Protocol):
    """Whatever finds text in images."""

    def lines(self, image: Raster, dots: int) -> Iterator[Line]:
        """Yield the lines of an image of so many dots per inch, in reading order."""


class Tesseract:
    """The engine with its languages; it decides word by word which language it is."""

    def __init__(self, folder: str, languages: str) -> None:
        """Load the data of languages such as `eng+deu` from a folder; raises RuntimeError."""
        import tesserocr

        self._level = tesserocr.RIL
        self._api: Any = tesserocr.PyTessBaseAPI(path=f"{folder}/", lang=languages, psm=tesserocr.PSM.AUTO)

    def lines(self, image: Raster, dots: int) -> Iterator[Line]:
        """Yield the lines of an image, in reading order; raises ParseError."""
        api, line, paragraph = self._api, self._level.TEXTLINE, self._level.PARA
        api.SetImageBytes(image.pixels, image.width, image.height, 1, image.width)
        api.SetSourceResolution(dots)
        try:
            if not api.Recognize():
                raise ParseError("Tesseract cannot read the image")
            found = api.GetIterator()
            while found is not None and not found.Empty(line):
                text = found.GetUTF8Text(line).strip()
                if text:
                    yield Line(text, min(_SURE, float(found.Confidence(line))), bool(found.IsAtBeginningOf(paragraph)))
                if not found.Next(line):
                    break
        finally:
            api.Clear()


_loaded: dict[str, Recogniser] = {}  # by what it was loaded from: one


def load(engine: str) -> None:
    """Load what `installation.find` named: a folder of data and languages, on a line each. Raises RuntimeError."""
    if engine not in _loaded:
        folder, _, languages = engine.partition("\n")
        made = Tesseract(folder, languages)
        _loaded.clear()
        _loaded[engine] = made


def current() -> Recogniser:
    """Return the one that is loaded; raises ParseError."""
    for recogniser in _loaded.values():
        return recogniser
    raise ParseError("no OCR engine is loaded")
