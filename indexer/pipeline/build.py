"""The build: sources in, a published generation out. What has not changed since the live one is taken from it."""

from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

from embedder.protocol import Embedder
from indexer import memory
from indexer.config import BuildConfig
from indexer.crawl.crawler import CrawlServices
from indexer.crawl.journal import Journal, base_of
from indexer.crawl.sessions import Sessions
from indexer.cut.chunking import MOST_CHUNKS, Chunker
from indexer.errors import NothingToIndex, ParseError, SourceError
from indexer.generation.layout import JOURNAL, REPOSITORIES
from indexer.generation.manifest import ANALYSIS, SCHEMA_VERSION, TOKENS
from indexer.generation.previous import (
    READER_VERSION,
    PreviousGeneration,
    indexed_with,
    is_indexed,
    notes_of,
    record_of,
    sections_of,
)
from indexer.pipeline.context import BuildContext
from indexer.pipeline.draft import Draft, drafting, open_earlier
from indexer.pipeline.lookahead import read_ahead
from indexer.pipeline.machines import Machines, ToCome
from indexer.pipeline.progress import READING, Progress
from indexer.pipeline.report import BuildReport
from indexer.pipeline.reuse import reuse_of
from indexer.publish.source_settings import changes, credentialed, with_kept
from indexer.read.access_list import NOBODY
from indexer.read.ocr.installation import find
from indexer.read.parsing import Unwanted
from indexer.records import Chunk, Document, Failure, Item, Known, Page, PageRecord, Parsed, Skip
from indexer.sources.addresses import full_name, refuse_secret
from indexer.sources.git_mirror import Mirrors
from indexer.sources.pushed_store import SOURCE, PushedReader, PushedStore
from indexer.sources.reading import Reading, read_sources
from indexer.sources.templates import Templates

_SKIPPED, _FAILED = "skipped: ", "failed: "  # outcomes of pages that did not become documents, before the reason


def build(
    sources: Sequence[str],
    index_dir: Path,
    embedder: Embedder,
    config: BuildConfig,
    *,
    progress: Progress,
    cluster: Machines | None = None,
    is_brief: bool = False,
) -> BuildReport:
    """Read the sources, index them, and make the result the live generation of `index_dir`.

    What was pushed to the index is one of its sources, whether or not it is named, and is always read.

    Pages, documents and vectors that are unchanged since the live generation are taken from it; if nothing has
    changed at all, it stays as it is. Whatever goes wrong, and wherever the process is stopped, the generation that
    was live stays live.

    Args:
        sources: http or https addresses, repositories, buckets, folders or files: all that the index is to hold.
        index_dir: folder of the index; made if it is missing.
        embedder: makes the vectors; its fingerprint goes into the index. Asked for nothing else while nothing is new.
        config: the settings: limits, chunk sizes, how many generations to keep, what to read again.
        progress: told how far the build is; closed at the end.
        cluster: machines that read, cut and embed the pages; None means this one.
        is_brief: see `writer_lock`.

    Raises:
        SourceError: a source cannot be read at all.
        NothingToIndex: none of them gave any text.
        BuildLocked: another build is writing this index.
        IndexUnwritable: the folder cannot be written, is full, or holds something else.
        ConfigError, VectorError: the embedder cannot be used for this.
        MemoryShort: it may not have the memory that it needs to go on.
        ClusterError: the cluster cannot do its part.
        CredentialsError, SessionEnded: a site cannot be read with its credentials.
    """
    ocr = find(config.ocr)
    store = PushedStore(index_dir)
    if not sources and not store.last():
        raise SourceError("no source given; name a site, folder or file")
    for source in sources:
        refuse_secret(source)
    sources = list(dict.fromkeys(full_name(source) for source in sources))
    refresh = {SOURCE, *(sources if config.refresh is None else map(full_name, config.refresh))}
    metadata = {full_name(source): {k: list(v) for k, v in given.items()} for source, given in config.metadata.items()}
    config = replace(config, refresh=refresh, metadata=metadata)
    with (
        drafting(index_dir, config.keep_generations, progress, is_brief=is_brief) as folder,
        closing(open_earlier(index_dir, progress)) as earlier,
        closing(Journal(folder.parent / JOURNAL, base_of(earlier.manifest, config.credentials))) as journal,
        store.read() as pushed,
    ):
        last = pushed.last()
        before = earlier.manifest.sources if earlier.manifest else ()
        if not sources or pushed.count or SOURCE in (*sources, *before):
            sources = [*(source for source in sources if source != SOURCE), SOURCE]
        if config.tokens is None:
            config = replace(config, tokens=earlier.manifest is not None and TOKENS in earlier.manifest.files)
        context = BuildContext(with_kept(config, sources, earlier.manifest), earlier, embedder, progress, ocr, cluster)
        mirrors = Mirrors(index_dir / REPOSITORIES, config.credentials)
        with closing(_Build(sources, folder, embedder, context, pushed, mirrors)) as work:
            if config.full:
                journal.drop()
            report = work.run(index_dir, journal)
            journal.drop()
            mirrors.keep(sources)
        if last:
            store.settle(last)
        return report


class _Build:
    """Takes what the sources give, and decides of each page what becomes of it in the draft."""

    def __init__(
        self,
        sources: Sequence[str],
        folder: Path,
        embedder: Embedder,
        context: BuildContext,
        pushed: PushedReader,
        mirrors: Mirrors,
    ) -> None:
        config, self._earlier, self._ledger = context.config, context.earlier, context.ledger
        self._sources = sources
        self._pushed = pushed
        self._mirrors = mirrors
        self._embedder = embedder
        self._context = context
        self._progress = context.progress
        self._live = live = self._earlier.manifest
        self._fingerprint = dict(embedder.fingerprint)
        ocr = None if context.ocr.obstacle else config.ocr.as_dict()
        self._settings = config.as_dict() | {"ocr": ocr, "reading": READER_VERSION}
        self._settings |= {"metadata": config.metadata} if config.metadata else {}
        self._settings |= {"model": dict(config.model)} if config.model else {}
        if asked := credentialed(config, sources, live):
            self._settings["credentials"] = asked
        self._ledger.settings = changes(config, live, context.progress.message)
        self._found_again: set[int] = set()  # documents of the earlier generation that are still there
        reuse = reuse_of(live, sources, config, self._settings, self._fingerprint)
        if reuse.refusal:
            self._progress.message(reuse.refusal)
        self._earlier.is_trusted = reuse.passages
        self._has_vectors = reuse.vectors
        learnt = live.settings.get("templates") if live is not None and reuse.passages else None
        self._templates = Templates(learnt, self._is_new, reads_text=context.cluster is None)
        dimension = live.counts.dimension if live is not None and reuse.vectors else 0
        vectors_from = self._earlier if dimension else PreviousGeneration.nothing()
        self._draft = Draft(
            folder,
            dimension or embedder.dimension,
            replace(context, earlier=vectors_from),
            may_stay=reuse.everything,
        )

    def close(self) -> None:
        """Release the files of the draft."""
        self._draft.close()

    def run(self, index_dir: Path, journal: Journal) -> BuildReport:
        """Read the sources into the draft, and publish it unless nothing has changed; see `build`."""
        self._read_sources(journal)
        live = self._live
        if (
            live is not None
            and live.schema_version >= SCHEMA_VERSION
            and live.analysis == ANALYSIS
            and self._draft.is_unchanged
            and not self._ledger.gone.count
        ):
            return self._ledger.report(live.id, live.counts, published=False)
        self._draft.differ()
        if not self._draft.counts.documents and self._sources != [SOURCE]:
            journal.drop()  # all there is has been fetched
            raise NothingToIndex(self._ledger.why_nothing(self._sources, is_live=live is not None))
        self._draft.finish()
        return self._draft.publish(
            index_dir,
            fingerprint=self._fingerprint,
            settings=self._settings | {"templates": self._templates.kept(self._sources)},
            sources=self._sources,
        )

    def _read_sources(self, journal: Journal) -> None:
        """Take what the sources give; what those have that need not be read is taken from the live generation."""
        config = self._context.config
        self._progress.phase(READING)
        resting, rested = self._earlier.resting(self._sources, config.refresh or ()), set()
        for record in self._earlier.pages() if resting else ():
            if record.source in resting and not self._pushed.has(record.url):
                rested.add(record.url)
                self._take(Known(record))
        reading = Reading(
            limits=config.crawl,
            report_due=self._progress.found,
            earlier=self._earlier,
            services=CrawlServices(self._ledger.traffic, journal, Sessions(config.credentials)),
            templates=self._templates,
            rested=rested,
            pushed=self._pushed,
            mirrors=self._mirrors,
            no_images=self._context.ocr.obstacle,
        )
        items = read_sources([source for source in self._sources if source not in resting], reading)
        fetching = partial(self._ledger.stopwatch.timed, "fetch")
        ahead = read_ahead(items, self._is_new, config.chunk, self._context.ocr, self._context.cluster, fetching)
        with closing(items), closing(ahead):  # whatever happens here, fetchers and readers stop at once
            for item, parsed in ahead:
                self._take(item, parsed)
        for number, url, _ in self._earlier.documents():
            if number not in self._found_again:
                self._ledger.gone.add(url)

    def _is_new(self, page: Page) -> bool:
        """Whether a page that was fetched has to be read."""
        record = self._earlier.unchanging_page(page.url)
        return not page.noindex and (record is None or record.content_hash != page.content_hash)

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
        self._note(page.url, filter(None, [page.note]))
        if parsed is not None:
            outcome = self._read(page, parsed)
        elif page.noindex or record is None:
            outcome = self._skip(page.url, page.left_out)
        else:
            outcome = self._same(replace(record, source=page.source))
        self._draft.remember(record_of(page, outcome))

    def _known(self, known: Known) -> None:
        """Take over a page that was not read, because it is unchanged or out of reach."""
        record = known.record
        if known.kept is not None:
            self._ledger.kept.append(Failure(record.url, known.kept))
        if record.noindex:
            outcome = self._skip(record.url, record.outcome.removeprefix(_SKIPPED))
        elif is_indexed(record.outcome) and not self._earlier.is_trusted:
            outcome = self._cut_again(record)
        else:
            outcome = self._same(record, is_kept=known.kept is not None)
        if not self._earlier.is_trusted:  # it has to be read anew as soon as it can be, whatever its content is then
            record = replace(record, etag=None, last_modified=None, content_hash=record.url)
        self._draft.remember(replace(record, outcome=outcome))

    def _same(self, record: PageRecord, *, is_kept: bool = False) -> str:
        """Do with a page what was done before; returns its outcome."""
        if is_indexed(record.outcome):
            self._note(record.url, notes_of(record.outcome))
            number, source = self._find_again(record.url)
            self._ledger.unchanged += not is_kept
            if source != record.source:  # another source leads to it than before
                self._draft.differ()
            if self._has_vectors:
                self._draft.carry(number, record.source)
            else:
                self._embed_again(number, record.source)
        elif record.outcome.startswith(_FAILED):
            self._ledger.failures.append(Failure(record.url, record.outcome.removeprefix(_FAILED)))
        else:
            self._skip(record.url, record.outcome.removeprefix(_SKIPPED))
        return record.outcome

    def _read(self, page: Page, to_come: ToCome[Parsed]) -> str:
        if page.source == SOURCE:
            self._draft.differ()  # whatever comes of it has to be noted; and what is there is copied meanwhile
        try:
            with nullcontext() if self._context.cluster else self._ledger.stopwatch.timed("parse"):
                parsed = to_come.result()  # what comes from a cluster brings its seconds with it
        except Unwanted as error:
            return self._skip(page.url, str(error))
        except ParseError as error:
            self._ledger.failures.append(Failure(page.url, str(error)))
            return f"{_FAILED}{error}"
        given = {name: tuple(values) for name, values in self._context.config.metadata.get(page.source, {}).items()}
        document = replace(parsed.document, metadata={**given, **parsed.document.metadata})
        self._ledger.stopwatch.add(parsed.seconds)
        outcome = self._index(document, len(page.body), parsed.chunks)
        record = self._earlier.page(page.url)
        if not is_indexed(outcome):
            return outcome
        if record is None or not is_indexed(record.outcome):
            self._ledger.new.add(page.url)
            return outcome
        self._find_again(page.url)
        if record.content_hash == page.content_hash:
            self._ledger.unchanged += 1
        else:
            self._ledger.changed.add(page.url)
        return outcome

    def _embed_again(self, number: int, source: str) -> None:
        """Take over the passages of a document, but no vectors; where ours reads less, cut it from them anew."""
        document, chunks, _ = self._earlier.read(number)
        chunker = self._chunker
        with self._ledger.stopwatch.timed("chunk"):
            again = chunker.for_this_model(chunks)
        if again is None:
            self._index(replace(document, source=source, sections=sections_of(chunks)))
        else:
            self._draft.add(replace(document, source=source), again)

    def _cut_again(self, record: PageRecord) -> str:
        """Index a page that is out of reach from the passages there are of it."""
        number, _ = self._find_again(record.url)
        document, chunks, _ = self._earlier.read(number)
        page_notes = notes_of(record.outcome)
        return self._index(replace(document, source=record.source, sections=sections_of(chunks), notes=page_notes))

    def _index(self, document: Document, size: int | None = None, chunks: list[Chunk] | None = None) -> str:
        """Add a document, cut here if it is not yet; `size` is the bytes of its page, if that was read."""
        if chunks is None:
            chunker = self._chunker
            with self._ledger.stopwatch.timed("chunk"):
                chunks = chunker.split(document)
        scans = document.scans
        if scans.pages:
            self._ledger.scanned(scans)
        if not chunks:
            return self._skip(document.url, f"no text: {scans.unread[0][1]}" if scans.unread else "no text")
        for page, reason in scans.unread:
            self._ledger.skip(Skip(f"{document.url}#page={page}", f"a page without text: {reason}"))
        if NOBODY in document.access:
            self._ledger.skip(Skip(document.url, "an access list that is empty or cannot be read: hidden from all"))
        if len(chunks) > MOST_CHUNKS:
            del chunks[MOST_CHUNKS:]
            self._ledger.skip(Skip(document.url, f"what is over the limit of {MOST_CHUNKS:,} passages in a document"))
        self._draft.add(document, chunks)
        if size is not None:
            self._ledger.size(document.url, size, len(chunks))
        self._note(document.url, document.notes)
        return indexed_with(document.notes)

    def _note(self, url: str, texts: Iterable[str]) -> None:
        for text in texts:
            self._ledger.note(url, text)

    def _skip(self, url: str, reason: str) -> str:
        self._ledger.skip(Skip(url, reason))
        return f"{_SKIPPED}{reason}"

    def _find_again(self, url: str) -> tuple[int, str]:
        """Note that a document of the earlier generation is still there; return its number and source."""
        number, source = self._earlier.document(url)
        self._found_again.add(number)
        return number, source

    @cached_property
    def _chunker(self) -> Chunker:
        with self._ledger.stopwatch.timed("model"):
            self._embedder.count_tokens([""])  # which compiles and loads the model, if that has not been done yet
        return Chunker(self._embedder, self._context.config.chunk)
