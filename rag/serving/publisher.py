"""Brings what was built in an index folder into a store: nothing is embedded, nothing is live before it is checked."""

import dataclasses
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.errors import PilotlightError
from indexer.errors import IndexCorrupt, counted
from indexer.pipeline.report import BuildReport
from indexer.rowset import ScoredRows
from indexer.stores.digest import digest_of
from indexer.stores.folder_store import FolderStore
from indexer.stores.store import ScannedDocument, Searchable, Store
from rag.clock import StepTimer
from rag.errors import CopyDiffers, NotPublished
from rag.serving.store_access import live_id, store_at
from rag.settings import Settings

SAMPLES = 32  # passages, evenly spaced, whose vectors and words are searched for in both stores
_TOP = 10  # hits that are compared
_LEAST_OVERLAP = {"dense": 0.95, "lexical": 0.8}  # that the content is equal is for its digest to say
_TIE = 1e-3  # of a score: hits as good as the last one may stand in for it

Named = tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]  # scores (n,) and ids of passages (n,), best first


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The report of a copy."""

    generation: str
    source: str
    target: str
    copied: bool  # False if the target had it, whole, already
    documents: int
    chunks: int
    checksum: str  # SHA-256 hex of all documents, chunks and vectors: the same in both stores
    samples: int  # queries that both were asked, by meaning and by words
    overlap: dict[str, float]  # share of the best hits that both gave, by kind of search
    seconds: float
    warnings: list[str]  # what the target's generation lacks that the source's had


def copy(source: FolderStore, target: Store, *, keep: int, step: Callable[[str], None]) -> CopyReport:
    """Make the live generation of a folder that of a store; what was live there stays so until it is checked.

    A copy that was interrupted is made again from its start.

    Args:
        source: where it is.
        target: where it is to be.
        keep: generations that the target keeps, this one included.
        step: told what is done next.

    Raises:
        CopyDiffers: what came out is not what went in; it has been removed.
        StoreError, IndexerError: what the stores raise; what was live is so still.
    """
    start = time.monotonic()
    with closing(source.read()) as reading:
        manifest = reading.manifest
        name, live = manifest.id, live_id(target)
        checked = _checked_if_there(source, target, name, live, step)
        if copied := checked is None:
            target.write(manifest, _told(reading.entries(), manifest.counts.documents, step), reading.pages())
    if checked is None:
        try:
            checked = _check(source, target, name, step)
        except CopyDiffers:
            target.remove(name)
            raise
    if name != live:
        target.make_live(name)
    target.keep(keep)
    return CopyReport(
        generation=name,
        source=source.name,
        target=target.name,
        copied=copied,
        documents=manifest.counts.documents,
        chunks=manifest.counts.chunks,
        checksum=checked.digest,
        samples=checked.samples,
        overlap=checked.overlap,
        seconds=round(time.monotonic() - start, 2),
        warnings=checked.lost,
    )


class Checked(NamedTuple):
    """The result of comparing a generation of two stores."""

    digest: str
    samples: int
    overlap: dict[str, float]
    lost: list[str]


def _told(entries: Iterable[ScannedDocument], total: int, step: Callable[[str], None]) -> Iterator[ScannedDocument]:
    """Pass entries on, and tell after every tenth of them how far it is."""
    for number, entry in enumerate(entries):
        if number * 10 // total > (number - 1) * 10 // total:
            step(f"{number:,} of {counted(total, 'document')} written")
        yield entry


def _checked_if_there(
    source: FolderStore, target: Store, name: str, live: str | None, step: Callable[[str], None]
) -> Checked | None:
    """Compare a generation that the target already has; None if there is none, or it has to be written again."""
    if name not in target.ids():
        return None
    try:
        return _check(source, target, name, step)
    except (CopyDiffers, IndexCorrupt):
        if name == live:  # which is not for a copy to take away
            raise
        return None


def _check(source: FolderStore, target: Store, name: str, step: Callable[[str], None]) -> Checked:
    """Compare a generation of two stores: counts, content, and what searches find. Raises CopyDiffers."""
    where = f"generation {name} in {target.name}"
    with closing(source.open(name)) as ours, closing(target.open(name)) as theirs:
        for what, here, there in (
            ("documents", ours.document_count, theirs.document_count),
            ("chunks", ours.chunk_count, theirs.chunk_count),
            ("dimensions", ours.dimension, theirs.dimension),
        ):
            if here != there:
                raise CopyDiffers(f"{where} has {there:,} {what} instead of {here:,}: publish it again")
        if ours.manifest.fingerprint != theirs.manifest.fingerprint:
            raise CopyDiffers(f"{where} has the fingerprint of another embedder: publish it again")
        step("comparing the contents")
        digest, copied = _digest(source, name), _digest(target, name)
        if digest != copied:
            raise CopyDiffers(f"{where} has checksum {copied[:12]}… instead of {digest[:12]}…: publish it again")
        step("comparing searches")
        samples, overlap = _overlap(ours, theirs)
        lost = []
        if ours.tokens is not None and theirs.tokens is None:
            lost.append(f"{target.name} does not keep tokens: its searches rank without late interaction")
    for kind, share in overlap.items():
        if share < _LEAST_OVERLAP[kind]:
            raise CopyDiffers(
                f"{where} has the same content, but {kind} searches find only {share:.0%} of the same passages: "
                "check the index of that store, and publish it again"
            )
    return Checked(digest, samples, overlap, lost)


def _digest(store: Store, name: str) -> str:
    with closing(store.read(name)) as reading:
        return digest_of(reading)


def _overlap(ours: Searchable, theirs: Searchable) -> tuple[int, dict[str, float]]:
    """Ask two stores for passages they have, by their vectors and by their words; the mean shares found by both."""
    count = ours.chunk_count
    rows = np.unique(np.linspace(0, count - 1, min(count, SAMPLES)).astype(np.int64))
    shares: dict[str, list[float]] = {"dense": [], "lexical": []}
    for vector, chunk in zip(ours.vectors(rows), ours.chunks(rows), strict=True):
        words = " ".join(f"{chunk.title} {chunk.text}".split()[:_TOP])
        both = (ours, theirs)
        shares["dense"].append(_shared(*(_named(each, each.search(vector, _TOP)) for each in both)))
        found = (_named(each, each.search_words(each.read_query(words), _TOP)) for each in both)
        shares["lexical"].append(_shared(*found))
    return len(rows), {kind: round(float(np.mean(found)), 4) for kind, found in shares.items()}


def _named(generation: Searchable, found: ScoredRows) -> Named:
    """Return hits by the ids of their passages."""
    scores, rows = found
    return scores, np.array([chunk.id for chunk in generation.chunks(rows)], np.str_)


def _shared(ours: Named, theirs: Named) -> float:
    """Share of the hits that both found; among equally good ones, any counts."""
    most = max(len(ours[1]), len(theirs[1]))
    if not most:
        return 1.0
    alike = np.isin(theirs[1], ours[1])
    if len(ours[0]):
        least = ours[0][-1]
        alike |= np.isclose(theirs[0], least, rtol=_TIE, atol=0)
    return float(np.count_nonzero(alike)) / most


class Publisher:
    """Brings what was built in an index folder into a store, after every build."""

    def __init__(self, store: Store, *, keep: int, quiet: bool = False) -> None:
        self._store = store
        self._keep = keep
        self._quiet = quiet
        self.done: dict[str, Any] | None = None  # what the last call did, JSON-ready

    def __call__(self, folder: Path) -> None:
        """Copy the live generation of a folder, unless it is live in the store already.

        Raises NotPublished; the generation is in the folder, and what was live in the store is so still.
        """
        built = FolderStore(folder)
        try:
            name = built.live_id()
            if live_id(self._store) == name:
                self.done = {"generation": name, "target": self._store.name, "copied": False}
            else:
                with StepTimer(sys.stderr, f"publishing to {self._store.name}", quiet=self._quiet) as elapsed:
                    report = copy(built, self._store, keep=self._keep, step=elapsed.step)
                self.done = dataclasses.asdict(report)
        except PilotlightError as error:
            raise NotPublished(
                f"{error}; the build is complete in {folder}; the next index with --store {self._store.name} "
                "publishes it, also where nothing has changed"
            ) from error


def publisher_of(settings: Settings, *, quiet: bool = True) -> Publisher | None:
    """The publisher to the store of the settings, None where that is the index folder."""
    if not settings.store:
        return None
    return Publisher(store_at(settings.store), keep=settings.keep_generations, quiet=quiet)


def reported(report: BuildReport, publisher: Publisher | None) -> tuple[dict[str, Any], str]:
    """Return the report of a build and of its publishing: JSON-ready, and for a terminal."""
    if publisher is None or publisher.done is None:
        return report.as_dict(), report.table()
    done = publisher.done
    lines = [f"store        generation {done['generation']} is live in {done['target']}"]
    lines += [f"warning: {warning}" for warning in done.get("warnings", ())]
    return report.as_dict() | {"store": done}, "\n".join([report.table(), *lines])
