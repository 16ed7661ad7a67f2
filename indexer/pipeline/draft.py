"""Write a new index generation from new documents, and from unchanged documents and vectors of the live one."""

import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import DocumentTokens
from embedder.text_embedder import Embedder, encode_documents
from indexer import memory
from indexer.config import BuildConfig, credentialed_sources, has_same_limits, inherit_limits
from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation.languages import SAMPLE_PASSAGES, LanguageStats, measure_languages, unknown_languages
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, Manifest
from indexer.generation.previous import READER_VERSION, PreviousGeneration
from indexer.generation.rows import why_no_tokens
from indexer.generation.writer import GenerationWriter
from indexer.network.urls import full_name
from indexer.pipeline.progress import BY_HAND, WITHOUT, BuildReport, Progress, TokenUse, token_use
from indexer.publish.publish import disk_errors, live_id, prepare, publish, remove_old, start, writer_lock
from indexer.read.ocr import NO_OCR, Ocr
from indexer.records import Chunk, Document
from indexer.sources.pushed_store import SOURCE

if TYPE_CHECKING:
    from indexer.pipeline.cluster import Cluster

_CHUNKS_PER_CALL = 512  # the embedder sorts them by length, so that under 5 % of its batches is padding
_MAX_BLOCK_CHUNKS = 4096  # limits the memory for vectors that are copied from the previous generation
_TO_EMBED = -1
_REPEATED = -2  # a chunk with the same text as row n of the draft is marked with _REPEATED - n
_MIN_SAMPLE_TEXTS = 8
Embedded = tuple[DocumentTokens, float]  # vectors of a block, seconds that embedding took


@dataclass(frozen=True, slots=True)
class Reuse:
    """The data of the live index that a build can reuse: vectors, passages, or all files."""

    vectors: bool = False
    passages: bool = False
    everything: bool = False


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The sources, settings and services of a build. `copy_reasons` says why sources are copied instead of read."""

    config: BuildConfig
    earlier: PreviousGeneration
    progress: Progress
    sources: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    reuse: Reuse = Reuse()
    embedder: Embedder | None = None
    ocr: Ocr = NO_OCR
    cluster: "Cluster | None" = None
    report: BuildReport = field(default_factory=BuildReport)
    copy_reasons: Mapping[str, str] = field(default_factory=dict)


def complete(plan: BuildPlan) -> BuildPlan:
    """Complete the settings of a plan, and print changed settings that force the build to read or embed again."""
    config, sources, live = plan.config, plan.sources, plan.earlier.manifest
    refresh = {SOURCE, *(sources if config.refresh is None else map(full_name, config.refresh))}
    metadata = {
        full_name(source): {name: list(values) for name, values in fields.items()}
        for source, fields in config.metadata.items()
    }
    config = inherit_limits(replace(config, refresh=refresh, metadata=metadata), sources, live)
    settings: dict[str, Any] = {
        "crawl": asdict(replace(config.crawl, http_proxy="")),  # not stored, because proxies differ between machines
        "chunk": {"tokens": config.chunk_tokens},
        "ocr": None if plan.ocr.obstacle else config.ocr.as_dict(),
        "keep_generations": config.keep_generations,
        "reading": READER_VERSION,
    }
    private = credentialed_sources(config, sources, live)
    optional = {"metadata": config.metadata, "model": dict(config.model), "credentials": private}
    settings |= {name: value for name, value in optional.items() if value}
    plan = replace(plan, config=config, settings=settings)
    return plan if live is None else replace(plan, reuse=_reuse(plan, live))


def _reuse(plan: BuildPlan, live: Manifest) -> Reuse:
    """Decide which data of the live generation the build can reuse, and print the settings that prevent reuse."""
    config, settings = plan.config, plan.settings
    models = _differences(live.fingerprint, plan.embedder.fingerprint if plan.embedder else {})
    cuts = _differences(_passage_settings(live.settings), _passage_settings(settings))
    if config.tokens and TOKENS not in live.files:
        models.append("tokens no -> yes")
    if models or cuts:
        rest = "and embedding every page again" if models else "every page again, and embedding changed passages"
        plan.progress.message(f"{', '.join(models + cuts)}: reading {rest}")
    passages = not (models or cuts or config.full)
    has_same = live.sources == plan.sources
    has_same &= live.settings.get("credentials") == settings.get("credentials")
    has_same &= live.settings.get("crawl", {}).get("render", "off") == config.crawl.render
    has_same &= config.tokens in (None, TOKENS in live.files) and has_same_limits(config, live)
    return Reuse(not models, passages, passages and has_same)


def _passage_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that affect passages, by the names of their options."""
    ocr = settings.get("ocr") or {}
    return {
        "chunk_tokens": settings.get("chunk", {}).get("tokens"),
        **{f"ocr_{name}": value for name, value in ocr.items()},
        "reading": settings.get("reading"),
        "metadata": settings.get("metadata", {}),
        "ocr": "on" if ocr else "off",
    }


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe each difference as `name old -> new`, with at most 12 characters of each value."""
    values = {name: (old.get(name), new.get(name)) for name in [*new, *old]}
    return [f"{name} {before!s:.12} -> {now!s:.12}" for name, (before, now) in values.items() if before != now]


@contextmanager
def drafting(index_dir: Path, keep: int, progress: Progress, *, is_brief: bool = False) -> Iterator[Path]:
    """Acquire the writer lock, and yield a folder for a draft.

    At the end of the block, remove the folder. Also remove the oldest generations, so that at most `keep` remain.

    Raises:
        BuildLocked, IndexUnwritable: the index cannot be written.
    """
    with disk_errors(index_dir):
        prepare(index_dir)
        with writer_lock(index_dir, is_brief=is_brief):
            folder = start(index_dir, keep)
            try:
                progress.phase("checking the live index" if live_id(index_dir) else "starting")
                yield folder
            finally:
                progress.close()
                shutil.rmtree(folder, ignore_errors=True)
            remove_old(index_dir, keep)


def open_earlier(index_dir: Path, progress: Progress) -> PreviousGeneration:
    """Open the live generation. If it is missing or damaged, return an empty generation."""
    try:
        return PreviousGeneration.open(index_dir)
    except IndexMissing:
        return PreviousGeneration()
    except IndexCorrupt as error:
        progress.message(f"reading and embedding everything again, as the live generation cannot be used: {error}")
        return PreviousGeneration()


class Draft:
    """Writes the documents and vectors of a new index generation.

    Passages are embedded in blocks. While a block is embedded, the next block is read and cut. A Ray cluster embeds
    several blocks at the same time.
    """

    def __init__(self, folder: Path, dimension: int, plan: BuildPlan, earlier: PreviousGeneration) -> None:
        """Create the files of the new generation.

        Args:
            folder: folder from `publish.start`; its name is the id of the generation.
            earlier: generation whose vectors are reused.
        """
        self.folder, self._plan, self._earlier = folder, plan, earlier
        self._created = datetime.now(UTC)
        plan.report.tokens = self._initial_token_use()
        self.writer = GenerationWriter(folder, dimension, tokens=plan.report.tokens.kept)
        self.remember = self.writer.documents.remember
        # Documents to copy from the live generation when the draft first differs from it. None from then on.
        self._to_copy: list[tuple[int, str]] | None = [] if plan.reuse.everything else None
        self._chunks_per_call = memory.share(_CHUNKS_PER_CALL)
        self._to_embed: list[Chunk] = []
        self._rows: list[int] = []  # rows in the previous generation, _TO_EMBED or _REPEATED - n
        self._placed = 0
        self._row_of: dict[int, int] = {}
        self._pending: deque[tuple[list[int], int, Future[Embedded] | None]] = deque()  # rows, number of texts, vectors
        self._blocks = plan.cluster.blocks if plan.cluster else 1
        self._pool = ThreadPoolExecutor(self._blocks, thread_name_prefix="embed")

    @property
    def is_unchanged(self) -> bool:
        """Return whether the draft has the same documents as the live generation."""
        live = self._earlier.manifest
        return self._to_copy is not None and (bool(self._to_copy) or (live is not None and not live.counts.documents))

    def mark_changed(self) -> None:
        """Record that the draft differs from the live generation. Add the documents that `copy_document` postponed."""
        unchanged, self._to_copy = self._to_copy, None
        for document_id, source in unchanged or ():
            self.copy_document(document_id, source)

    def add(self, document: Document, chunks: Sequence[Chunk]) -> int:
        """Add a document, and reuse vectors of unchanged passages. Returns the first passage's similarity hash."""
        self.mark_changed()
        with self._plan.report.timed("write"):
            signature = self.writer.add(document, chunks)
            rows = [self._earlier.row_of(chunk.content_hash) for chunk in chunks]
        self._append(chunks, rows)
        return signature

    def copy_document(self, document_id: int, source: str) -> None:
        """Copy a document of the previous generation. While the draft is unchanged, copying is postponed."""
        if self._to_copy is not None:
            self._to_copy.append((document_id, source))
            return
        with self._plan.report.timed("write"):
            document, chunks, rows = self._earlier.read(document_id)
            carried = self._earlier.signatures(rows), self._earlier.sketch(document_id)
            self.writer.add(replace(document, source=source), chunks, carried)
        self._append(chunks, rows)

    def publish(self, index_dir: Path, fingerprint: dict[str, Any], settings: Mapping[str, Any]) -> BuildReport:
        """Complete the files, make the draft the live generation, and return the report. Raises VectorError."""
        report, counts = self._plan.report, self.writer.counts
        self._embed()
        while self._pending:
            self._store_oldest()
        self._note_languages(str(settings.get("model", {}).get("model", "")))
        self._plan.progress.phase("writing the index")
        with report.timed("write"):
            self._check_tokens()
            files = self.writer.finish()
            report.tokens.bytes = sum(files[name].size for name in (TOKENS, TOKEN_OFFSETS) if name in files)
        self._plan.progress.phase("publishing")
        with report.timed("publish"):
            manifest = Manifest(
                id=self.folder.name,
                created_at=self._created.isoformat(timespec="seconds"),
                fingerprint=fingerprint,
                counts=counts,
                files=files,
                languages=self.writer.lexical.languages,
                versions=self.writer.versions,
                schema_version=self.writer.schema_version,
                settings=dict(settings),
                sources=list(self._plan.sources),
                report=report.finish(self.folder.name, counts).as_dict(),
            )
            publish(index_dir, self.folder, manifest)
        return report.finish(self.folder.name, counts)

    def _note_languages(self, model: str) -> None:
        """Report the languages of the documents, with a sentence on languages that the model does not know."""
        report, embedder = self._plan.report, self._plan.embedder
        samples = self.writer.documents.languages(SAMPLE_PASSAGES)
        if embedder is not None and report.embedded:
            report.languages = measure_languages(samples, embedder.count_broken)
        else:
            report.take_languages(self._plan.earlier.manifest)
            broken = {each.language: each.broken for each in report.languages}
            report.languages = [LanguageStats(each, count, broken.get(each, 0.0)) for each, count, _ in samples]
        report.unknown = unknown_languages(report.languages, model)

    def close(self) -> None:
        """Close the files. Does not wait for a thread that is embedding a block."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.writer.close()

    def _append(self, chunks: Sequence[Chunk], rows: Sequence[int | None]) -> None:
        """Append chunks. `rows` has their rows in the previous generation, or None for chunks to embed."""
        for chunk, row in zip(chunks, rows, strict=True):
            if row is None:
                key = int(chunk.content_hash[:16], 16)
                first = self._row_of.setdefault(key, self._placed)
                row = _TO_EMBED if first == self._placed else _REPEATED - first
            if row == _TO_EMBED:
                self._to_embed.append(chunk)
                self._plan.progress.chunks(waiting=1)
            self._rows.append(row)
            self._placed += 1
            if len(self._to_embed) >= self._chunks_per_call or len(self._rows) == _MAX_BLOCK_CHUNKS:
                self._embed()

    def _embed(self) -> None:
        while len(self._pending) >= self._blocks:
            self._store_oldest()
        if self._rows:
            chunks = self._to_embed
            self._check_tokens([chunk.embedded_text for chunk in chunks])
            embedding = self._pool.submit(self._encode, chunks, self.writer.tokens is not None) if chunks else None
            self._pending.append((self._rows, len(chunks), embedding))
            self._to_embed, self._rows = [], []

    def _initial_token_use(self) -> TokenUse:
        """Decide whether to store token vectors, depending on the setting and on the live generation."""
        config, live, tokens = self._plan.config, self._plan.earlier.manifest, self._plan.report.tokens
        before = tokens if live is None else token_use(live)
        if config.tokens is not None:
            return replace(before, kept=config.tokens, by_hand=True, reason=BY_HAND)
        if before.kept and (before.by_hand or self._earlier.manifest):
            return before
        if live is None or self._earlier.manifest is None:
            return tokens
        reason = self._no_tokens(live.counts.chunks, before.broken) or WITHOUT
        return replace(before, by_hand=False, reason=reason)

    def _no_tokens(self, passages: int, broken: tuple[int, int]) -> str:
        """Return the reason not to store token vectors, or an empty string if they are stored."""
        embedder = self._plan.embedder
        is_multilingual = embedder is not None and embedder.is_multilingual
        return self._plan.config.no_tokens or why_no_tokens(passages, broken, is_multilingual=is_multilingual)

    def _check_tokens(self, texts: Sequence[str] = ()) -> None:
        """Delete the token vectors if they do not help, for example in an unknown language, and are not required."""
        tokens, embedder = self._plan.report.tokens, self._plan.embedder
        if texts and embedder is not None:
            broken, pieces = embedder.count_broken(texts[:: max(1, len(texts) // _MIN_SAMPLE_TEXTS)])
            tokens.broken = (tokens.broken[0] + broken, tokens.broken[1] + pieces)
        reason = self._no_tokens(self.writer.counts.chunks, tokens.broken)
        if reason and not tokens.by_hand:
            tokens.kept, tokens.reason = False, reason
            self.writer.drop_tokens()

    def _encode(self, chunks: Sequence[Chunk], tokens: bool) -> Embedded:
        texts = [chunk.embedded_text for chunk in chunks]
        if self._plan.cluster is not None:
            return self._plan.cluster.encode(texts, tokens=tokens)
        began = time.perf_counter()
        embedder = cast(Embedder, self._plan.embedder)
        rows = [
            embedder.tokenize([chunk.embedded_text])[0] if chunk.token_ids is None else chunk.token_ids
            for chunk in chunks
        ]
        return encode_documents(embedder, texts, tokens=tokens, rows=rows), time.perf_counter() - began

    def _store_oldest(self) -> None:
        rows, count, pending = self._pending[0]
        embedded: DocumentTokens | None = None
        report = self._plan.report
        if pending is not None:
            embedded, seconds = pending.result()
            report.seconds["embed"] += seconds
            self._plan.progress.chunks(embedded=count)
        self._pending.popleft()
        with report.timed("write"):
            vectors, signs, counts = self._in_order(np.array(rows, dtype=np.int64), embedded)
            self.writer.vectors.add(vectors)
            if self.writer.tokens is not None:
                self.writer.tokens.add(signs, counts)
        report.embedded += count
        report.carried += len(rows) - count

    def _in_order(self, rows: npt.NDArray[np.int64], embedded: DocumentTokens | None) -> DocumentTokens:
        """Return a block's vectors in the order of `rows`. A vector is new, copied, or that of an equal text."""
        stored, before = self.writer.tokens, self.writer.vectors.count
        if embedded is not None and stored is None:
            embedded = DocumentTokens.without(embedded.vectors)
        is_embedded, is_carried, repeated = rows == _TO_EMBED, rows >= 0, _REPEATED - rows
        if embedded is not None and is_embedded.all():
            return embedded
        blocks = [] if embedded is None else [(is_embedded, embedded)]
        is_stored = (repeated >= 0) & (repeated < before)
        for which, numbers, read, read_tokens in (
            (is_carried, rows, self._earlier.vectors, self._earlier.tokens),
            (is_stored, repeated, self.writer.vectors.read, stored.read if stored is not None else None),
        ):
            if which.any():
                tokens = read_tokens(numbers[which]) if stored is not None and read_tokens is not None else None
                vectors = read(numbers[which])
                block = DocumentTokens.without(vectors) if tokens is None else DocumentTokens(vectors, *tokens)
                blocks.append((which, block))
        order = np.concatenate([np.flatnonzero(which) for which, _ in blocks])
        places = np.empty(len(rows), np.int64)
        places[order] = np.arange(len(order))
        is_within = repeated >= before
        places[is_within] = places[repeated[is_within] - before]
        return DocumentTokens.concatenate([block for _, block in blocks]).take(places)
