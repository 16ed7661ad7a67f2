"""Build a generation from sources. Unchanged pages, documents and vectors are copied from the live generation.

The stages are `fetch → read → cut → embed → write → publish`. The first two stages run ahead of the others.
"""

import shutil
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from embedder.text_embedder import Embedder
from indexer import memory
from indexer.config import BuildConfig, limits_differ, without_sources
from indexer.cut.chunking import MAX_CHUNKS, Chunker
from indexer.errors import NothingToIndex, ParseError, SourceError
from indexer.generation.manifest import GENERATIONS, current_id, read_manifest
from indexer.generation.previous import PreviousGeneration, record_of, sections_of
from indexer.network.credentials import Session
from indexer.network.urls import full_name, refuse_secret
from indexer.pipeline.draft import BuildPlan, Draft, complete, drafting, open_earlier
from indexer.pipeline.progress import READING, BuildReport, Progress
from indexer.read.access_list import NOBODY, UNSUPPORTED_LIST
from indexer.read.document_reader import Unwanted, read_document
from indexer.read.ocr import find_engine
from indexer.read.reader_process import ReaderPool, busy_seconds, max_readers
from indexer.records import Document, Failure, Item, Outcome, Page, PageRecord, PageState, Skip
from indexer.sources.pushed_store import SOURCE, PushedStore
from indexer.sources.reading import Reading, Templates, read_sources

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster

# A source is assumed to be broken if it lost all of its documents, or over half of them and at least five.
_MIN_REMAINING_SHARE, _MIN_LOST_DOCUMENTS = 0.5, 5
_MAX_ITEMS_AHEAD = 16  # items that are fetched and parsed before they are needed


def build(
    sources: Sequence[str],
    index_dir: Path,
    embedder: Embedder,
    config: BuildConfig,
    *,
    progress: Progress,
    cluster: "Cluster | None" = None,
    is_brief: bool = False,
) -> BuildReport:
    """Index the sources, and make the result the live generation of `index_dir`.

    Pushed documents are always included. If a source has lost most of its documents, its previous documents are kept.
    If nothing has changed, or if the build fails or is stopped, no generation is published.

    Args:
        sources: sites, repositories, buckets, folders and files. Documents of other sources are removed from the index.
        index_dir: folder of the index. It is created if it is missing.
        embedder: embeds new texts. The vectors of unchanged texts are copied.
        progress: displays the progress. It is closed at the end.
        cluster: embeds the texts. By default, this machine embeds them.
        is_brief: whether other writers may wait for this build, see `writer_lock`.

    Raises:
        SourceError, CredentialsError, SessionEnded: a source cannot be read.
        NothingToIndex: no source has text.
        BuildLocked, IndexUnwritable: the index cannot be written.
        ConfigError, VectorError: the embedder cannot be used.
        MemoryShort: the memory limit of the process is too low.
        ClusterError: the cluster failed.
    """
    ocr = find_engine(config.ocr)
    store = PushedStore(index_dir)
    if not sources and not store.last():
        raise SourceError("no source given; name a site, folder or file")
    for source in sources:
        refuse_secret(source)
    sources = list(dict.fromkeys(full_name(source) for source in sources))
    with (
        drafting(index_dir, config.keep_generations, progress, is_brief=is_brief) as folder,
        closing(open_earlier(index_dir, progress)) as earlier,
    ):
        last = store.last()
        before = earlier.manifest.sources if earlier.manifest else ()
        if not sources or store.facts().documents or SOURCE in (*sources, *before):
            sources = [*(source for source in sources if source != SOURCE), SOURCE]
        plan = complete(BuildPlan(config, earlier, progress, sources, embedder=embedder, ocr=ocr, cluster=cluster))
        live, vectors = earlier.manifest, earlier if plan.reuse.vectors else PreviousGeneration()
        dimension = live.counts.dimension if live and plan.reuse.vectors else embedder.dimension
        while True:
            try:
                with closing(Draft(folder, dimension, plan, vectors)) as draft:
                    report = _Build(draft, embedder, plan, store).run(index_dir)
                break
            except _Shrunk as shrunk:
                plan = _without_shrunk(plan, shrunk)
                shutil.rmtree(folder)
                folder.mkdir()
        if last:
            store.record_indexed(last)
        return report


def remove_sources(
    sources: Sequence[str], index_dir: Path, *, keep_generations: int, progress: Progress
) -> BuildReport:
    """Publish a copy of the live generation without the documents of some sources. Nothing is fetched or embedded.

    If a removed page is also in another source, it is missing until the next build.

    Args:
        sources: sources of the index, spelled as for `build`.
        index_dir: folder of the collection.
        keep_generations: number of generations to keep, including the live one.
        progress: displays the progress. It is closed at the end.

    Raises:
        SourceError: the index has no such source.
        NothingToIndex: no document would remain.
        IndexMissing, IndexCorrupt: there is no readable live generation.
        BuildLocked, IndexUnwritable: the index cannot be written.
    """
    removed = {full_name(source) for source in sources}
    current_id(index_dir)  # raises IndexMissing before `drafting` creates a folder
    store = PushedStore(index_dir)
    last = store.last()
    with (
        drafting(index_dir, keep_generations, progress) as folder,
        closing(PreviousGeneration.open(index_dir)) as earlier,
    ):
        manifest = read_manifest(index_dir / GENERATIONS / current_id(index_dir))
        remaining = [source for source in manifest.sources if source not in removed]
        unknown = sorted(removed.difference(manifest.sources))
        if unknown or not removed:
            problem = f"{unknown[0]} is not a source of this index" if unknown else "no source was given"
            raise SourceError(f"{problem}; the index has: {', '.join(manifest.sources)}")
        config = BuildConfig(keep_generations=keep_generations)
        plan = BuildPlan(config, earlier, progress, remaining)
        with closing(Draft(folder, manifest.counts.dimension, plan, earlier)) as draft:
            progress.phase(READING)
            progress.raise_total(manifest.counts.documents)
            for number, url, source in earlier.documents():
                if source in removed:
                    plan.report.gone.add(url)
                else:
                    draft.copy_document(number, source)
                    plan.report.unchanged += 1
                progress.page()
            if not draft.writer.counts.documents:
                raise NothingToIndex("without these sources the index would be empty; the live index has not changed")
            for record in earlier.pages():
                if record.source not in removed:
                    draft.remember(record)
            report = draft.publish(index_dir, manifest.fingerprint, without_sources(manifest.settings, removed))
        if SOURCE in removed:
            store.clear(last)
        return report


class _Shrunk(Exception):
    """A source has lost most of its documents since the previous build."""

    def __init__(self, source: str, observed: str) -> None:
        super().__init__(f"{source} has {observed}")
        self.source, self.observed = source, observed


def _without_shrunk(plan: BuildPlan, shrunk: _Shrunk) -> BuildPlan:
    """Return a plan that copies the previous documents of a shrunk source. Raises SourceError if no other is left."""
    reason = f"{shrunk.observed}; the previous documents are kept; to remove them, index it with --allow-shrink"
    unchanged = {**plan.copy_reasons, shrunk.source: reason}
    if not {*plan.sources}.intersection(plan.config.refresh or ()) - {SOURCE, *unchanged}:
        raise SourceError(
            f"{shrunk.source} has {shrunk.observed}; the live index has not changed. To remove these documents, "
            "index again with --allow-shrink"
        )
    plan.progress.message(f"{shrunk.source} has {reason}")
    report = BuildReport()
    for source, text in unchanged.items():
        report.fail(Failure(source, text), is_kept=True)
    return replace(plan, copy_reasons=unchanged, report=report)


class _Build:
    """Runs a build: reads, copies or skips each page, and publishes the new generation."""

    def __init__(self, draft: Draft, embedder: Embedder, plan: BuildPlan, pushed: PushedStore) -> None:
        self._plan, self._earlier, self._report = plan, plan.earlier, plan.report
        self._draft, self._embedder, self._pushed = draft, embedder, pushed
        self._remaining_ids: set[int] = set()
        self._closed_urls: set[str] = set()
        self._signatures: dict[str, int] = {}
        live = plan.earlier.manifest
        self._earlier.is_trusted = plan.reuse.passages
        self._copied = self._earlier.copied_sources(plan.sources, plan.config.refresh or ()) | plan.copy_reasons.keys()
        self._unchecked = deque(source for source in plan.sources if source not in {SOURCE, *self._copied})
        templates = live.settings.get("templates") if live is not None and plan.reuse.passages else None
        self._templates = Templates(templates, self._is_new)

    def run(self, index_dir: Path) -> BuildReport:
        """Write the documents of all sources to a new generation. Publish it if anything has changed; see `build`."""
        plan, live, report = self._plan, self._earlier.manifest, self._report
        plan.progress.phase(READING)
        with closing(self._pages()) as pages:
            for item, result in pages:
                memory.check()
                if isinstance(item, Skip):
                    report.skip(item)
                    self._closed_urls |= {item.url} if item.reason == UNSUPPORTED_LIST else set()
                    continue
                if isinstance(item, Page | PageRecord):
                    self._check_before(item.source)
                if isinstance(item, Page):
                    report.fetched += 1
                    self._add_page(item, result)
                elif isinstance(item, PageRecord):
                    self._add_carried(item)
                else:
                    report.fail(item)
                plan.progress.page()
        self._check_before(None)
        for number, url, _ in self._earlier.documents():
            if number not in self._remaining_ids:
                report.gone.add(url)
        if live is not None and self._draft.is_unchanged and not report.gone.count:
            report.take_languages(live)
            return report.finish(live.id, live.counts, published=False)
        self._draft.mark_changed()
        if not self._draft.writer.counts.documents and plan.sources != [SOURCE]:
            raise NothingToIndex(report.why_nothing(plan.sources, is_live=live is not None))
        settings = {**plan.settings, "templates": self._templates.of_sources(plan.sources)}
        return self._draft.publish(index_dir, dict(self._embedder.fingerprint), settings)

    def _pages(self) -> Generator[tuple[Item, Document | ParseError | None], None, None]:
        """Yield each item with its document or error (None if it was not parsed). Copied sources come first."""
        plan, copied_sources = self._plan, self._copied
        copied_urls: set[str] = set()
        pushed = {url for url, _, is_there in self._pushed.listed() if is_there} if copied_sources else ()
        for record in self._earlier.pages() if copied_sources else ():
            if record.source in copied_sources and record.url not in pushed:
                copied_urls.add(record.url)
                yield record, None
        reading = Reading(
            limits=plan.config.crawl,
            report_due=plan.progress.raise_total,
            earlier=self._earlier,
            sessions={each.origin: Session(each) for each in plan.config.credentials},
            templates=self._templates,
            copied_urls=copied_urls,
            pushed=self._pushed,
            scratch=self._draft.folder,
            no_images=plan.ocr.obstacle,
        )
        items = read_sources([source for source in plan.sources if source not in copied_sources], reading)
        ahead = self._read_ahead(items)
        with closing(items), closing(ahead):
            yield from ahead

    def _read_ahead(self, items: Iterator[Item]) -> Generator[tuple[Item, Document | ParseError | None], None, None]:
        """Parse new pages in reader processes. Yield every item in order, with the document or error of a new page.

        The report counts the time of waiting for items as `fetch`, and the time of reader processes as `read`.
        """
        queue: deque[tuple[Item, Future[Document] | None]] = deque()
        limit = memory.share(_MAX_ITEMS_AHEAD)
        threads = ThreadPoolExecutor(max_readers(), thread_name_prefix="read")
        processes, busy_before = ReaderPool(), busy_seconds()

        def read(page: Page) -> Document:
            if page.reading is not None and page.reading.content is not None:
                return read_document(page)
            with processes.borrowed() as process:
                return read_document(page, process, self._plan.ocr)

        def first() -> tuple[Item, Document | ParseError | None]:
            item, reading = queue.popleft()
            try:
                return item, None if reading is None else reading.result()
            except ParseError as error:
                return item, error

        try:
            while True:
                with self._report.timed("fetch"):
                    item = next(items, None)
                if item is None:
                    break
                future = threads.submit(read, item) if isinstance(item, Page) and self._is_new(item) else None
                queue.append((item, future))
                while len(queue) > limit:
                    yield first()
            while queue:
                yield first()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            processes.close()
            threads.shutdown(wait=True)
            self._report.seconds["read"] += busy_seconds() - busy_before

    def _check_before(self, source: str | None) -> None:
        """Check the sources read before `source`, or all if it is None. Raises _Shrunk if one lost most documents."""
        config, live = self._plan.config, self._earlier.manifest
        while self._unchecked and source in {None, *self._unchecked} and self._unchecked[0] != source:
            complete_source = self._unchecked.popleft()
            texts, self._signatures = self._signatures, {}
            if live is None or config.allow_shrink or limits_differ(config, live, complete_source):
                continue
            before, now = [], []
            for number, url, signature in self._earlier.first_signatures(complete_source):
                if not self._closed_urls.isdisjoint((url, url.partition("!/")[0])):
                    continue
                before.append(signature)
                if number in self._remaining_ids:
                    now.append(texts.pop(url, signature))
            now += texts.values()
            for old, new, noun in (
                (len(before), len(now), "documents"),
                (len({*before}), len({*now}), "different texts"),
            ):
                if (old and not new) or (new < _MIN_REMAINING_SHARE * old and old - new >= _MIN_LOST_DOCUMENTS):
                    raise _Shrunk(complete_source, f"{new:,} {noun}, and had {old:,} before{self._report.problems()}")

    def _is_new(self, page: Page) -> bool:
        """Return whether a fetched page differs from the previous build."""
        record = self._earlier.reusable_page(page.url)
        return not page.noindex and (record is None or record.content_hash != page.content_hash)

    def _add_page(self, page: Page, result: Document | ParseError | None) -> None:
        """Index a fetched page unless it is excluded or unchanged, and store its record for the next build."""
        record = self._earlier.reusable_page(page.url)
        self._report.note(page.url, filter(None, [page.note]))
        if result is not None:
            outcome = self._add_read(page, result)
        elif page.noindex or record is None:
            outcome = self._skip(page.url, page.skip_reason)
        else:
            outcome = self._copy_previous(replace(record, source=page.source))
        self._draft.remember(record_of(page, outcome))

    def _add_read(self, page: Page, result: Document | ParseError) -> Outcome:
        """Index the document of a fetched page, or record why the page has none, and return the outcome."""
        if page.source == SOURCE:
            self._draft.mark_changed()
        if isinstance(result, Unwanted):
            return self._skip(page.url, str(result))
        if isinstance(result, ParseError):
            self._report.fail(Failure(page.url, str(result)))
            return Outcome(PageState.FAILED, (str(result),))
        configured = self._plan.config.metadata.get(page.source, {})
        metadata = {name: tuple(values) for name, values in configured.items()} | dict(result.metadata)
        outcome = self._index(replace(result, metadata=metadata))
        record = self._earlier.page(page.url)
        if not outcome.is_indexed:
            return outcome
        if record is None or not record.outcome.is_indexed:
            self._report.new.add(page.url)
            return outcome
        self._mark_remaining(page.url)
        if record.content_hash == page.content_hash:
            self._report.unchanged += 1
        else:
            self._report.changed.add(page.url)
        return outcome

    def _add_carried(self, record: PageRecord) -> None:
        """Copy a page of the previous build that is unchanged or could not be read."""
        if record.failure is not None:
            self._report.fail(Failure(record.url, record.failure), is_kept=True)
        if record.noindex:
            is_new = record.outcome.is_indexed  # noindex was added after the previous build
            outcome = self._skip(record.url, "noindex" if is_new else record.outcome.reasons[0])
        elif record.outcome.is_indexed and not self._earlier.is_trusted:
            number, _ = self._mark_remaining(record.url)
            document, chunks, _ = self._earlier.read(number)
            notes = record.outcome.reasons
            outcome = self._index(replace(document, source=record.source, sections=sections_of(chunks), notes=notes))
        else:
            outcome = self._copy_previous(record)
        if not self._earlier.is_trusted:  # make the next build read the page again
            record = replace(record, etag=None, last_modified=None, content_hash=record.url)
        self._draft.remember(replace(record, outcome=outcome))

    def _copy_previous(self, record: PageRecord) -> Outcome:
        """Copy the outcome and the document of a page from the previous build, and return the outcome."""
        state, reasons = record.outcome
        if state == PageState.FAILED:
            self._report.fail(Failure(record.url, *reasons))
        elif state == PageState.SKIPPED:
            self._skip(record.url, *reasons)
        else:
            self._report.note(record.url, reasons)
            self._report.unchanged += record.failure is None
            number, source = self._mark_remaining(record.url)
            if source != record.source:
                self._draft.mark_changed()
            self._draft.copy_document(number, record.source)
        return record.outcome

    def _index(self, document: Document) -> Outcome:
        """Cut a document into passages, add it to the new generation, and return the outcome."""
        chunker = self._chunker
        with self._report.timed("chunk"):
            chunks = chunker.split(document)
        scans = document.scans
        if scans.pages:
            self._report.scanned(scans)
        if not chunks:
            return self._skip(document.url, f"no text: {scans.unread[0][1]}" if scans.unread else "no text")
        for page, reason in scans.unread:
            self._report.skip(Skip(f"{document.url}#page={page}", f"a page without text: {reason}"))
        if NOBODY in document.access:
            self._skip(document.url, "no user can find it: one of its access lists is empty or cannot be read")
        if len(chunks) > MAX_CHUNKS:
            del chunks[MAX_CHUNKS:]
            self._skip(document.url, f"its passages beyond the limit of {MAX_CHUNKS:,} per document")
        signature = self._draft.add(document, chunks)
        if self._unchecked and self._unchecked[0] == document.source:
            self._signatures[document.url] = signature
        self._report.note(document.url, document.notes)
        return Outcome(PageState.INDEXED, document.notes)

    def _skip(self, url: str, reason: str) -> Outcome:
        self._report.skip(Skip(url, reason))
        return Outcome(PageState.SKIPPED, (reason,))

    def _mark_remaining(self, url: str) -> tuple[int, str]:
        """Record that a document of the previous generation remains in the index. Returns its number and source."""
        number, source = self._earlier.document(url)
        self._remaining_ids.add(number)
        return number, source

    @cached_property
    def _chunker(self) -> Chunker:
        with self._report.timed("model"):
            return Chunker(self._embedder, self._plan.config.chunk_tokens)
