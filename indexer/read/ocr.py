"""Find Tesseract, and recognise the text of scanned pages.

Each page is a separate request to a reader process, so the limits of time and memory apply to one page.
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

from indexer.config import MAX_OCR_PAGES, OcrConfig
from indexer.errors import ConfigError, ParseError
from indexer.read.extraction import clean, language_of
from indexer.read.formats import OCR_OFF, SCANS
from indexer.read.reader_process import ReaderProcess
from indexer.records import NO_SCANS, ScanCounts, Section

INSTALL_COMMAND = "pip install 'pilotlight[ocr]'"
_SUFFIX = ".traineddata"
_TESSDATA = ("/usr/share/tesseract-ocr/5/tessdata", "/usr/share/tesseract-ocr/4.00/tessdata", "/usr/share/tessdata")
_MAX_FAILED_PAGES = 3


class Ocr(NamedTuple):
    """The OCR engine to load with `scans.load_reader`. If `engine` is "", `obstacle` is the reason not to run OCR."""

    engine: str = ""
    obstacle: str = ""


NO_OCR = Ocr(obstacle=OCR_OFF)


def find_engine(config: OcrConfig) -> Ocr:
    """Return the OCR engine for the configured languages. Raises ConfigError if the mode is "on" but OCR cannot run."""
    if config.mode == "off":
        return NO_OCR
    obstacle = "" if is_installed() else f"OCR needs {INSTALL_COMMAND}"
    if not obstacle:
        missing = {
            folder: [name for name in config.languages if not (folder / f"{name}{_SUFFIX}").is_file()]
            for folder in _folders()
        }
        best = min(missing, key=lambda folder: len(missing[folder]))
        if not missing[best]:
            return Ocr(f"{best}\n{'+'.join(config.languages)}")
        packages = " ".join(f"tesseract-ocr-{name.replace('_', '-')}" for name in missing[best])
        remedy = f"apt-get install {packages}, or name a folder that has all languages in TESSDATA_PREFIX"
        obstacle = f"OCR has no data for {', '.join(missing[best])}: {remedy}"
    if config.mode == "on":
        raise ConfigError(f"ocr is on, but {obstacle}")
    return Ocr(obstacle=obstacle)


def is_installed() -> bool:
    """Return whether the Python packages for OCR are installed."""
    return all(find_spec(name) is not None for name in ("tesserocr", "PIL"))


def _folders() -> list[Path]:
    folder = os.environ.get("TESSDATA_PREFIX")
    return list(map(Path, [*([folder] if folder else []), f"{sysconfig.get_path('data')}/share/tessdata", *_TESSDATA]))


class _PageText(NamedTuple):
    text: str
    lines: int
    left_out: int
    confidence: float
    language: str | None


@dataclass(slots=True)
class Scans:
    """The text that OCR found. `confidence` is the mean confidence of all letters in percent, or None without text."""

    sections: list[Section] = field(default_factory=list)
    counts: ScanCounts = NO_SCANS
    confidence: float | None = None
    language: str | None = None


def count_pages(body: bytes, content_type: str, process: ReaderProcess) -> int:
    """Return the number of pages of an image file. Raises ParseError if the file is damaged or too large."""
    pages = _request(body, content_type, 0, process).get("pages")
    if not isinstance(pages, int):
        raise ParseError("the reader process returned invalid data")
    return pages


def read_scans(body: bytes, content_type: str, pages: Sequence[int], ocr: Ocr, process: ReaderProcess) -> Scans:
    """Recognise the text of scanned pages. Stop after three unreadable pages.

    Args:
        body: a PDF or image file.
        content_type: its media type.
        pages: page numbers, from 1. At most `MAX_OCR_PAGES` pages are read.
        ocr: the engine. If it has an `obstacle`, no page is read.
        process: the reader process to use. It restarts if it was started with another engine.
    """
    if ocr.obstacle:
        return Scans(counts=ScanCounts(unread=tuple((page, ocr.obstacle) for page in pages)))
    process.use(ocr.engine)
    unread = dict.fromkeys(pages[MAX_OCR_PAGES:], f"over the limit of {MAX_OCR_PAGES:,} scanned pages in a document")
    results: dict[int, _PageText] = {}
    failed = 0
    for page in pages[:MAX_OCR_PAGES]:
        if failed >= _MAX_FAILED_PAGES:
            unread[page] = f"skipped after {_MAX_FAILED_PAGES} unreadable pages"
            continue
        try:
            results[page] = _checked_page(_request(body, content_type, page, process))
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


def _checked_page(answer: Mapping[str, Any]) -> _PageText:
    try:
        confidence = min(100.0, max(0.0, float(answer["confidence"])))
        lines, left_out = int(answer["lines"]), int(answer["left_out"])
        return _PageText(clean(answer["text"]), lines, left_out, confidence, language_of(answer["language"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _request(body: bytes, content_type: str, page: int, process: ReaderProcess) -> dict[str, Any]:
    with closing(process.ask(SCANS, f"{content_type}\n{page}", body)) as answers:
        [(answer, _)] = answers
    return answer
