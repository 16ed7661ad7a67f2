"""Recognise the text of scanned pages: convert an image or a PDF page to greyscale, and run Tesseract on it.

This module runs only in reader processes. The size of an image is checked before decoding, because a small file can
declare a huge image. The models are loaded before the process loses access to files.
"""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import pypdfium2
from PIL import Image, ImageChops, ImageFilter, ImageOps

from indexer.config import MIN_OCR_CONFIDENCE
from indexer.errors import ParseError
from indexer.read.extraction import detect_language
from indexer.read.pdf.page import LINE_END_IN_SENTENCE

PDF = "application/pdf"
_LINE_END_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]\n(?=[^\W\d_A-Z])")
_WORD = re.compile(r"[^\W_]")
_DOTS_PER_INCH = 200  # a higher resolution takes longer, but no more text is recognised
_POINTS_PER_INCH = 72
_MAX_PIXELS = 40_000_000  # A4 at 600 dots per inch has 35 million
_MAX_READ_PIXELS = 9_000_000  # larger images are reduced; A4 at 300 dots per inch has 8.7 million
_MIN_NOISE = 4  # grey levels; in a noisy image, over half of the pixels differ this much from their surroundings
_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_DECODER_ERRORS = (OSError, ValueError, SyntaxError, TypeError, KeyError, EOFError)
Image.MAX_IMAGE_PIXELS = None  # `_check` limits the size instead


class OcrLine(NamedTuple):
    """A recognised line of text. The confidence is in percent."""

    text: str
    confidence: float
    begins_paragraph: bool


class Raster(NamedTuple):
    """A greyscale image with a byte for each pixel, row by row."""

    pixels: bytes
    width: int
    height: int


class Tesseract:
    """Tesseract, loaded with the languages of a build. It chooses one of these languages for each word."""

    def __init__(self, folder: str, languages: str) -> None:
        import tesserocr

        self._level = tesserocr.RIL
        self._api: Any = tesserocr.PyTessBaseAPI(path=f"{folder}/", lang=languages, psm=tesserocr.PSM.AUTO)

    def lines(self, image: Raster, dots: int) -> Iterator[OcrLine]:
        """Yield the text lines of an image with `dots` per inch, in reading order. Raises ParseError on failure."""
        api, line, paragraph = self._api, self._level.TEXTLINE, self._level.PARA
        api.SetImageBytes(image.pixels, image.width, image.height, 1, image.width)
        api.SetSourceResolution(dots)
        try:
            if not api.Recognize():
                raise ParseError("Tesseract cannot read the image")
            results = api.GetIterator()
            while results is not None and not results.Empty(line):
                if text := results.GetUTF8Text(line).strip():
                    yield OcrLine(
                        text, min(100.0, float(results.Confidence(line))), bool(results.IsAtBeginningOf(paragraph))
                    )
                if not results.Next(line):
                    break
        finally:
            api.Clear()


def load_reader(engine: str) -> Callable[[bytes, str | None], dict[str, Any]]:
    """Return a function that reads scanned pages. `engine` has the folder of models on line 1 and languages on line 2.

    Raises ImportError or RuntimeError if the engine cannot be loaded.
    """
    folder, _, languages = engine.partition("\n")
    Image.init()  # loads the decoders, which is impossible once the process has lost access to files
    return partial(_read, Tesseract(folder, languages))


def _read(tesseract: Tesseract, body: bytes, argument: str | None) -> dict[str, Any]:
    """Recognise the text of a page of a PDF or image file. For page 0, count the pages of an image file.

    `argument` has the media type on line 1 and the page on line 2. Raises ParseError if the file or page is damaged or
    too large.

    Returns: for page 0, `pages`. Otherwise `text`, its `language`, the number of `lines`, the number of lines that were
    `left_out` because they are uncertain, and the mean `confidence` of the other lines in percent.
    """
    content_type, _, number = (argument or "").partition("\n")
    page = int(number)
    if not page:
        with _opened(body) as opened:
            return {"pages": int(getattr(opened, "n_frames", 1)) if opened.format == "TIFF" else 1}
    image, dots = render_pdf(body, page) if content_type == PDF else decode_image(body, page)
    lines = [line for line in tesseract.lines(image, dots) if _WORD.search(line.text)]
    certain = [line for line in lines if line.confidence >= MIN_OCR_CONFIDENCE]
    # insert an empty line before each paragraph, and join words that are divided at line ends
    text = "".join(f"\n\n{line.text}" if line.begins_paragraph else f"\n{line.text}" for line in certain).strip()
    text = LINE_END_IN_SENTENCE.sub(" ", _LINE_END_HYPHEN.sub("", text))
    length = sum(len(line.text) for line in certain)
    return {
        "text": text,
        "language": detect_language(text),
        "lines": len(lines),
        "left_out": len(lines) - len(certain),
        "confidence": sum(len(line.text) * line.confidence for line in certain) / max(1, length),
    }


def decode_image(body: bytes, page: int) -> tuple[Raster, int]:
    """Decode a page (from 1) of an image file. Return (raster, dots per inch). Raises ParseError if that fails."""
    with _opened(body) as image:
        if page > 1:
            image.seek(page - 1)
            _check(image)
        width, height = image.size
        if image.format == "JPEG":
            factor = _reduction_factor(width, height)
            image.draft("L", (round(width * factor), round(height * factor)))
        grey = ImageOps.exif_transpose(_grey(image))
    factor = _reduction_factor(*grey.size)
    if factor < 1:
        size = max(1, round(grey.width * factor)), max(1, round(grey.height * factor))
        grey = grey.resize(size, Image.Resampling.BOX)
    return _raster(grey), _DOTS_PER_INCH


def render_pdf(body: bytes, page: int) -> tuple[Raster, int]:
    """Render a page (from 1) of a PDF file. Return (raster, dots per inch). Raises ParseError if that fails."""
    try:
        with closing(pypdfium2.PdfDocument(body)) as document, closing(document[page - 1]) as sheet:
            width, height = sheet.get_size()
            scale = _DOTS_PER_INCH / _POINTS_PER_INCH
            scale *= _reduction_factor(width * scale, height * scale)
            with closing(sheet.render(scale=scale, grayscale=True)) as bitmap:
                image = _raster(bitmap.to_pil())
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise ParseError("the page is damaged") from error
    return image, round(scale * _POINTS_PER_INCH)


@contextmanager
def _opened(body: bytes) -> Iterator[Any]:
    """Open an image for the `with` block. Raises ParseError if it is too large, or cannot be decoded in the block."""
    try:
        with Image.open(io.BytesIO(body), formats=_FORMATS) as image:
            _check(image)
            yield image
    except _DECODER_ERRORS as error:
        raise ParseError("truncated or damaged: it is not a readable image") from error


def _check(image: Any) -> None:
    width, height = image.size
    if width * height > _MAX_PIXELS:
        raise ParseError(f"an image of {width:,} × {height:,} pixels, more than {_MAX_PIXELS:,}")


def _grey(image: Any) -> Any:
    if image.mode in ("I;16", "I;16L", "I;16B", "I;16N"):
        image = image.convert("I").point(lambda value: value * (1 / 256))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("L", image.size, 255)
        ground.paste(image.convert("L"), mask=image.getchannel("A"))
        return ground
    return image.convert("L")


def _raster(image: Any) -> Raster:
    """Return the pixels of a greyscale image. A noisy image is blurred, because noise slows Tesseract down."""
    blurred = image.filter(ImageFilter.BoxBlur(1))
    differences = ImageChops.difference(image, blurred).histogram()
    image = blurred if sum(differences[:_MIN_NOISE]) < sum(differences) / 2 else image
    return Raster(image.tobytes(), image.width, image.height)


def _reduction_factor(width: float, height: float) -> float:
    return min(1.0, float((_MAX_READ_PIXELS / max(1.0, width * height)) ** 0.5))
