"""Search a published index generation, or generations of several collections together. Imports no code of builds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from indexer.errors import IndexCorrupt
from indexer.filter import Filter, parts_of
from indexer.generation import manifest as manifests
from indexer.generation.documents import DocumentEntry, DocumentFacts, DocumentReader, SectionText, StoredChunk
from indexer.generation.editions import Edition, edition_at
from indexer.generation.lexical.lexical_index import JointReader, LexicalReader
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.lexical.vocabulary import Heading
from indexer.generation.manifest import DOCUMENTS, GENERATIONS, LEXICAL, RESTRICTED_VERSION, ROWS, TOKENS, VECTORS
from indexer.generation.rows import ROW, RowFacts, Rows, RowSet, ScoredRows, Scores, TokenReader, read_array
from indexer.generation.vectors import VectorReader

MANY_CHUNKS = 300_000  # a search for words in a larger index is slow, and runs in another thread
MAX_CACHED_FILTERS = 64


class Generation:
    """An open index generation. Threads may share this object, but processes may not. Its folder may be deleted."""

    names: Sequence[str] = ()

    def __init__(self, folder: Path, *, are_checked: bool = False) -> None:
        """Open a folder. Unless `are_checked`, compare the files with their checksums. Raises the errors of `open`."""
        self.folder = folder
        self.manifest = manifests.read_manifest(folder)
        if not are_checked:
            manifests.check_files(folder, self.manifest)
        counts = self.manifest.counts
        self._vectors = VectorReader(folder / VECTORS)
        self.lexical = LexicalReader(folder / LEXICAL, self.manifest.languages)
        self._documents = DocumentReader(folder / DOCUMENTS)
        self._rows = read_array(folder / ROWS, ROW)
        self.tokens = TokenReader(folder, counts.chunks) if TOKENS in self.manifest.files else None
        self.select = lru_cache(MAX_CACHED_FILTERS)(self._documents.select)
        self._find_headings = manifests.guarded(folder / LEXICAL, self.lexical.headings.find)
        self.read_query = self.lexical.read
        self.vectors = self._vectors.vectors
        self.facts, self.chunks, self.section = self._documents.facts, self._documents.read, self._documents.section
        self.passages, self.headings = self._documents.passages, self._documents.headings
        self.survey, self.twins = self._documents.survey, self._documents.twins()
        self.terms_take_long = counts.chunks >= MANY_CHUNKS
        for name, actual, expected in (
            (VECTORS, (self._vectors.count, self._vectors.dimension), (counts.chunks, counts.dimension)),
            (LEXICAL, self.lexical.count, counts.chunks),
            (ROWS, len(self._rows), counts.chunks),
            (DOCUMENTS, (self._documents.documents, self._documents.chunks), (counts.documents, counts.chunks)),
        ):
            if actual != expected:
                raise manifests.corrupt(folder / name, "its counts do not match the manifest")

    @classmethod
    def open(cls, index_dir: Path, generation_id: str | None = None) -> Self:
        """Open the generation with this id, by default the live one.

        Raises:
            IndexMissing: the index or the generation does not exist.
            IndexCorrupt: a file is missing or damaged.
            IndexUnreadable: a file cannot be read at present, for example because too many files are open.
        """
        if generation_id is not None:
            return cls(manifests.generation_folder(index_dir, generation_id))
        while True:
            name = manifests.current_id(index_dir)
            try:
                return cls(index_dir / GENERATIONS / name)
            except IndexCorrupt:
                # Builds can remove this generation after its id is read. If so, try again with the new live generation.
                if manifests.current_id(index_dir) == name:
                    raise

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, filter: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the k chunks nearest to a vector.

        Args:
            vector: float32 (dim,).
            terms: a query parsed by `read_query`; its required and excluded words limit the chunks.

        Raises:
            VectorError: the vector has another dimension, or a number that is not finite.
            IndexCorrupt: a file was damaged after opening.
        """
        allowed = self.select(filter) if filter else None
        if terms is not None and terms.is_bounded:
            within = self.lexical.within(terms.required, terms.excluded)
            allowed = within if allowed is None else within & allowed
        return self._vectors.search(vector, k, allowed)

    def search_terms(self, terms: LexicalQuery, k: int, filter: Filter | None = None) -> ScoredRows:
        """Find the k chunks that match the words of a query best; see `LexicalReader.search`."""
        return self.lexical.search(terms, k, filter, self.select(filter) if filter else None)

    def suggest(self, typed: str, limit: int, filter: Filter | None = None) -> list[Heading]:
        """Return titles and headings that complete a typed text; see `Headings.find`."""
        return self._find_headings(typed, limit, self.select(filter) if filter else None)

    def score_tokens(self, score: Callable[[TokenReader | None, Rows], Scores], rows: Rows) -> Scores:
        """Return `score(tokens, rows)`. `tokens` reads the generation's token vectors, or is None if it has none."""
        return score(self.tokens, rows)

    def collections(self, rows: Sequence[int]) -> list[str] | None:
        """Return the name of the collection of each row, or None if there is only one collection."""
        return None

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return the document number and the similarity hash of each row; `rows` is int64 (n,)."""
        return RowFacts(self._rows["document"][rows], self._rows["signature"][rows])

    def editions(self, numbers: Sequence[int]) -> dict[int, Edition | None]:
        """Map document numbers to `Edition`s, or to None if the document's address contains no version."""
        versions = self.manifest.versions
        return {number: edition_at(each.url, each.source, versions) for number, each in self.facts(numbers).items()}

    def documents(self, filter: Filter | None = None, id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield documents with their passages as dicts, ready for JSON; see `entries`."""
        for entry in self.entries(filter, id):
            yield {"generation": self.manifest.id, **entry.facts, "passages": self.passages(entry.rows)}

    def entries(self, filter: Filter | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield documents without their passages. Skip documents that the filter excludes or that have another id."""
        return self._documents.entries(self.select(filter) if filter else None, id)

    def entry_of(self, chunk_id: str, filter: Filter | None = None) -> tuple[DocumentEntry, int] | None:
        """Return the document and the row of a chunk, or None if the chunk is missing or the filter excludes it."""
        return self._documents.entry_of(chunk_id, self.select(filter) if filter else None)

    def scan(self, filter: Filter | None = None) -> Iterator[list[tuple[int, bytes]]]:
        """Yield batches of rows and the texts of their chunks; see `DocumentReader.scan`."""
        return self._documents.scan(self.select(filter) if filter else None)

    def close(self) -> None:
        """Close the files."""
        self._documents.close()


class JointGeneration(Generation):
    """Index generations of several collections, searched as one. Rows and documents are numbered consecutively.

    The word statistics for BM25 include all generations. An `EachFilter` has a filter for each generation.
    """

    def __init__(self, generations: Mapping[str, Generation]) -> None:
        """Join generations of several collections; keys are collection names. Raises the errors of `JointReader`."""
        self.names, self._members = list(generations), list(generations.values())
        counts = [each.manifest.counts for each in self._members]
        self._starts = np.cumsum([0, *(each.chunks for each in counts)])
        self._numbers = np.cumsum([0, *(each.documents for each in counts)])
        self.manifest = replace(
            self._members[0].manifest,
            id=",".join(each.manifest.id for each in self._members),
            counts=replace(counts[0], documents=int(self._numbers[-1]), chunks=int(self._starts[-1])),
            report={"languages": [*chain(*(each.manifest.report.get("languages", ()) for each in self._members))]},
            versions=dict(chain(*(each.manifest.versions.items() for each in self._members))),
            schema_version=RESTRICTED_VERSION,  # makes `effective_filter` apply access lists
        )
        self.twins = {
            number + first: frozenset(other + first for other in better)
            for each, first in zip(self._members, self._numbers.tolist(), strict=False)
            for number, better in each.twins.items()
        }
        self.lexical = JointReader([each.lexical for each in self._members])
        # Only shows whether all generations have token vectors. `score_tokens` reads those of each generation.
        self.tokens = self._members[0].tokens if all(each.tokens for each in self._members) else None
        self.read_query = self.lexical.read
        self.terms_take_long = self.lexical.count >= MANY_CHUNKS
        self.select = lru_cache(MAX_CACHED_FILTERS)(partial(_select, self._members))

    def collections(self, rows: Sequence[int]) -> list[str]:
        """Return the name of the collection of each row."""
        return [self.names[number] for number in np.searchsorted(self._starts, rows, side="right") - 1]

    def search_vectors(
        self, vector: npt.NDArray[np.float32], k: int, filter: Filter | None = None, terms: LexicalQuery | None = None
    ) -> ScoredRows:
        """Find the k chunks of all generations that are nearest to a vector; see `Generation.search_vectors`."""
        filters = parts_of(filter, len(self._members))
        hits = [each.search_vectors(vector, k, f, terms) for each, f in zip(self._members, filters, strict=True)]
        scores = np.concatenate([scores for scores, _ in hits])
        rows = np.concatenate([rows + start for (_, rows), start in zip(hits, self._starts, strict=False)])
        order = np.lexsort((rows, -scores))[:k]
        return ScoredRows(scores[order], rows[order])

    def vectors(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Return the vectors stored at these rows, float32 (n, dimension)."""
        vectors = np.empty((len(rows), self.manifest.counts.dimension), np.float32)
        for number, places, local_rows in _split(self._starts, rows):
            vectors[places] = self._members[number].vectors(local_rows)
        return vectors

    def score_tokens(self, score: Callable[[TokenReader | None, Rows], Scores], rows: Rows) -> Scores:
        """Call `score` once for each generation that contains any of the rows. Return the scores of all rows."""
        scores = np.empty(len(rows), np.float32)
        for number, places, local_rows in _split(self._starts, rows):
            scores[places] = score(self._members[number].tokens, local_rows)
        return scores

    def row_facts(self, rows: Rows) -> RowFacts:
        """Return the document number and the similarity hash of each row."""
        documents, signatures = np.empty(len(rows), np.int64), np.empty(len(rows), np.uint64)
        for number, places, local_rows in _split(self._starts, rows):
            facts = self._members[number].row_facts(local_rows)
            documents[places], signatures[places] = facts.documents + self._numbers[number], facts.signatures
        return RowFacts(documents, signatures)

    def facts(self, numbers: Sequence[int]) -> dict[int, DocumentFacts]:
        """Map document numbers to the facts of the documents."""
        by_number: dict[int, DocumentFacts] = {}
        for each, first, local_numbers in self._split_numbers(numbers):
            by_number |= {number + first: facts for number, facts in each.facts(local_numbers).items()}
        return by_number

    def editions(self, numbers: Sequence[int]) -> dict[int, Edition | None]:
        """Map document numbers to `Edition`s. Documents of different collections never have the same `Edition.page`."""
        editions: dict[int, Edition | None] = {}
        for each, first, local_numbers in self._split_numbers(numbers):
            for number, edition in each.editions(local_numbers).items():
                place, rest = edition.page if edition else ("", "")
                editions[number + first] = edition and edition._replace(page=(f"{first}\n{place}", rest))
        return editions

    def _split_numbers(self, numbers: Sequence[int]) -> Iterator[tuple[Generation, int, list[int]]]:
        """Yield (generation, number of its first document here, its own numbers of the documents in `numbers`)."""
        for each, (first, end) in zip(self._members, pairwise(self._numbers.tolist()), strict=True):
            yield each, first, [number - first for number in numbers if first <= number < end]

    def chunks(self, rows: Sequence[int] | Rows) -> list[StoredChunk]:
        """Return the chunks at these rows, in the same order."""
        chunks: dict[int, StoredChunk] = {}
        for number, places, local_rows in _split(self._starts, np.asarray(rows)):
            chunks |= zip(places.tolist(), self._members[number].chunks(local_rows), strict=True)
        return [chunks[place] for place in range(len(rows))]

    def entries(self, filter: Filter | None = None, id: str | None = None) -> Iterator[DocumentEntry]:
        """Yield documents of all generations without their passages, as `Generation.entries` does."""
        filters = parts_of(filter, len(self._members))
        for each, member_filter, start in zip(self._members, filters, self._starts.tolist(), strict=False):
            for entry in each.entries(member_filter, id):
                yield DocumentEntry(entry.facts, range(entry.rows.start + start, entry.rows.stop + start))

    def section(self, row: int) -> SectionText:
        """Return the section that contains a chunk."""
        [(number, _, local_rows)] = _split(self._starts, np.array([row]))
        return self._members[number].section(int(local_rows[0]))


def _split(starts: Rows, rows: Rows) -> Iterator[tuple[int, npt.NDArray[np.intp], Rows]]:
    """Yield (index, positions of its rows in `rows`, local row numbers) for each generation with any of the rows."""
    numbers = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        yield number, places, rows[places] - starts[number]


def _select(members: Sequence[Generation], filter: Filter) -> RowSet:
    masks = []
    for each, member_filter in zip(members, parts_of(filter, len(members)), strict=True):
        count = each.manifest.counts.chunks
        mask = each.select(member_filter).mask if member_filter else np.full(count + 7 >> 3, 255, np.uint8)
        masks.append(np.unpackbits(mask, count=count, bitorder="little"))
    return RowSet(np.concatenate(masks).astype(np.bool_))
