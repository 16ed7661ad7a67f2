"""Reads the pages of a document that are pictures: each is asked for by itself, several at the same time.

So a page has its own limits of time and memory, and a long scan takes no more memory than a short one.
"""

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from typing import Any

from indexer.errors import ParseError
from indexer.read.extraction import clean, language_of
from indexer.read.formats import SCANS
from indexer.read.ocr.installation import Ocr
from indexer.read.reader_process import MOST_SPARE, ReaderProcess
from indexer.records import NO_SCANS, ScanCounts, Section

_ENDURED = 3  # pages of a document that may fail before the rest is given up
Spare = Callable[[], AbstractContextManager[ReaderProcess | None]]


@dataclass(frozen=True, slots=True)
class _Found:
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
    """Read some pages of a PDF or image file, from 1. A page that cannot be read costs itself.

    Args:
        body: the file.
        content_type: its media type.
        pages: their numbers, in order.
        ocr: the engine and its settings, or why there is none.
        process: reads pages.
        spare: lends another process where one is free.
    """
    if ocr.obstacle:
        return Scans(counts=ScanCounts(unread=tuple((page, ocr.obstacle) for page in pages)))
    work = _Work(body, content_type, pages, ocr)
    with ThreadPoolExecutor(MOST_SPARE, thread_name_prefix="ocr") as pool:
        helpers = [pool.submit(work.help, spare) for _ in pages[1 : 1 + MOST_SPARE]]
        work.run(process)
    for helper in helpers:
        helper.result()
    return work.result()


class _Work:
    """Pages to read, and what was found; shared by the threads that wait for reader processes."""

    def __init__(self, body: bytes, content_type: str, pages: Sequence[int], ocr: Ocr) -> None:
        most = ocr.config.pages
        self._body, self._content_type, self._ocr = body, content_type, ocr
        self._todo = deque(pages[:most])
        self._found: dict[int, _Found] = {}
        self._unread = dict.fromkeys(pages[most:], f"over the limit of {most:,} scanned pages in a document")
        self._failed = 0
        self._lock = threading.Lock()

    def help(self, spare: Spare) -> None:
        """Read with a process that is free, if there is one."""
        with spare() as process:
            if process is not None:
                self.run(process)

    def run(self, process: ReaderProcess) -> None:
        """Read until there is no page left, or too many have failed."""
        process.use(self._ocr.engine)
        while True:
            with self._lock:
                if not self._todo:
                    return
                page = self._todo.popleft()
            try:
                found = self._read(page, process)
            except ParseError as error:
                self._fail(page, str(error))
            else:
                with self._lock:
                    self._found[page] = found

    def result(self) -> Scans:
        """Put the pages together."""
        texts = {page: found for page, found in sorted(self._found.items()) if found.text}
        letters = sum(len(found.text) for found in texts.values())
        languages: Counter[str] = Counter()
        for found in texts.values():
            if found.language:
                languages[found.language] += len(found.text)
        total = sum(found.confidence * len(found.text) for found in texts.values())
        return Scans(
            [Section((f"Page {page}",), f"page={page}", found.text) for page, found in texts.items()],
            ScanCounts(
                pages=len(self._found),
                lines=sum(found.lines for found in self._found.values()),
                left_out=sum(found.left_out for found in self._found.values()),
                unread=tuple(sorted(self._unread.items())),
            ),
            total / letters if letters else None,
            max(languages, key=lambda name: languages[name], default=None),
        )

    def _fail(self, page: int, reason: str) -> None:
        with self._lock:
            self._unread[page] = reason
            self._failed += 1
            if self._failed >= _ENDURED:
                self._unread |= dict.fromkeys(self._todo, f"not tried after {_ENDURED} pages that could not be read")
                self._todo.clear()

    def _read(self, page: int, process: ReaderProcess) -> _Found:
        asked = {"content_type": self._content_type, "page": page, "confidence": self._ocr.config.confidence}
        answer = _ask(self._body, asked, process)
        try:
            return _Found(
                clean(answer["text"]),
                int(answer["lines"]),
                int(answer["left_out"]),
                min(100.0, max(0.0, float(answer["confidence"]))),
                language_of(answer["language"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ParseError("the reader process returned invalid data") from error


def _ask(body: bytes, asked: dict[str, Any], process: ReaderProcess) -> dict[str, Any]:
    with closing(process.ask(SCANS, json.dumps(asked), body)) as answers:
        [(answer, _)] = answers
    return answer
