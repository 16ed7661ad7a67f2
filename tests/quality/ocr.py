"""How well scans are read: pages of text that is known, as a scanner would see them, and what OCR makes of them.

`python -m tests.quality.ocr` prints the table of docs/evaluation.md. Texts 1 and 2 of each language were looked at
while rules were written, 3 and 4 were not.
"""

import re
import sys
import time
import unicodedata
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from indexer.config import OcrConfig
from indexer.read.ocr.installation import find
from indexer.read.ocr.scans import Tesseract, of_image, text_of
from tests.indexer.read.ocr.drawn import encoded, sheet

TEXTS = Path(__file__).parent / "scans"
LANGUAGES = ("english", "german")
FONTS = {"Times-Roman": (92, 11), "Helvetica": (84, 11), "Courier": (76, 10)}  # letters of a line, points
HALVES = {"seen": (1, 2), "held out": (3, 4)}
SKEW, NOISE = 1.0, 25.0  # degrees, and standard deviation of grey, of 255


def known(language: str, numbers: Sequence[int]) -> str:
    """Text of a page."""
    return "\n".join((TEXTS / f"{language}-{number}.txt").read_text(encoding="utf-8") for number in numbers)


def page(text: str, font: str, *, skew: float = SKEW, noise: float = NOISE) -> Any:
    """A page of letter size at 200 dots per inch."""
    from PIL import Image

    letters, points = FONTS[font]
    lines = [line for part in text.split("\n") for line in (wrap(part, letters, break_on_hyphens=False) or [""])]
    image = sheet(*lines, font=font, points=points)
    if skew:
        image = image.rotate(skew, resample=Image.Resampling.BICUBIC, fillcolor=255)
    if noise:
        grey = np.asarray(image, dtype=np.float32) * 0.85 + 20
        grey += np.random.default_rng(len(text)).normal(0, noise, grey.shape)
        image = Image.fromarray(grey.clip(0, 255).astype(np.uint8))
    return image


def read(image: Any, engine: Tesseract) -> str:
    """What becomes of it."""
    return text_of(engine.lines(*of_image(encoded(image), 1)))


def error_rate(found: str, text: str) -> float:
    """Edits that make the one of the other, for each character of the text; spaces and line ends are alike."""
    one, other = (re.sub(r"\s+", " ", unicodedata.normalize("NFC", each)).strip() for each in (found, text))
    return edits(one, other) / len(other)


def edits(one: str, other: str) -> int:
    """Levenshtein's distance, by the bit vectors of Hyyrö (2003)."""
    places: dict[str, int] = {}
    for number, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << number
    full, last, distance = (1 << len(one)) - 1, 1 << len(one) >> 1, len(one)
    up, down = full, 0
    for letter in other:
        same = places.get(letter, 0)
        across = (((same & up) + up) ^ up) | same | down
        more, less = down | ~(across | up) & full, up & across
        distance += bool(more & last) - bool(less & last)
        more = more << 1 | 1
        up, down = (less << 1 | ~(same | down | more)) & full, more & (same | down)
    return distance if one else len(other)


def main(languages: str) -> None:
    """Print the error rates of every page, and seconds of one core for each."""
    engine = Tesseract(find(OcrConfig()).engine.partition("\n")[0], languages)
    print(f"{'':<34}clean   scanned   CPU seconds a page")
    for half, language in product(HALVES, LANGUAGES):
        text = known(language, HALVES[half])
        for font in FONTS:
            clean, rough = page(text, font, skew=0, noise=0), page(text, font)
            began = time.process_time()
            rates = [error_rate(read(image, engine), text) for image in (clean, rough)]
            taken = (time.process_time() - began) / 2
            print(f"{half:<10}{language:<9}{font:<14}{rates[0]:>6.2%}{rates[1]:>10.2%}{taken:>10.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "+".join(OcrConfig().languages))
