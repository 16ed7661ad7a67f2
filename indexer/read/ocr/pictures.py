"""Pages of PDF files and image files, as images in shades of grey that OCR can read.

Sizes are looked at before anything is decoded: an image may say that it is as large as it likes.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pypdfium2
from PIL import Image, ImageChops, ImageFilter, ImageOps

from indexer.errors import ParseError
from indexer.read.ocr.recogniser import Raster

DOTS = 200  # per inch, at which pages are drawn: more finds no more, and takes longer
_POINTS = 72  # per inch, the unit of PDF
_MOST = 40_000_000  # pixels of an image file: A4 at 600 dots per inch has 35 million
_ENOUGH = 9_000_000  # pixels that are read: A4 at 300 dots per inch has 8.7 million
_NOISY = 4  # shades by which half of the pixels differ from their surroundings, where a sheet has not been drawn
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N")  # 16 bits a pixel
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_PAGED = "TIFF"  # the one whose frames are pages, not moments
_DAMAGED = "truncated or damaged: it is not a readable image"
_TROUBLE = (OSError, ValueError, SyntaxError, TypeError, KeyError, EOFError)
Image.MAX_IMAGE_PIXELS = None  # `_check` says it, with the size


def load() -> None:
    """Load the decoders now: afterwards no file can be opened."""
    Image.init()


def count(body: bytes) -> int:
    """Return how many pages an image file has; raises ParseError."""
    with _opened(body) as image:
        return int(getattr(image, "n_frames", 1)) if image.format == _PAGED else 1


def of_image(body: bytes, page: int) -> tuple[Raster, int]:
    """Return a page, from 1, of an image file, and its dots per inch; raises ParseError."""
    with _opened(body) as image:
        if page > 1:
            try:
                image.seek(page - 1)
            except _TROUBLE as error:
                raise ParseError(_DAMAGED) from error
            _check(image)
        width, height = image.size
        if image.format == "JPEG":  # which can be decoded to a half or less of its size, and to grey
            factor = _factor(width, height)
            image.draft("L", (round(width * factor), round(height * factor)))
        try:
            grey = ImageOps.exif_transpose(_grey(image))
        except _TROUBLE as error:
            raise ParseError(_DAMAGED) from error
    factor = _factor(*grey.size)
    if factor < 1:
        size = max(1, round(grey.width * factor)), max(1, round(grey.height * factor))
        grey = grey.resize(size, Image.Resampling.BOX)
    return _raster(_smooth(grey)), DOTS


def of_pdf(body: bytes, page: int) -> tuple[Raster, int]:
    """Return a page, from 1, of a PDF file, and its dots per inch; raises ParseError."""
    try:
        document = pypdfium2.PdfDocument(body)
        try:
            sheet = document[page - 1]
            width, height = sheet.get_size()
            scale = DOTS / _POINTS * _factor(width * DOTS / _POINTS, height * DOTS / _POINTS)
            bitmap = sheet.render(scale=scale, grayscale=True)
            image = _smooth(bitmap.to_pil())
            bitmap.close()
            sheet.close()
        finally:
            document.close()
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise ParseError("the page is damaged") from error
    return _raster(image), round(scale * _POINTS)


@contextmanager
def _opened(body: bytes) -> Iterator[Any]:
    try:
        image = Image.open(io.BytesIO(body), formats=_FORMATS)
    except _TROUBLE as error:
        raise ParseError(_DAMAGED) from error
    with image:
        _check(image)
        yield image


def _check(image: Any) -> None:
    width, height = image.size
    if width * height > _MOST:
        raise ParseError(f"an image of {width:,} × {height:,} pixels, more than {_MOST:,}")


def _grey(image: Any) -> Any:
    """The image without its colours, and what is transparent in white."""
    if image.mode in _DEEP:
        image = image.convert("I").point(lambda value: value * (1 / 256))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("L", image.size, 255)
        ground.paste(image.convert("L"), mask=image.getchannel("A"))
        return ground
    return image.convert("L")


def _smooth(image: Any) -> Any:
    """The image with each pixel the mean of its neighbours, if it is noisy: it takes a fifth less time to read."""
    blurred = image.filter(ImageFilter.BoxBlur(1))
    differences = ImageChops.difference(image, blurred).histogram()
    return blurred if sum(differences[:_NOISY]) < sum(differences) / 2 else image


def _raster(image: Any) -> Raster:
    return Raster(image.tobytes(), image.width, image.height)


def _factor(width: float, height: float) -> float:
    """By how much a side is made shorter, so that no more than enough pixels are read."""
    return min(1.0, float((_ENOUGH / max(1.0, width * height)) ** 0.5))
