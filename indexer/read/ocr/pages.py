"""Read the pages of a document that are pictures: each is asked for by itself, several at the same time.

So a page has its own limits of time and memory, and a long scan takes no more memory than a short one.
"""

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from indexer.errors import ParseError
from indexer.read.extraction import clean, language_of
from indexer.read.formats import SCANS
from indexer.read.ocr.installation import Ocr
from indexer.read.reader_process import MOST_SPARE, ReaderProcess
from indexer.records import NO_SCANS, ScanCounts, Section

_ENDURED = 3  # pages of a document that may fail before the rest is given up
Spare = Callable[[], AbstractContextManager[ReaderProcess | None]]


class _Found(NamedTuple):
    text: str
    lines: int
    left_out: int
    confidence: float
    language: str | None


@dataclass(slots=True)
class Scans:
    """What was found on pages that are pictures."""

    sections: list[Section] = field(default_factory=list)  # in order of their pages
    counts: ScanCounts = NO_SCANS
    confidence: float | None = None  # mean of the pages, by the length of their texts; None where there is none
    language: str | None = None  # primary subtag, of most of the text


def nobody() -> AbstractContextManager[ReaderProcess | None]:
    """Lend no process, as a `Spare`."""
    return nullcontext()


def count_pages(body: bytes, content_type: str, process: ReaderProcess) -> int:
    """Return how many pages an image file has; raises ParseError."""
    answer = _ask(body, {"content_type": content_type, "page": 0}, process)
    pages = answer.get("pages")
    if not isinstance(pages, int):
        raise ParseError("the reader process returned invalid data")
    return pages


def read_scans(
    body: bytes, content_type: str, pages: Sequence[int], ocr: Ocr, process: ReaderProcess, spare: Spare = nobody
) -> Scans:
    """Read some pages of a PDF or image file, from 1, with other processes too where `spare` lends them.

    A page that cannot be read costs itself; after a few of them the rest is given up.
    """
    if ocr.obstacle:
        return Scans(counts=ScanCounts(unread=tuple((page, ocr.obstacle) for page in pages)))
    most = ocr.config.pages
    todo, lock = deque(pages[:most]), threading.Lock()
    unread = dict.fromkeys(pages[most:], f"over the limit of {most:,} scanned pages in a document")
    found: dict[int, _Found] = {}
    failed: list[int] = []

    def run(process: ReaderProcess) -> None:
        """Read until there is no page left."""
        process.use(ocr.engine)
        while True:
            with lock:
                if not todo:
                    return
                page = todo.popleft()
            asked = {"content_type": content_type, "page": page, "confidence": ocr.config.confidence}
            try:
                result = _checked(_ask(body, asked, process))
                with lock:
                    found[page] = result
            except ParseError as error:
                with lock:
                    unread[page] = str(error)
                    failed.append(page)
                    if len(failed) >= _ENDURED:
                        reason = f"not tried after {_ENDURED} pages that could not be read"
                        unread.update(dict.fromkeys(todo, reason))
                        todo.clear()

    def run_spare() -> None:
        with spare() as other:
            if other is not None:
                run(other)

    with ThreadPoolExecutor(MOST_SPARE, thread_name_prefix="ocr") as pool:
        helpers = [pool.submit(run_spare) for _ in pages[1 : 1 + MOST_SPARE]]
        run(process)
    for helper in helpers:
        helper.result()
    texts = {page: result for page, result in sorted(found.items()) if result.text}
    languages: Counter[str] = Counter()
    for result in texts.values():
        languages.update({result.language: len(result.text)} if result.language else {})
    letters = sum(len(result.text) for result in texts.values())
    total = sum(result.confidence * len(result.text) for result in texts.values())
    counts = ScanCounts(
        pages=len(found),
        lines=sum(result.lines for result in found.values()),
        left_out=sum(result.left_out for result in found.values()),
        unread=tuple(sorted(unread.items())),
    )
    return Scans(
        [Section((f"Page {page}",), f"page={page}", result.text) for page, result in texts.items()],
        counts,
        total / letters if letters else None,
        max(languages, key=lambda name: languages[name], default=None),
    )


def _checked(answer: Mapping[str, Any]) -> _Found:
    """Return the untrusted answer of a reader process for a page; raises ParseError."""
    try:
        confidence = min(100.0, max(0.0, float(answer["confidence"])))
        lines, left_out = int(answer["lines"]), int(answer["left_out"])
        return _Found(clean(answer["text"]), lines, left_out, confidence, language_of(answer["language"]))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ParseError("the reader process returned invalid data") from error


def _ask(body: bytes, asked: dict[str, Any], process: ReaderProcess) -> dict[str, Any]:
    with closing(process.ask(SCANS, json.dumps(asked), body)) as answers:
        [(answer, _)] = answers
    return answer
