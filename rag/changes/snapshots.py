"""Find the snapshots to compare: generations of an index folder, or versions of a manual in one of them."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from indexer.errors import IndexerError, counted
from indexer.filter import Filter
from indexer.generation.documents import Database, select_rows
from indexer.generation.editions import edition_at, version_key
from indexer.generation.manifest import (
    DOCUMENTS,
    GENERATIONS,
    Manifest,
    current_id,
    generation_folder,
    is_generation_id,
    read_manifest,
)
from indexer.publish.publish import list_generations
from rag import deadline
from rag.changes.compare import DocumentText, compare
from rag.errors import FieldError
from rag.messages import Changes, DocumentChange, Snapshot
from rag.query.model_queue import FairLock

MAX_CHARACTERS = 20_000_000  # sum of all changed documents, which are in memory at the same time
_DAYS_AGO = re.compile(r"(\d{1,5})d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DOCUMENTS = "SELECT id, url, source, title, first_row, chunks FROM documents ORDER BY id"
_HASHES = "SELECT document, content_hash FROM chunks ORDER BY row"
_SECTIONS = "SELECT section, url, text FROM chunks WHERE row >= ? AND row < ? ORDER BY row"

Narrow = Callable[[Manifest], Filter | None]
"""A function that returns the filter for the documents in a generation that a caller may read, or None for all."""


def find_changes(
    folder: Path, collection: str, since: str | None, until: str | None, narrow: Narrow = lambda _: None
) -> Changes:
    """Compare two snapshots of a collection in its index folder.

    Args:
        folder: the folder of the collection.
        collection: name of the collection.
        since: the earlier snapshot: a date, an age such as `30d`, the id of an index generation, or a version of a
            manual. None means the previous generation.
        until: the later snapshot. None means the live generation, or the newest version if `since` is a version.
        narrow: returns the filter for the documents in a generation that the caller may read.

    Raises:
        FieldError: `since` or `until` names no snapshot, or too much text differs.
        DeadlinePassed: the comparison takes too long.
        IndexMissing: the folder has no index.
        IndexCorrupt: a generation cannot be read.
    """
    manifests = [read_manifest(folder / GENERATIONS / each.id) for each in list_generations(folder) if not each.problem]
    live = read_manifest(folder / GENERATIONS / current_id(folder))
    live_view = _View(live.id, None, narrow(live))
    sides = _choose(since, until, live, manifests, _versions(folder, live_view) if live.versions else ())
    views = [_View(each.id, version, narrow(each)) for each, version in sides]
    with _turns.turn(deadline.end()):
        documents, noise = _compare(folder, *views, live_view)
    counts = Counter(section.kind for document in documents for section in document.sections)
    totals = {"documents": len(documents)} | {str(kind): number for kind, number in counts.items()}
    old, new = (Snapshot(each.id, each.created_at, version) for each, version in sides)
    available = [Snapshot(each.id, each.created_at) for each in manifests]
    return Changes(collection, old, new, totals, noise, documents, available)


def count_changes(folder: Path) -> dict[str, int]:
    """Count the sections that differ from the previous generation, by kind; {} if nothing can be compared."""
    try:
        changes = find_changes(folder, "", None, None)
    except (FieldError, IndexerError):
        return {}
    return {kind: count for kind, count in changes.counts.items() if kind != "documents"}


def changes_as_text(changes: Changes) -> str:
    """Format changes for a terminal."""
    lines = []
    for document in changes.documents:
        origin = f" from {document.old_url}" if document.kind == "moved" else ""
        lines += [f"{document.title or document.url}: {document.kind}{origin}", f"  {document.url}"]
        lines += [*(f"  {line}" for line in section_lines(document)), ""]
    since, until = (each.version or each.created_at for each in (changes.since, changes.until))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in changes.counts.items() if kind != "documents")
    documents = counted(changes.counts["documents"], "document")
    lines.append(f"from {since} to {until}: {counts or 'no section'} in {documents}")
    lines.append(f"can be compared: {', '.join(each.generation for each in changes.available)}")
    return "\n".join(lines)


def section_lines(document: DocumentChange, max_edits: int | None = None) -> Iterator[str]:
    """Yield lines with the changed sections of a document and the sentences that differ.

    Args:
        document: the change of the document.
        max_edits: the maximum number of sentences for each section; None for all.
    """
    for section in document.sections:
        origin = f" from {section.old_section or 'beginning'}" if section.old_section is not None else ""
        yield f"{section.kind}: {section.section or 'beginning'}{origin}"
        for edit in section.edits[:max_edits]:
            yield from (f"{sign} {text}" for sign, text in (("-", edit.old), ("+", edit.new)) if text is not None)


def _choose(
    since: str | None, until: str | None, live: Manifest, manifests: list[Manifest], versions: Sequence[str]
) -> list[tuple[Manifest, str | None]]:
    """Return the two index generations to compare, each with the version to compare, or None for all versions."""
    if since in versions:
        newer = until or versions[-1]
        if newer not in versions or newer == since:
            raise FieldError("until", f"until must be another version than {since}; there are: {', '.join(versions)}.")
        return [(live, since), (live, newer)]
    new = _find("until", until, live, manifests) if until else live
    older = [each for each in manifests if each.id < new.id]
    if since is None and not older:
        raise FieldError("since", "since: there is only one generation; the next build keeps it for comparison.")
    return [(_find("since", since, live, manifests) if since else older[0], None), (new, None)]


def _find(field: str, text: str, live: Manifest, manifests: list[Manifest]) -> Manifest:
    """Return the index generation for `live`, an id, a date, or an age such as `30d`. Raises FieldError if none exists.

    A date or an age selects the last generation that was built until then or, if there is none, the oldest.
    """
    if days := _DAYS_AGO.fullmatch(text):
        text = f"{datetime.now(UTC) - timedelta(days=int(days[1])):%Y-%m-%d}"
    generation: Manifest | None
    if _DATE.fullmatch(text):
        generation = next((each for each in manifests if each.created_at[:10] <= text), manifests[-1])
    elif is_generation_id(text):
        generation = next((each for each in manifests if each.id == text), None)
    else:
        generation = live if text == "live" else None
    if generation is None:
        ids = ", ".join(each.id for each in manifests)
        raise FieldError(field, f"{field} must be a day, a number of days such as 30d, a version, or one of {ids}.")
    return generation


_turns = FairLock()  # only one comparison runs at a time, because it may need much memory


class _View(NamedTuple):
    """An index generation, or a version of a manual in it, restricted to the documents that a caller may read."""

    generation: str
    version: str | None
    filter: Filter | None


class _Record(NamedTuple):
    """A document without the texts of its passages."""

    url: str
    version: str | None
    title: str
    rows: tuple[int, int]  # rows of its passages: the first, and the one after the last
    hashes: tuple[str, ...]  # one hash per passage


@lru_cache(16)
def _versions(folder: Path, view: _View) -> tuple[str, ...]:
    """Return the versions of the documents that a caller may see, the oldest first."""
    with closing(_Reader(folder, view)) as reader:
        versions = {record.version for record in reader.records().values() if record.version is not None}
    return tuple(sorted(versions, key=version_key))


@lru_cache(4)
def _compare(folder: Path, old: _View, new: _View, live: _View) -> tuple[list[DocumentChange], int]:
    """Compare two snapshots. Documents that are hidden from the caller in the live generation are omitted.

    A document is also omitted if its address is gone, and one of its passages is now in a hidden document.
    """
    with ExitStack() as stack:
        readers = {view: stack.enter_context(closing(_Reader(folder, view))) for view in {old, new, live}}
        records = {view: reader.records() for view, reader in readers.items()}
        visible_urls = {record.url for record in records[live].values()}
        hidden = readers[live].hidden - {each for record in records[live].values() for each in record.hashes}
        before, after = readers[old], readers[new]
        earlier, later = (
            {
                key: record
                for key, record in records[view].items()
                if record.url in visible_urls or hidden.isdisjoint((record.url, *record.hashes))
            }
            for view in (old, new)
        )
        differing = {
            key
            for key in {**earlier, **later}
            if key not in earlier or key not in later or earlier[key].hashes != later[key].hashes
        }
        old_texts, new_texts = before.read(earlier, differing), after.read(later, differing)
    return compare(old_texts, new_texts, max(len(earlier), len(later)))


class _Reader:
    """Reads a snapshot from the database of its generation."""

    def __init__(self, folder: Path, view: _View) -> None:
        self._view = view
        generation = generation_folder(folder, view.generation)
        self._manifest = read_manifest(generation)
        self._database = Database(generation / DOCUMENTS)
        self.close = self._database.close
        self.hidden = set[str]()  # addresses and passage hashes of hidden documents, set by `records`

    def records(self) -> dict[str, _Record]:
        """Return the documents by address. If versions are compared, the key is the same for all versions of a page."""
        view, database = self._view, self._database
        rows = None
        if view.filter is not None:
            with database as connection:
                rows = select_rows(view.filter, connection, self._manifest.counts.chunks)
        grouped = groupby(database.rows(_HASHES), key=itemgetter(0))
        hashes = {number: tuple(content_hash for _, content_hash in group) for number, group in grouped}
        records: dict[str, _Record] = {}
        for number, url, source, title, first, count in database.rows(_DOCUMENTS):
            edition = edition_at(url, source, self._manifest.versions)
            if rows is not None and first not in rows:
                self.hidden.update((url, *hashes.get(number, ())))
            elif view.version is None or (edition and edition.version == view.version):
                key = url if view.version is None or not edition else "\n".join(edition.page)
                version = edition.version if edition else None
                records[key] = _Record(url, version, title, (first, first + count), hashes.get(number, ()))
        return records

    def read(self, records: Mapping[str, _Record], keys: Collection[str]) -> dict[str, DocumentText]:
        """Read the texts of the documents with these keys. Raises FieldError if the texts are too long in total."""
        documents: dict[str, DocumentText] = {}
        characters = 0
        for key, record in records.items():
            if key in keys:
                deadline.check()
                passages = list(self._database.rows(_SECTIONS, *record.rows))
                characters += sum(len(text) for *_, text in passages)
                if characters > MAX_CHARACTERS:
                    raise FieldError("since", "since: too much text differs: choose a later day, or a filter.")
                documents[key] = DocumentText(key, record.url, record.title, self._view.version or "", passages)
        return documents
