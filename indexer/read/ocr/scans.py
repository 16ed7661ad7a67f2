"""One page that is a picture, to its text: what a reader process is asked, see `indexer.read.ocr.pages`."""

import json
import re
from collections.abc import Iterable
from typing import Any

from indexer.read.language import detect
from indexer.read.ocr import pictures, recogniser
from indexer.read.ocr.recogniser import Line, Raster

PDF = "application/pdf"
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]\n(?=[^\W\d_A-Z])")  # one that only ends a line
_WRAPPED = re.compile(r"(?<=[^\W\d_A-Z]|[,;])\n(?=[^\W\d_A-Z])")  # a line end inside a sentence
_WORD = re.compile(r"[^\W_]")


def load(engine: str) -> None:
    """Load the engine and the decoders; raises ImportError or RuntimeError."""
    recogniser.load(engine)
    pictures.load()


def find(body: bytes, argument: str | None) -> dict[str, Any]:
    """Read a page; page 0 of an image file stands for how many pages it has.

    Args:
        body: the PDF or image file.
        argument: JSON with `content_type`, the number of the `page`, and the `confidence` below which lines are left
            out.

    Returns:
        `pages`; or `text`, its `language`, the number of `lines` found and of those `left_out`, and the mean
        `confidence` of the rest.

    Raises:
        ParseError: the file or page is damaged, or too large.
    """
    asked = json.loads(argument or "{}")
    is_pdf, page = asked["content_type"] == PDF, int(asked["page"])
    if not page:
        return {"pages": pictures.count(body)}
    image, dots = pictures.of_pdf(body, page) if is_pdf else pictures.of_image(body, page)
    found = _lines(image, dots)
    kept = _sure(found, asked["confidence"])
    if 2 * len(kept) < len(found):  # as of a page that lies upside down; Tesseract turns others by itself
        turned = _lines(image._replace(pixels=image.pixels[::-1]), dots)
        if mean(turned) > mean(found):
            found, kept = turned, _sure(turned, asked["confidence"])
    text = text_of(kept)
    return {
        "text": text,
        "lines": len(found),
        "left_out": len(found) - len(kept),
        "confidence": mean(kept),
        "language": detect(text),
    }


def _lines(image: Raster, dots: int) -> list[Line]:
    return [line for line in recogniser.current().lines(image, dots) if _WORD.search(line.text)]


def _sure(lines: Iterable[Line], least: float) -> list[Line]:
    return [line for line in lines if line.confidence >= least]


def text_of(lines: Iterable[Line]) -> str:
    """Join lines: an empty line before a paragraph, words whole that were divided at a line end."""
    text = "".join(f"\n\n{line.text}" if line.begins else f"\n{line.text}" for line in lines).strip()
    return _WRAPPED.sub(" ", _HYPHEN.sub("", text))


def mean(lines: Iterable[Line]) -> float:
    """Return the mean confidence of lines, by their length; 0 for none."""
    weights = [(len(line.text), line.confidence) for line in lines]
    total = sum(length for length, _ in weights)
    return sum(length * confidence for length, confidence in weights) / total if total else 0.0
