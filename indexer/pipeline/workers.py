"""The workers of a build, which read pages ahead of it: processes of this machine, or the machines of a cluster."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import Protocol, TypeVar

from embedder.late_interaction import DocumentTokens
from indexer import memory
from indexer.config import ChunkConfig
from indexer.errors import ParseError
from indexer.pipeline.report import Stopwatch
from indexer.read.ocr.pages import NO_OCR, Ocr
from indexer.read.parsing import parse
from indexer.read.reader_process import ReaderPool, most_at_once
from indexer.records import Item, Page, Parsed

AHEAD = 16  # items taken from the sources before the build has dealt with the first of them
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A result that is computed in another thread, process or machine, such as a `concurrent.futures.Future`."""

    def result(self) -> T_co:
        """Wait for the result; raises the error of the computation."""


class Workers(Protocol):
    """Machines that read, cut and embed; see `indexer.pipeline.cluster`."""

    @property
    def pages(self) -> int:
        """Return how many pages may be under way."""

    @property
    def blocks(self) -> int:
        """Return how many blocks of texts may be under way."""

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> Pending[Parsed]:
        """Start to read a page; the result may raise ParseError."""

    def encode(self, texts: Sequence[str], *, tokens: bool = False) -> Pending[tuple[DocumentTokens, float]]:
        """Start to embed texts, with their tokens if these are wanted; the result has the seconds that it took."""


class _LocalReaders:
    """Processes of this machine, which leave documents whole."""

    def __init__(self) -> None:
        self.pages = memory.share(AHEAD)
        self._threads = ThreadPoolExecutor(most_at_once(), thread_name_prefix="parse")
        self._processes = ReaderPool()

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> Future[Parsed]:
        if page.reading is None or page.reading.content is None:
            return self._threads.submit(self._read, page, ocr)
        done: Future[Parsed] = Future()
        try:
            done.set_result(Parsed(parse(page)))
        except ParseError as error:
            done.set_exception(error)
        return done

    def _read(self, page: Page, ocr: Ocr) -> Parsed:
        with self._processes.borrowed() as process:
            return Parsed(parse(page, process, ocr, self._processes.spare))

    def close(self) -> None:
        """Stop at once, whatever is being read."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.close()
        self._threads.shutdown(wait=True)


def read_ahead(
    items: Iterator[Item],
    is_wanted: Callable[[Page], bool],
    chunk: ChunkConfig,
    ocr: Ocr = NO_OCR,
    cluster: Workers | None = None,
    stopwatch: Stopwatch | None = None,
) -> Generator[tuple[Item, Parsed | ParseError | None], None, None]:
    """Yield every item in its turn; with a page that is wanted, the result of reading it.

    `is_wanted` is called as soon as a page is there. A cluster reads and cuts instead of this machine. The stopwatch
    counts the time in which the build waits for pages to be fetched and read.
    """
    watch = stopwatch or Stopwatch()
    queue: deque[tuple[Item, Pending[Parsed] | None]] = deque()
    readers: Workers | _LocalReaders = cluster or _LocalReaders()

    def first() -> tuple[Item, Parsed | ParseError | None]:
        item, pending = queue.popleft()
        if pending is None:
            return item, None
        try:
            with nullcontext() if cluster else watch.timed("parse"):  # the results of a cluster bring their seconds
                return item, pending.result()
        except ParseError as error:
            return item, error

    try:
        while True:
            with watch.timed("fetch"):
                item = next(items, None)
            if item is None:
                break
            queue.append((item, readers.read(item, chunk, ocr) if isinstance(item, Page) and is_wanted(item) else None))
            while len(queue) > readers.pages:
                yield first()
        while queue:
            yield first()
    finally:
        if isinstance(readers, _LocalReaders):
            readers.close()
