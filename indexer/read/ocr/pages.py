"""Find Tesseract, and read the pages of a document that are pictures with it, one by one.

So a page has its own limits of time and memory, and a long scan takes no more memory than a short one.
"""

import os
import sysconfig
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from indexer.config import OCR_PAGES, OcrConfig
from indexer.errors import ConfigError, ParseError
from indexer.read.extraction import clean, language_of
from indexer.read.formats import OCR_OFF, SCANS
from indexer.read.reader_process import ReaderProcess
from indexer.records import NO_SCANS, ScanCounts, Section

EXTRA = "pip install 'pilotlight[ocr]'"
_SUFFIX = ".traineddata"
_SYSTEM = ("/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tesseract-ocr/4.00/tessdata", "/usr/share/tessdata")
_ENDURED = 3  # pages of a document that may fail before the rest is given up


class Ocr(NamedTuple):
    """OCR as one build has it, or why it has none."""

    engine: str = ""  # what reader processes load, see `indexer.read.ocr.scans.load`; empty where there is none
    obstacle: str = ""  # why there is none, and what to do about it


NO_OCR = Ocr(obstacle=OCR_OFF)


def find(config: OcrConfig) -> Ocr:
    """Return the engine of a build. Raises ConfigError if OCR is on but not installed."""
    if config.mode == "off":
        return NO_OCR
    obstacle = "" if is_installed() else f"OCR needs {EXTRA}"
    if not obstacle:
        missing = {
            folder: [name for name in config.languages if not (folder / f"{name}{_SUFFIX}").is_file()]
            for folder in _folders()
        }
        best = min(missing, key=lambda folder: len(missing[folder]))  # the first of them
        if not missing[best]:
            return Ocr(f"{best}\n{'+'.join(config.languages)}")
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing[best])
        remedy = f"apt-get install {packages}, or name a folder that has all languages in TESSDATA_PREFIX"
        obstacle = f"OCR has no data for {', '.join(missing[best])}: {remedy}"
    if config.mode == "on":
        raise ConfigError(f"ocr is on, but {obstacle}")
    return Ocr(obstacle=obstacle)


def is_installed() -> bool:
    """Return whether the libraries are there."""
    return all(find_spec(name) is not None for name in ("tesserocr", "PIL"))


def _folders() -> list[Path]:
    """Return the folders to search for data, in their order; all languages are read from one."""
    folder = os.environ.get("TESSDATA_PREFIX")
    return list(map(Path, [*([folder] if folder else []), f"{sysconfig.get_path('data')}/share/tessdata", *_SYSTEM]))


class _PageText(NamedTuple):
    text: str
    lines: int
    left_out: int
    confidence: float
    language: str | None


@dataclass(slots=True)
class Scans:
    """Texts of the pages that are pictures."""

    sections: list[Section] = field(default_factory=list)  # ordered by page
    counts: ScanCounts = NO_SCANS
    confidence: float | None = None  # mean of the pages, by the length of their texts; None where there is none
    language: str | None = None  # primary subtag, of most of the text


def count_pages(body: bytes, content_type: str, process: ReaderProcess) -> int:
    """Return how many pages an image file has; raises ParseError."""
    pages = _ask(body, content_type, 0, process).get("pages")
    if not isinstance(pages, int):
        raise ParseError("the reader process returned invalid data")
    return pages


def read_scans(body: bytes, content_type: str, pages: Sequence[int], ocr: Ocr, process: ReaderProcess) -> Scans:
    """Read some pages of a PDF or image file, from 1.

    A page that cannot be read costs itself; after a few of them the rest is given up.
    """
    if ocr.obstacle:
        return Scans(counts=ScanCounts(unread=tuple((page, ocr.obstacle) for page in pages)))
    process.use(ocr.engine)
    unread = dict.fromkeys(pages[OCR_PAGES:], f"over the limit of {OCR_PAGES:,} scanned pages in a document")
    results: dict[int, _PageText] = {}
    failed = 0
    for page in pages[:OCR_PAGES]:
        if failed >= _ENDURED:
            unread[page] = f"not tried after {_ENDURED} pages that could not be read"
            continue
        try:
            results[page] = _checked(_ask(body, content_type, page, process))
        except ParseError as error:
            unread[page] = str(error)
            failed += 1
    texts = {page: result for page, result in results.items() if result.text}
    languages: Counter[str] = Counter()
    for result in texts.values():
        languages.update({result.language: len(result.text)} if result.language else {})
    letters = sum(len(result.text) for result in texts.values())
    total = sum(result.confidence * len(result.text) for result in texts.values())
    counts = ScanCounts(
        pages=len(results),
        lines=sum(result.lines for result in results.values()),
        left_out=sum(result.left_out for result in results.values()),
        unread=tuple(sorted(unread.items())),
    )
    return Scans(
        [Section((f"Page {page}",), f"page={page}", result.text) for page, result in texts.items()],
        counts,
        total / letters if letters else None,
        max(languages, key=lambda name: languages[name], default=None),
    )


def _checked(answer: Mapping[str, Any]) -> _PageText:
    try:
        confidence = min(100.0, max(0.0, float(answer["confidence"])))
        lines, left_out = int(answer["lines"]), int(answer["left_out"])
        return _PageText(clean(answer["text"]), lines, left_out, confidence, language_of(answer["language"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _ask(body: bytes, content_type: str, page: int, process: ReaderProcess) -> dict[str, Any]:
    with closing(process.ask(SCANS, f"{content_type}\n{page}", body)) as answers:
        [(answer, _)] = answers
    return answer
