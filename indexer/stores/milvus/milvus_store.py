"""Generations in Milvus: two collections each, and an alias that names the live one.

A generation is complete once its manifest is written, which is last, and live once the alias names it. One index folder
publishes to a name: its writer lock keeps two of its builds apart.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from indexer.errors import IndexCorrupt, IndexMissing, StoreRefused
from indexer.generation.manifest import ANALYSIS, FileRecord, Manifest, corrupt
from indexer.generation.previous import ScannedDocument
from indexer.publish.collections import Published
from indexer.stores.milvus import schema
from indexer.stores.milvus.connection import MilvusAddress, MilvusConnection, records_of
from indexer.stores.milvus.milvus_generation import MilvusGeneration, read_manifest

CONTENT = "passages"  # the one entry of `files` in a manifest here: the checksum of `schema.digest`
_ALIAS_SECONDS = 3.0  # to look up which generation is live
_WRITE_SECONDS = 60.0  # of one call that takes rows, or makes or drops a collection
_ROWS = 500  # of one call
_CHARACTERS = 4_000_000  # of texts in one call: Milvus refuses messages of 64 MB


class MilvusStore:
    """A `Store` in Milvus; safe to share between threads."""

    def __init__(self, url: str, *, token: str = "", seconds_left: Callable[[], float] = lambda: math.inf) -> None:
        """Take the address, see `connection`, and USER:PASSWORD or a token; raises StoreAddressError.

        Nothing is connected before the first call. `seconds_left` says before every call how long the caller can wait.
        """
        self._address = MilvusAddress.parse(url)
        self._milvus = MilvusConnection(self._address, token, seconds_left)
        self.name = str(self._address)

    def live_id(self) -> str:
        """Return the id of the live generation; one call, of three seconds at most."""
        try:
            alias = self._milvus.call("describe_alias", self._address.name, timeout=_ALIAS_SECONDS)
        except IndexMissing as error:
            raise IndexMissing(
                f"there is no index in {self.name}; publish one with: pilotlight index --store {self.name}"
            ) from error
        collection = alias["collection_name"]
        if (found := self._address.generation_of(collection)) is None:
            raise corrupt(self.name, f"names {collection}, which is no generation")
        return found

    def published(self) -> list[Published]:
        """Describe the complete generations, newest first; `bytes` are not known."""
        live, found = self._live(), []
        for id in self._all():
            try:
                manifest = read_manifest(self._milvus, id)
            except IndexMissing:  # it is not complete
                continue
            except IndexCorrupt as error:
                found.append(Published(id, id == live, None, None, None, None, str(error)))
            else:
                counts = manifest.counts
                found.append(Published(id, id == live, manifest.created_at, counts.documents, counts.chunks, None, ""))
        return found

    def open(self, generation_id: str | None = None) -> MilvusGeneration:
        """Open the live generation for searching, or a given one; see `Store.open`."""
        return MilvusGeneration(self._milvus, generation_id or self.live_id())

    def make_live(self, generation_id: str) -> None:
        """Publish a complete generation: one change of the alias, before and after which every query is answered."""
        self.open(generation_id)
        name, collection, method = self._address.name, self._address.collection(generation_id), "alter_alias"
        try:
            self._milvus.call("describe_alias", name)
        except IndexMissing:
            method = "create_alias"
        self._milvus.call(method, collection, name)

    def write(self, manifest: Manifest, documents: Iterable[ScannedDocument]) -> None:
        """Store a generation, which is not live yet, in place of what an interrupted attempt left of it.

        Everything of the manifest is kept but `files`. Raises IndexCorrupt if Milvus gives back other passages.
        """
        self.remove(manifest.id)
        collection = self._address.collection(manifest.id)
        shares = [np.empty(0, np.uint8)]

        def scanned() -> Iterator[ScannedDocument]:
            for entry in documents:
                shares.append(entry.repeated)
                yield entry

        self._create(collection, schema.passages_schema(manifest.counts.dimension))
        digest = schema.digest(self._inserted(collection, schema.passages(scanned())))
        self._milvus.call("flush", collection, timeout=None)
        self._milvus.call("create_index", collection, schema.passages_indexes(manifest.counts.chunks), timeout=None)
        filters = {field: {"index_type": "INVERTED"} for field in ("date", "document", "document_id", "terms")}
        with suppress(StoreRefused):  # of Milvus Lite, which has no index of arrays and reads every row
            self._milvus.call("create_index", collection, schema.indexes(**filters), timeout=None, sync=False)
        self._milvus.call("load_collection", collection, timeout=None)
        records = records_of(collection)
        self._create(records, schema.records_schema())
        unused = schema.indexes(unused={"index_type": "FLAT", "metric_type": "IP"})
        self._milvus.call("create_index", records, unused, timeout=None, sync=False)
        for record in schema.share_records(np.concatenate(shares)):
            self._milvus.call("insert", records, [record], timeout=_WRITE_SECONDS)
        written = replace(manifest, files={CONTENT: digest}, analysis=ANALYSIS)
        self._milvus.call("insert", records, schema.manifest_records(written), timeout=_WRITE_SECONDS)  # in one call
        self._milvus.call("flush", records, timeout=None)
        self._milvus.call("load_collection", records, timeout=None)
        try:
            self.check(manifest.id)
        except IndexCorrupt:
            self.remove(manifest.id)
            raise

    def check(self, generation_id: str) -> FileRecord:
        """Return the checksum of all passages. Raises IndexCorrupt if it, or their number, is not the manifest's."""
        with closing(self.open(generation_id)) as generation:
            found = schema.digest(generation.rows(schema.DIGESTED))
            if generation.manifest.files.get(CONTENT, found) != found:
                raise corrupt(self.name, f"has other passages in generation {generation_id} than were published")
        return found

    def keep(self, most: int) -> None:
        """Remove all but the newest generations; the live one is always kept, and what is newer than it."""
        live = self._live()
        older = [id for id in self._all() if live is not None and id < live]
        for id in older[max(0, most - 1) :]:
            self.remove(id)

    def remove(self, generation_id: str) -> None:
        """Remove what there is of a generation."""
        if generation_id in self._all():
            collection = self._address.collection(generation_id)
            for name in (records_of(collection), collection):  # without its records, it is not complete any more
                self._milvus.call("drop_collection", name, timeout=_WRITE_SECONDS)

    def close(self) -> None:
        """Close the connection; a later call makes another."""
        self._milvus.close()

    def _live(self) -> str | None:
        try:
            return self.live_id()
        except (IndexMissing, IndexCorrupt):
            return None

    def _all(self) -> list[str]:
        """Return the ids of all generations, complete or not, newest first."""
        names = self._milvus.call("list_collections")
        return sorted(filter(None, map(self._address.generation_of, names)), reverse=True)

    def _create(self, collection: str, fields: Any) -> None:
        self._milvus.call("create_collection", collection, schema=fields, timeout=_WRITE_SECONDS)

    def _inserted(self, collection: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield rows, and insert them in batches."""
        batch: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            yield row
            batch.append(row)
            size += sum(len(value) for value in row.values() if isinstance(value, str))
            if len(batch) == _ROWS or size > _CHARACTERS:
                self._milvus.call("insert", collection, batch, timeout=_WRITE_SECONDS)
                batch, size = [], 0
        if batch:
            self._milvus.call("insert", collection, batch, timeout=_WRITE_SECONDS)
