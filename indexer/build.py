"""The build: sources in, a published generation out. What has not changed since the live one is taken from it."""

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from embedder.protocol import Embedder
from indexer import memory
from indexer.chunking import MOST_CHUNKS, Chunker
from indexer.config import BuildConfig
from indexer.draft import Draft, drafting, open_earlier
from indexer.earlier import INDEXED, READING, Earlier, cutting, differences, hash_page, record_of, sections_of
from indexer.errors import NothingToIndex, ParseError, SourceError
from indexer.journal import Journal
from indexer.kept import are_kept, changes, with_kept
from indexer.layout import JOURNAL
from indexer.lookahead import Item, read_ahead
from indexer.machines import Machines, ToCome
from indexer.parsing import LinkList
from indexer.progress import Progress
from indexer.records import Chunk, Document, Failure, Known, Page, PageRecord, Parsed, Skip
from indexer.report import BuildReport, Ledger
from indexer.sources import full_name, read_sources
from indexer.templates import Templates

_SKIPPED, _FAILED = "skipped: ", "failed: "  # outcomes of pages that did not become documents, before the reason


def build(
    sources: Sequence[str],
    index_dir: Path,
    embedder: Embedder,
    config: BuildConfig,
    *,
    progress: Progress,
    full: bool = False,
    refresh: Collection[str] | None = None,
    metadata: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
    cluster: Machines | None = None,
) -> BuildReport:
    """Read the sources, index them, and make the result the live generation of `index_dir`.

    Pages, documents and vectors that are unchanged since the live generation are taken from it; if nothing has
    changed at all, it stays as it is. Whatever goes wrong, and wherever the process is stopped, the generation that
    was live stays live.

    Args:
        sources: http or https addresses, folders or files: all that the index is to hold.
        index_dir: folder of the index; made if it is missing.
        embedder: makes the vectors; its fingerprint goes into the index. Asked for nothing else while nothing is new.
        config: limits, chunk sizes, how many generations to keep.
        progress: told how far the build is; closed at the end.
        full: read and cut every page again, whatever its server says, and publish in any case.
        refresh: sources to read, where what the live generation has of the others can be taken over; None means all.
        metadata: by source, names and values that all of its documents get, unless they have others of that name.
        cluster: machines that read, cut and embed the pages; None means this one.

    Raises:
        SourceError: a source cannot be read at all.
        NothingToIndex: none of them gave any text.
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
        ConfigError, VectorError: the embedder cannot be used for this.
        MemoryShort: it may not have the memory that it needs to go on.
        ClusterError: the cluster cannot do its part.
    """
    if not sources:
        raise SourceError("no source given; name a site, folder or file")
    sources = list(dict.fromkeys(full_name(source) for source in sources))
    refresh = sources if refresh is None else {full_name(source) for source in refresh}
    metadata = {full_name(source): {k: list(v) for k, v in given.items()} for source, given in (metadata or {}).items()}
    with (
        drafting(index_dir, config.keep_generations, progress) as folder,
        closing(open_earlier(index_dir, progress)) as earlier,
        closing(Journal(folder.parent / JOURNAL, earlier.manifest.id if earlier.manifest else "")) as journal,
        closing(_Build(sources, folder, embedder, config, progress, earlier, metadata, journal, cluster, full)) as work,
    ):
        if full:
            journal.drop()
        report = work.run(index_dir, refresh)
        journal.drop()
        return report


class _Build:
    def __init__(
        self,
        sources: Sequence[str],
        folder: Path,
        embedder: Embedder,
        config: BuildConfig,
        progress: Progress,
        earlier: Earlier,
        metadata: Mapping[str, Mapping[str, Sequence[str]]],
        journal: Journal,
        cluster: Machines | None,
        full: bool,
    ) -> None:
        self._sources = list(sources)
        self._embedder = embedder
        self._config = config = with_kept(config, sources, earlier.manifest)
        self._progress = progress
        self._earlier = earlier
        self._fingerprint = dict(embedder.fingerprint)
        self._metadata = metadata
        self._journal = journal
        self._cluster = cluster
        self._settings = config.as_dict() | {"reading": READING} | ({"metadata": metadata} if metadata else {})
        self._ledger = Ledger()
        self._ledger.settings = changes(config, earlier.manifest, progress.message)
        self._seen: set[int] = set()  # documents of the earlier generation that are still there
        # While nothing differs from the earlier generation, its documents are held back instead of copied: if nothing
        # differs to the end, there is nothing to publish.
        self._held: list[tuple[int, str]] | None = None
        dimension = self._trust(full=full)
        live = earlier.manifest
        self._templates = Templates(
            live.settings.get("templates") if live and earlier.is_trusted else None, self._is_new
        )
        self._draft = Draft(
            folder,
            dimension or embedder.dimension,
            config.vector_index,
            earlier=earlier if dimension else Earlier.nothing(),
            embedder=embedder,
            stopwatch=self._ledger.stopwatch,
            progress=progress,
            cluster=cluster,
        )

    def close(self) -> None:
        self._draft.close()

    def run(self, index_dir: Path, refresh: Collection[str]) -> BuildReport:
        self._progress.phase("reading")
        resting, rested = self._earlier.resting(self._sources, refresh), set()
        for record in self._earlier.pages() if resting else ():
            if record.source in resting:
                rested.add(record.url)
                self._take(Known(record))
        reading = [source for source in self._sources if source not in resting]
        items = self._items(reading, rested)
        ahead = read_ahead(items, self._is_new, self._config.chunk, self._cluster)
        with closing(items), closing(ahead):  # whatever happens here, fetchers and readers stop at once
            for item, parsed in ahead:
                self._take(item, parsed)
        for number, url, _ in self._earlier.documents():
            if number not in self._seen:
                self._ledger.gone.add(url)
        live = self._earlier.manifest
        if live is not None and self._held and not self._ledger.gone.count:
            return self._ledger.report(live.id, live.counts, published=False)
        self._release()
        if not self._draft.counts.documents:
            self._journal.drop()  # all there is has been fetched
            raise NothingToIndex(self._ledger.why_nothing(self._sources, is_live=live is not None))
        self._draft.finish()
        self._draft.publish(
            index_dir,
            fingerprint=self._fingerprint,
            settings=self._settings | {"templates": self._templates.kept(self._sources)},
            sources=self._sources,
            ledger=self._ledger,
        )
        return self._draft.report(self._ledger)

    def _trust(self, *, full: bool) -> int:
        """Find out what the earlier generation is good for, and say so; dimension of its vectors if they are."""
        live = self._earlier.manifest
        if live is None:
            return 0
        models = differences(live.fingerprint, self._fingerprint)
        cuts = differences(cutting(live.settings), cutting(self._settings))
        self._earlier.is_trusted = not (models or cuts or full)
        if models or cuts:
            rest = " and embedding every page again" if models else " every page again, and embedding what differs"
            self._progress.message(f"{models or cuts}: reading{rest}")
        same = live.settings.get("vector_index") == self._config.vector_index and are_kept(self._config, live)
        if self._earlier.is_trusted and same and live.sources == self._sources:
            self._held = []
        return 0 if models else live.counts.dimension

    def _items(self, sources: Sequence[str], rested: Collection[str]) -> Generator[Item, None, None]:
        found, traffic = self._progress.found, self._ledger.traffic
        reading = (self._config.crawl, found, self._earlier, traffic, self._journal, self._templates)
        with closing(read_sources(sources, *reading)) as items:
            while True:
                with self._ledger.stopwatch.timed("fetch"):
                    item = next(items, None)
                if item is None:
                    return
                yield Skip(item.url, "already read") if item.url in rested else item

    def _is_new(self, page: Page) -> bool:
        """Whether a page that was fetched has to be read."""
        record = self._earlier.unchanging_page(page.url)
        return not page.noindex and (record is None or record.content_hash != hash_page(page))

    def _take(self, item: Item, parsed: ToCome[Parsed] | None = None) -> None:
        memory.check()
        if isinstance(item, Skip):
            self._ledger.skip(item)
            return
        if isinstance(item, Page):
            self._ledger.fetched += 1
            self._page(item, parsed)
        elif isinstance(item, Known):
            self._known(item)
        else:
            self._ledger.failures.append(item)
        self._progress.page()

    def _page(self, page: Page, parsed: ToCome[Parsed] | None) -> None:
        """Index a page, or find that it is not wanted or unchanged."""
        record = self._earlier.unchanging_page(page.url)
        if parsed is not None:
            outcome = self._read(page, parsed)
        elif page.noindex or record is None:
            outcome = self._skip(page.url, "noindex")
        else:
            outcome = self._same(replace(record, source=page.source))
        self._draft.remember(record_of(page, outcome))

    def _known(self, known: Known) -> None:
        """Take over a page that was not read, because it is unchanged or out of reach."""
        record = known.record
        if known.kept is not None:
            self._ledger.kept.append(Failure(record.url, known.kept))
        if record.noindex:
            outcome = self._skip(record.url, "noindex")
        elif record.outcome == INDEXED and not self._earlier.is_trusted:
            outcome = self._cut_again(record)
        else:
            outcome = self._same(record, is_kept=known.kept is not None)
        if not self._earlier.is_trusted:  # it has to be read anew as soon as it can be, whatever its content is then
            record = replace(record, etag=None, last_modified=None, content_hash=record.url)
        self._draft.remember(replace(record, outcome=outcome))

    def _same(self, record: PageRecord, *, is_kept: bool = False) -> str:
        """Do with a page what was done before; returns its outcome."""
        if record.outcome == INDEXED:
            number, source = self._stays(record.url)
            self._ledger.unchanged += not is_kept
            if self._held is not None and source == record.source:
                self._held.append((number, source))
            else:
                self._release()
                self._draft.carry(number, record.source)
        elif record.outcome.startswith(_FAILED):
            self._ledger.failures.append(Failure(record.url, record.outcome.removeprefix(_FAILED)))
        else:
            self._skip(record.url, record.outcome.removeprefix(_SKIPPED))
        return record.outcome

    def _read(self, page: Page, to_come: ToCome[Parsed]) -> str:
        try:
            with nullcontext() if self._cluster else self._ledger.stopwatch.timed("parse"):
                parsed = to_come.result()  # what comes from a cluster brings its seconds with it
        except LinkList as error:
            return self._skip(page.url, str(error))
        except ParseError as error:
            self._ledger.failures.append(Failure(page.url, str(error)))
            return f"{_FAILED}{error}"
        given = {name: tuple(values) for name, values in self._metadata.get(page.source, {}).items()}
        document = replace(parsed.document, metadata={**given, **parsed.document.metadata})
        self._ledger.stopwatch.add(parsed.seconds)
        outcome = self._index(document, len(page.body), parsed.chunks)
        record = self._earlier.page(page.url)
        if outcome != INDEXED:
            return outcome
        if record is None or record.outcome != INDEXED:
            self._ledger.new.add(page.url)
            return outcome
        self._stays(page.url)
        if record.content_hash == hash_page(page):
            self._ledger.unchanged += 1
        else:
            self._ledger.changed.add(page.url)
        return outcome

    def _cut_again(self, record: PageRecord) -> str:
        """Index a page that is out of reach from the passages there are of it."""
        number, _ = self._stays(record.url)
        document, chunks, _ = self._earlier.read(number)
        return self._index(replace(document, source=record.source, sections=sections_of(chunks)))

    def _index(self, document: Document, size: int | None = None, chunks: list[Chunk] | None = None) -> str:
        """Add a document, cut here if it is not yet; `size` is the bytes of its page, if that was read."""
        if chunks is None:
            with self._ledger.stopwatch.timed("chunk"):
                chunks = self._chunker.split(document)
        if not chunks:
            return self._skip(document.url, "no text")
        if len(chunks) > MOST_CHUNKS:
            del chunks[MOST_CHUNKS:]
            self._ledger.skip(Skip(document.url, f"what is over the limit of {MOST_CHUNKS:,} passages in a document"))
        self._release()
        self._draft.add(document, chunks)
        if size is not None:
            self._ledger.size(document.url, size, len(chunks))
        return INDEXED

    def _skip(self, url: str, reason: str) -> str:
        self._ledger.skip(Skip(url, reason))
        return f"{_SKIPPED}{reason}"

    def _stays(self, url: str) -> tuple[int, str]:
        """Note that a document of the earlier generation is still there; return its number and source."""
        number, source = self._earlier.document(url)
        self._seen.add(number)
        return number, source

    def _release(self) -> None:
        """Something differs: copy the documents that were held back."""
        held, self._held = self._held, None
        for number, source in held or ():
            self._draft.carry(number, source)

    @cached_property
    def _chunker(self) -> Chunker:
        return Chunker(self._embedder, self._config.chunk)
