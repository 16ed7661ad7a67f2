"""The query path: text in, the k best passages out. Everything is loaded and warmed beforehand."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.protocol import Embedder, Role
from indexer.filter import Filter
from indexer.generation.catalogue import document_id
from indexer.generation.generation import Generation
from indexer.generation.manifest import differing_fields
from indexer.generation.words.query import spans
from indexer.stores.store import Searchable
from rag.errors import FingerprintMismatch
from rag.query.arguments import check_options, check_query
from rag.query.batcher import MAX_TEXTS, QueryBatcher, Vector
from rag.query.closeness import CLOSE, JUDGED, is_close
from rag.query.facets import Share, count_facets
from rag.query.fusion import Rows, Scores
from rag.query.headings import sample_headings
from rag.query.options import EXPANSIONS, FURTHEST, MODES
from rag.query.ranking import Choice, Found, Ranking, choose, extended, fused, lowered, single
from rag.query.results import Answer, Hit
from rag.query.sentences import nearest_sentences

CANDIDATES = 100  # of each search, from which the hits are chosen
COUNTED = 200  # candidates whose documents are counted for facets
_WORD_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded
_DUPLICATES_SHOWN = 10


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self,
        generation: Searchable,
        embedder: Embedder,
        *,
        batcher: QueryBatcher | None = None,
        max_k: int = 100,
        max_query_chars: int = 10_000,
    ) -> None:
        """Raises FingerprintMismatch. Retrievers that share an embedder should share a batcher."""
        check_fingerprint(generation, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self.max_k = max_k
        self.max_query_chars = max_query_chars
        self._batcher = batcher or QueryBatcher(embedder)
        self._words = ThreadPoolExecutor(_WORD_SEARCHES, thread_name_prefix="words")

    @classmethod
    def open(
        cls, index_dir: Path, embedder: Embedder, *, max_k: int = 100, max_query_chars: int = 10_000
    ) -> "Retriever":
        """Open the live generation of an index. Raises IndexMissing, IndexCorrupt or FingerprintMismatch."""
        generation = Generation.open(index_dir)
        try:
            return cls(generation, embedder, max_k=max_k, max_query_chars=max_query_chars)
        except FingerprintMismatch:
            generation.close()
            raise

    def warm(self) -> None:
        """Run the whole path once, so that the first user's query finds memory allocated and kernels chosen."""
        for query in ("warm", "a longer query that fills a second shape of the model's input"):
            self.search(query, k=min(10, self.max_k))

    def search(
        self,
        query: str,
        *,
        k: int = 10,
        offset: int = 0,
        mode: str = MODES[0],
        filter: Filter | None = None,
        per_document: int = 0,
        diversity: float = 0.0,
        expand: str = EXPANSIONS[0],
        facets: bool = False,
        sentences: bool = False,
        close: float = CLOSE,
        vector: Vector | None = None,
    ) -> Answer:
        """Find the k passages that answer a query best.

        Args:
            query: text.
            k: how many, from 1 to max_k.
            offset: how many better ones to leave out, up to FURTHEST; the order stays the same as long as k does.
            mode: by meaning and words, by meaning alone, or by words alone; see MODES.
            filter: what their documents must be like.
            per_document: passages of one document at most; 0 for any number.
            diversity: 0 for the best, up to 1 for ones as different from each other as can be.
            expand: whether the hits come with the text of their sections; see EXPANSIONS.
            facets: whether the documents among the candidates are counted.
            sentences: whether to find the nearest sentence in hits that share no word with the query.
            close: cosine from which a hit is close to the query; see `closeness`.
            vector: the query's own, float32 (dim,), where the caller has it already.

        Raises:
            QueryError: the query cannot be answered as asked.
        """
        check_query(query, self.max_query_chars)
        check_options(
            k=k,
            most=self.max_k,
            offset=offset,
            mode=mode,
            per_document=per_document,
            diversity=diversity,
            expand=expand,
        )
        took = dict.fromkeys(("embed", "dense", "lexical", "fuse", "sentences"), 0.0)
        start = time.perf_counter()
        wanted = offset + k
        depth = max(CANDIDATES, 2 * k)  # whatever the offset, for all pages to be of one ranking
        allowed = self.generation.select(filter) if filter else None  # once: the search by words finds it remembered
        words: Future[tuple[Found, float]] | None = None
        if mode == "hybrid" and self.generation.words_take_long:  # while the query is embedded
            # in this context, which has the deadline
            words = self._words.submit(copy_context().run, self._search_words, query, depth, filter)
        if vector is None and mode != "lexical":
            vector, took["embed"] = self._embed_query(query)
        ranking: Ranking | None = None
        while True:
            dense = lexical = None
            if vector is not None and mode != "lexical":
                began = time.perf_counter()
                dense = self.generation.search(vector, depth, allowed)
                took["dense"] += time.perf_counter() - began
            if mode != "dense":
                lexical, seconds = words.result() if words else self._search_words(query, depth, filter)
                took["lexical"] += seconds
                words = None
            began = time.perf_counter()
            if dense and lexical and vector is not None:
                found = fused(dense, lexical, self._cosines(vector))
            else:
                found = single(dense or lexical or _NOTHING, is_dense=dense is not None)
            found = lowered(found, self.generation.repetition(found.rows))
            if ranking is None:
                ranking, candidates = found, found.rows
            else:
                ranking = extended(ranking, found)
            facts = self.generation.rows_of(ranking.rows)
            choice = choose(
                ranking,
                facts,
                self.generation.vectors,
                k=wanted + 1,  # to know whether there are more
                per_document=per_document,
                diversity=diversity,
                varied=len(candidates),
            )
            took["fuse"] += time.perf_counter() - began
            # Duplicates and passages of one document may have taken the places of others, further down.
            is_all = all(some is None or len(some[1]) < depth for some in (dense, lexical))
            if len(choice.indices) >= wanted or is_all:
                break
            depth *= 4
        has_more = (len(choice.indices) > wanted or not is_all) and wanted <= FURTHEST
        judged, hits = self._hits(query, ranking, choice, facts, offset, wanted, expands=expand == "section")
        if sentences and not all(hit.highlights for hit in hits):
            if vector is None:
                vector, took["embed"] = self._embed_query(query)
            began = time.perf_counter()
            hits = self._with_sentences(hits, vector)
            took["sentences"] = time.perf_counter() - began
        counted = self._count(candidates) if facets else None
        took["total"] = time.perf_counter() - start
        return Answer(
            query=query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in took.items()},
            generation=self.generation.id,
            next=wanted if has_more else None,
            facets=counted,
            close=is_close(query, judged, close),
        )

    @cached_property
    def headings(self) -> list[str]:
        """Headings that could be searched for; see `sample_headings`."""
        return sample_headings(self.generation)

    def embed(self, texts: Sequence[str], role: Role = "document") -> npt.NDArray[np.float32]:
        """Embed texts as float32 (n, dim), together with what others ask for."""
        vectors = np.empty((len(texts), self.embedder.dimension), np.float32)
        for start in range(0, len(texts), MAX_TEXTS):  # a run's worth at a time, which queries of others come between
            run = slice(start, start + MAX_TEXTS)
            vectors[run] = self._batcher.encode_many(texts[run], role)
        return vectors

    def _embed_query(self, query: str) -> tuple[Vector, float]:
        """Embed a query; also return how many seconds it took, the wait for other queries among them."""
        start = time.perf_counter()
        return self._batcher.encode(query), time.perf_counter() - start

    def _with_sentences(self, hits: list[Hit], vector: Vector) -> list[Hit]:
        unmarked = [hit.text for hit in hits if not hit.highlights]
        spans = iter(nearest_sentences(vector, unmarked, self.embed))
        return [hit if hit.highlights else hit._replace(sentence=next(spans)) for hit in hits]

    def _count(self, rows: Rows) -> dict[str, list[Share]]:
        numbers = np.unique(self.generation.rows_of(rows[:COUNTED])["document"])
        return count_facets(self.generation.facts(numbers.tolist()))

    def _cosines(self, vector: Vector) -> Callable[[Rows], Scores]:
        return lambda rows: self.generation.vectors(rows) @ vector

    def _search_words(self, query: str, k: int, only: Filter | None) -> tuple[Found, float]:
        """Search by words; also return how many seconds it took."""
        start = time.perf_counter()
        return self.generation.search_words(query, k, only), time.perf_counter() - start

    def _hits(
        self,
        query: str,
        ranking: Ranking,
        choice: Choice,
        facts: npt.NDArray[np.void],
        start: int,
        stop: int,
        *,
        expands: bool,
    ) -> tuple[list[Hit], list[Hit]]:
        """Fetch, at once, the best of the chosen passages and those on the page from start to stop.

        The best, which say whether anything is close, come as bare as that takes where they are on an earlier page.
        """
        before = min(start, JUDGED)
        places = [place for place in (*range(before), *range(start, stop)) if place < len(choice.indices)]
        shown = choice.indices[places].tolist()
        folded = [
            choice.folded.get(index, [])[:_DUPLICATES_SHOWN] if place >= start else []
            for place, index in zip(places, shown, strict=True)
        ]
        also = [index for group in folded for index in group]
        chunks = self.generation.chunks(ranking.rows[shown + also])
        sections = [
            self.generation.section(row) if expands and place >= start else None
            for place, row in zip(places, ranking.rows[shown].tolist(), strict=True)
        ]
        addresses = iter([chunk.url for chunk in chunks[len(shown) :]])
        none = [None] * len(shown)
        dense = none if ranking.dense is None else ranking.dense[shown].tolist()
        lexical = none if ranking.lexical is None else ranking.lexical[shown].tolist()
        scores = ranking.scores[shown].tolist()
        documents = facts["document"][shown].tolist()
        hits = []
        for place, (chunk, group) in enumerate(zip(chunks, folded, strict=False)):  # the rest are duplicates
            hits.append(
                Hit(
                    rank=places[place] + 1,
                    id=chunk.id,
                    url=chunk.url,
                    title=chunk.title,
                    section=chunk.section,
                    text=chunk.text,
                    highlights=spans(query, chunk.text),
                    score=scores[place],
                    scores={"dense": dense[place], "lexical": lexical[place] or None},
                    language=chunk.language,
                    date=chunk.date,
                    content_type=chunk.content_type,
                    metadata=chunk.metadata,
                    duplicates=[next(addresses) for _ in group],
                    section_text=sections[place],
                    document=document_id(chunk.document_url),
                    more=choice.left_out.get(documents[place], 0),
                )
            )
        return hits[:JUDGED], hits[before:]


_NOTHING: Found = (np.empty(0, np.float32), np.empty(0, np.int64))


def check_fingerprint(generation: Searchable, fingerprint: Mapping[str, object]) -> None:
    """Raise FingerprintMismatch naming every field in which an index differs from the embedder."""
    built = generation.manifest.fingerprint
    fields = differing_fields(built, fingerprint)
    if fields:
        details = "; ".join(
            f"{name}: index {_short(built.get(name))}, here {_short(fingerprint.get(name))}" for name in fields
        )
        raise FingerprintMismatch(
            f"index generation {generation.id} was built by another embedder ({details}): "
            "serve it with the settings it was built with, or rebuild it with these"
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 16 else f"{text[:13]}…"
