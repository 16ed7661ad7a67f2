"""Pages read ahead of the build: in processes of their own, while it fetches, cuts and embeds."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from embedder import cpu
from indexer import memory
from indexer.config import ChunkConfig
from indexer.machines import AHEAD, Machines, ToCome
from indexer.parsing import parse
from indexer.records import Document, Failure, Known, Page, Parsed, Skip
from indexer.sandbox import Lender, Sandbox

Item = Page | Known | Skip | Failure
_MOST = 4  # processes


class Lookahead:
    """Reads pages in processes of this machine."""

    def __init__(self, parse: Callable[[Page, Sandbox], Document], wanted: Callable[[Page], bool]) -> None:
        """Take how a page is read, and whether it is to be; `wanted` is asked in the thread that asks for the items."""
        self._parse = parse
        self._wanted = wanted
        self._pool = ThreadPoolExecutor(memory.readers(min(_MOST, cpu.detect().cores)), thread_name_prefix="parse")
        self._lender = Lender()

    def over(self, items: Iterable[Item]) -> Iterator[tuple[Item, ToCome[Parsed] | None]]:
        """Read pages ahead; an error of reading one is raised by its future."""
        return _queue(
            items, self._wanted, lambda page: self._pool.submit(self._read, page), lambda: memory.share(AHEAD)
        )

    def close(self) -> None:
        """Stop at once, whatever is being read."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._lender.close()
        self._pool.shutdown(wait=True)

    def _read(self, page: Page) -> Parsed:
        with self._lender.borrowed() as sandbox:
            return Parsed(self._parse(page, sandbox))


def read_ahead(
    items: Iterable[Item], wanted: Callable[[Page], bool], chunk: ChunkConfig, cluster: Machines | None = None
) -> Generator[tuple[Item, ToCome[Parsed] | None], None, None]:
    """Give every item in its turn, and with a page that is `wanted` what comes of it, here or on a cluster.

    A cluster cuts documents as well, after `chunk`. An error of reading a page is raised by its result.
    """
    if cluster is not None:
        yield from _queue(items, wanted, lambda page: cluster.read(page, chunk), lambda: cluster.pages)
        return
    with closing(Lookahead(parse, wanted)) as lookahead:
        yield from lookahead.over(items)


def _queue(
    items: Iterable[Item],
    wanted: Callable[[Page], bool],
    read: Callable[[Page], ToCome[Parsed]],
    ahead: Callable[[], int],
) -> Iterator[tuple[Item, ToCome[Parsed] | None]]:
    waiting: deque[tuple[Item, ToCome[Parsed] | None]] = deque()
    for item in items:
        waiting.append((item, read(item) if isinstance(item, Page) and wanted(item) else None))
        while len(waiting) > ahead():
            yield waiting.popleft()
    yield from waiting
