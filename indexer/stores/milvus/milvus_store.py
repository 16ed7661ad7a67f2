"""Generations in Milvus: collections of their own each, and an alias that names the live one.

A generation is complete once its manifest is written, which is last. What has none is never live, and goes with the
next write. One process writes at a time, see `lease`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from indexer.errors import IndexCorrupt, IndexMissing, StoreConflict, StoreRefused
from indexer.generation.lexical.analysis import rules_for
from indexer.generation.manifest import ANALYSIS, Counts, Manifest, corrupt, schema_version
from indexer.generation.repetition import RepetitionCounter
from indexer.publish.collections import Published
from indexer.records import PageRecord
from indexer.stores.digest import Digest
from indexer.stores.milvus import schema
from indexer.stores.milvus.address import MilvusAddress, records_of
from indexer.stores.milvus.connection import MilvusConnection
from indexer.stores.milvus.lease import WriterLease, writer_lease
from indexer.stores.milvus.milvus_generation import MilvusGeneration, read_manifest, read_order
from indexer.stores.store import ScannedDocument, check_counts

CONTENT = "content"
"""The one entry of `files` in the manifest of a generation here: the checksum of `indexer.stores.digest`."""
_LOOKING = 3.0  # seconds to ask which generation is live
_WRITING = 60.0  # of one call that takes rows, or makes or drops a collection
_ROWS = 500  # of one call
_CHARACTERS = 4_000_000  # of texts in one call: Milvus refuses messages of 64 MB


class MilvusStore:
    """A `Store` in Milvus; safe to share between threads."""

    def __init__(self, milvus: MilvusConnection) -> None:
        self._milvus = milvus
        self._address = milvus.address
        self.name = str(milvus.address)

    @classmethod
    def at(cls, url: str, *, token: str = "", seconds: Callable[[], float] = lambda: math.inf) -> Self:
        """Take the address of a store; nothing is connected before the first call.

        Args:
            url: see `indexer.stores.milvus.address`.
            token: USER:PASSWORD or a token.
            seconds: says how many seconds the caller has left; asked before every call.

        Raises:
            StoreAddressError: that is no such address.
        """
        return cls(MilvusConnection(MilvusAddress.parse(url), token, seconds))

    def live_id(self) -> str:
        """Return the id of the live generation; one call, of three seconds at most."""
        try:
            alias = self._milvus.call("describe_alias", self._address.name, most=_LOOKING)
        except IndexMissing as error:
            raise IndexMissing(
                f"there is no index in {self.name}; publish one with: pilotlight index --store {self.name}"
            ) from error
        collection = alias["collection_name"]
        if (found := self._address.generation_of(collection)) is None:
            raise corrupt(self.name, f"names {collection}, which is no generation")
        return found

    def ids(self) -> list[str]:
        """Return the ids of the complete generations, the last one published first."""
        return [described.id for described in self.published()]

    def published(self) -> list[Published]:
        """Describe the complete generations, the last one published first; `bytes` are not known.

        Several index folders may publish here, with clocks of their own, so the order is kept beside the ids.
        """
        try:
            live = self.live_id()
        except (IndexMissing, IndexCorrupt):
            live = None
        found = []
        for id in self._all():
            try:
                manifest = read_manifest(self._milvus, id)
            except IndexMissing:  # it is not complete
                continue
            except IndexCorrupt as error:
                one = Published(id, id == live, None, None, None, None, str(error))
            else:
                counts = manifest.counts
                one = Published(id, id == live, manifest.created_at, counts.documents, counts.chunks, None, "")
            found.append((read_order(self._milvus, id), one))
        return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].id), reverse=True)]

    def open(self, generation_id: str | None = None) -> MilvusGeneration:
        """Open a generation for searching; see `Store.open`."""
        return MilvusGeneration(self._milvus, generation_id or self.live_id())

    def read(self, generation_id: str | None = None) -> MilvusGeneration:
        """Open a generation to be copied; see `Store.read`."""
        return self.open(generation_id)

    def write(self, manifest: Manifest, entries: Iterable[ScannedDocument], pages: Iterable[PageRecord] = ()) -> None:
        """Store a generation, which is not live yet; see `Store.write`."""
        with writer_lease(self._milvus) as lease:
            self._write(lease, manifest, entries, pages)

    def _write(
        self,
        lease: WriterLease,
        manifest: Manifest,
        entries: Iterable[ScannedDocument],
        pages: Iterable[PageRecord],
    ) -> None:
        try:
            live = self.live_id()
        except IndexMissing:
            live = None
        if manifest.id == live:
            raise StoreConflict(f"generation {manifest.id} is live in {self.name} already; nothing was written")
        there = [id for id in self.ids() if id != manifest.id]
        order = 1 + max((read_order(self._milvus, id) for id in there), default=0)
        kept = {*there, live}
        for id in self._all():
            if id not in kept:
                self._drop(id)
        collection = self._address.collection(manifest.id)
        digest, repetition = Digest(), RepetitionCounter()
        languages: Counter[str] = Counter()
        self._create(collection, schema.passages_schema(manifest.counts.dimension))
        self._insert(lease, collection, self._passages(manifest, _counted(entries, languages), digest, repetition))
        self._milvus.call("flush", collection, most=None)
        self._milvus.call("create_index", collection, schema.passages_indexes(manifest.counts.chunks), most=None)
        with suppress(StoreRefused):  # of Milvus Lite, which has no index of arrays and reads every row
            self._milvus.call("create_index", collection, schema.filter_indexes(), most=None, sync=False)
        self._milvus.call("load_collection", collection, most=None)
        records = records_of(collection)
        self._create(records, schema.records_schema())
        self._milvus.call("create_index", records, schema.records_indexes(), most=None, sync=False)
        self._insert(lease, records, schema.page_records(pages))
        self._insert(lease, records, schema.share_records(repetition.shares()))
        self._insert(lease, records, schema.order_records(order))
        written = replace(
            manifest,
            files={CONTENT: digest.record()},
            languages=tuple(language for language, _ in languages.most_common()),
            schema_version=schema_version(restricted=manifest.is_restricted),
            analysis=ANALYSIS,
        )
        lease.confirm()
        self._milvus.call("insert", records, schema.manifest_records(written), most=_WRITING)  # at once, as the end
        self._milvus.call("flush", records, most=None)
        self._milvus.call("load_collection", records, most=None)

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation: one change of the alias, before and after which every query is answered."""
        with writer_lease(self._milvus) as lease:
            MilvusGeneration(self._milvus, generation_id)
            self._switch(lease, generation_id)

    def _switch(self, lease: WriterLease, generation_id: str) -> None:
        name, collection = self._address.name, self._address.collection(generation_id)
        try:
            self._milvus.call("describe_alias", name)
            method = "alter_alias"
        except IndexMissing:
            method = "create_alias"
        lease.confirm()
        self._milvus.call(method, collection, name)

    def remove(self, generation_id: str) -> None:
        """Remove a generation; raises StoreConflict if it is live, IndexMissing if it is not there."""
        with writer_lease(self._milvus):
            if generation_id not in self._all():
                raise IndexMissing(f"there is no generation {generation_id!r} in {self.name}")
            with suppress(IndexMissing):
                if self.live_id() == generation_id:
                    raise StoreConflict(f"generation {generation_id} is live in {self.name}; make another live first")
            self._drop(generation_id)

    def keep(self, most: int) -> None:
        """Remove all but the newest generations; the live one is always kept."""
        with writer_lease(self._milvus):
            others = [described.id for described in self.published() if not described.live]
            for id in others[most - 1 :]:
                self._drop(id)

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        self._milvus.close()

    def _all(self) -> list[str]:
        """Ids of all generations, whether or not they are complete, newest first."""
        names = self._milvus.call("list_collections")
        return sorted(filter(None, map(self._address.generation_of, names)), reverse=True)

    def _create(self, collection: str, fields: Any) -> None:
        self._milvus.call("create_collection", collection, schema=fields, most=_WRITING)

    def _insert(self, lease: WriterLease, collection: str, rows: Iterable[dict[str, Any]]) -> None:
        batch: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            batch.append(row)
            size += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(batch) == _ROWS or size > _CHARACTERS:
                lease.check()
                self._milvus.call("insert", collection, batch, most=_WRITING)
                batch, size = [], 0
        if batch:
            self._milvus.call("insert", collection, batch, most=_WRITING)

    def _passages(
        self, manifest: Manifest, entries: Iterable[ScannedDocument], digest: Digest, repetition: RepetitionCounter
    ) -> Iterator[dict[str, Any]]:
        documents = chunks = 0
        for entry in entries:
            digest.add(entry)
            repetition.add(entry.document.title, (chunk.text for chunk in entry.chunks))
            yield from schema.passages(entry, documents, chunks)
            documents += 1
            chunks += len(entry.chunks)
        check_counts(manifest, Counts(documents, chunks, manifest.counts.dimension), self.name)

    def _drop(self, id: str) -> None:
        collection = self._address.collection(id)
        for name in (records_of(collection), collection):  # without its records, it is not complete any more
            self._milvus.call("drop_collection", name, most=_WRITING)


def _counted(entries: Iterable[ScannedDocument], languages: Counter[str]) -> Iterator[ScannedDocument]:
    """Pass entries on, and count the passages that are stemmed by the rules of each language."""
    for entry in entries:
        languages[rules_for(entry.document.language)] += len(entry.chunks)
        yield entry
