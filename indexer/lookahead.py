"""Pages read ahead of the build: in processes of their own, while it fetches, cuts and embeds."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from embedder import cpu
from indexer.records import Document, Failure, Known, Page, Skip
from indexer.sandbox import Sandbox, borrowed

Item = Page | Known | Skip | Failure
_MOST = 4  # processes
_AHEAD = 16  # items taken from the source before the build has dealt with the first of them


class Lookahead:
    """Gives every item in its turn, and with a page that is to be read its document to come."""

    def __init__(self, parse: Callable[[Page, Sandbox], Document], wanted: Callable[[Page], bool]) -> None:
        """Take how a page is read, and whether it is to be; `wanted` is asked in the thread that asks for the items."""
        self._parse = parse
        self._wanted = wanted
        self._pool = ThreadPoolExecutor(min(_MOST, cpu.detect().cores), thread_name_prefix="parse")
        self._at_work: set[Sandbox] = set()

    def over(self, items: Iterable[Item]) -> Iterator[tuple[Item, Future[Document] | None]]:
        """Read pages ahead; an error of reading one is raised by its future."""
        waiting: deque[tuple[Item, Future[Document] | None]] = deque()
        for item in items:
            document = None
            if isinstance(item, Page) and self._wanted(item):
                document = self._pool.submit(self._read, item)
            waiting.append((item, document))
            if len(waiting) > _AHEAD:
                yield waiting.popleft()
        yield from waiting

    def close(self) -> None:
        """Stop at once, whatever is being read."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for sandbox in tuple(self._at_work):
            sandbox.interrupt()
        self._pool.shutdown(wait=True)

    def _read(self, page: Page) -> Document:
        with borrowed() as sandbox:
            self._at_work.add(sandbox)
            try:
                return self._parse(page, sandbox)
            finally:
                self._at_work.discard(sandbox)
