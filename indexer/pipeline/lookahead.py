"""Pages read ahead of the build: in processes of their own, while it fetches, cuts and embeds."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext

from embedder import cpu
from indexer import memory
from indexer.config import ChunkConfig
from indexer.errors import ParseError
from indexer.pipeline.machines import AHEAD, Machines, Readers, ToCome
from indexer.read.ocr.installation import NO_OCR, Ocr
from indexer.read.parsing import parse
from indexer.read.reader_process import ReaderPool
from indexer.records import Item, Page, Parsed

_MOST = 4  # processes


class _LocalReaders:
    """Processes of this machine."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(memory.readers(min(_MOST, cpu.detect().cores)), thread_name_prefix="parse")
        self._lender = ReaderPool()

    @property
    def pages(self) -> int:
        return memory.share(AHEAD)

    def read(self, page: Page, chunk: ChunkConfig, ocr: Ocr) -> Future[Parsed]:
        if page.reading is not None and page.reading.content is not None:
            done: Future[Parsed] = Future()
            try:
                done.set_result(Parsed(parse(page)))
            except ParseError as error:
                done.set_exception(error)
            return done
        return self._pool.submit(self._read, page, ocr)

    def close(self) -> None:
        """Stop at once, whatever is being read."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._lender.close()
        self._pool.shutdown(wait=True)

    def _read(self, page: Page, ocr: Ocr) -> Parsed:
        with self._lender.borrowed() as process:
            return Parsed(parse(page, process, ocr, self._lender.spare))


def read_ahead(
    items: Iterator[Item],
    is_wanted: Callable[[Page], bool],
    chunk: ChunkConfig,
    ocr: Ocr = NO_OCR,
    cluster: Machines | None = None,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Generator[tuple[Item, ToCome[Parsed] | None], None, None]:
    """Give every item in its turn, and with a page that is wanted what comes of reading it.

    Args:
        items: what the sources give.
        is_wanted: whether a page is to be read; asked as soon as the page is there.
        chunk: how a cluster cuts documents; this machine leaves them whole.
        ocr: reads scans, or says why they are not read.
        cluster: reads instead of this machine. An error of reading a page is raised by its result.
        waiting: entered while the next item is waited for.
    """
    opened: AbstractContextManager[Readers] = closing(_LocalReaders()) if cluster is None else nullcontext(cluster)
    queue: deque[tuple[Item, ToCome[Parsed] | None]] = deque()
    with opened as readers:
        while True:
            with waiting():
                item = next(items, None)
            if item is None:
                break
            wanted = item if isinstance(item, Page) and is_wanted(item) else None
            queue.append((item, readers.read(wanted, chunk, ocr) if wanted is not None else None))
            while len(queue) > readers.pages:
                yield queue.popleft()
        yield from queue
