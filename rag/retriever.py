"""The query path: text in, the k best passages out. Everything is loaded and warmed beforehand."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from embedder.protocol import Embedder
from indexer.filter import Filter
from indexer.generation import Generation
from indexer.lexical_query import spans
from indexer.manifest import differing_fields
from rag.batcher import QueryBatcher
from rag.errors import FingerprintMismatch, QueryError
from rag.options import EXPANSIONS, MODES
from rag.ranking import Choice, Found, Ranking, choose, fused, single
from rag.results import Answer, Hit

CANDIDATES = 100  # of each search, from which the hits are chosen
_WORD_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded
_DUPLICATES_SHOWN = 10


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self,
        generation: Generation,
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
        mode: str = MODES[0],
        filter: Filter | None = None,
        per_document: int = 0,
        diversity: float = 0.0,
        expand: str = EXPANSIONS[0],
    ) -> Answer:
        """Find the k passages that answer a query best.

        Args:
            query: text.
            k: how many, from 1 to max_k.
            mode: by meaning and words, by meaning alone, or by words alone; see MODES.
            filter: what their documents must be like.
            per_document: passages of one document at most; 0 for any number.
            diversity: 0 for the best, up to 1 for ones as different from each other as can be.
            expand: whether the hits come with the text of their sections; see EXPANSIONS.

        Raises:
            QueryError: the query cannot be answered as asked.
        """
        self._check(query, k, mode, per_document, diversity, expand)
        took = dict.fromkeys(("embed", "dense", "lexical", "fuse"), 0.0)
        start = time.perf_counter()
        depth = max(CANDIDATES, 2 * k)
        allowed = self.generation.select(filter) if filter else None  # once: the search by words finds it remembered
        words: Future[tuple[Found, float]] | None = None
        if mode == "hybrid":  # while the query is embedded
            words = self._words.submit(self._search_words, query, depth, filter)
        if mode != "lexical":
            vector = self._batcher.encode(query)  # the wait for other queries is part of this stage
            took["embed"] = time.perf_counter() - start
        while True:
            dense = lexical = None
            if mode != "lexical":
                began = time.perf_counter()
                dense = self.generation.search(vector, depth, allowed)
                took["dense"] += time.perf_counter() - began
            if mode != "dense":
                lexical, seconds = words.result() if words else self._search_words(query, depth, filter)
                took["lexical"] += seconds
                words = None
            began = time.perf_counter()
            if dense and lexical:
                ranking = fused(dense, lexical, lambda rows: self.generation.vectors(rows) @ vector)
            else:
                ranking = single(dense or lexical or _NOTHING, is_dense=dense is not None)
            choice = choose(
                ranking,
                self.generation.rows[ranking.rows],
                self.generation.vectors,
                k=k,
                per_document=per_document,
                diversity=diversity,
            )
            took["fuse"] += time.perf_counter() - began
            # Duplicates and passages of one document may have taken the places of others, further down.
            is_all = all(found is None or len(found[1]) < depth for found in (dense, lexical))
            if len(choice.indices) == k or is_all:
                break
            depth *= 4
        hits = self._hits(query, ranking, choice, expands=expand == "section")
        took["total"] = time.perf_counter() - start
        return Answer(
            query=query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in took.items()},
            generation=self.generation.id,
        )

    def _search_words(self, query: str, k: int, only: Filter | None) -> tuple[Found, float]:
        """Search by words; also return how many seconds it took."""
        start = time.perf_counter()
        return self.generation.search_words(query, k, only), time.perf_counter() - start

    def _hits(self, query: str, ranking: Ranking, choice: Choice, *, expands: bool) -> list[Hit]:
        """Fetch what is shown of the chosen passages, and the addresses of those they stand for."""
        shown = choice.indices.tolist()
        folded = [choice.folded.get(index, [])[:_DUPLICATES_SHOWN] for index in shown]
        also = [index for group in folded for index in group]
        chunks = self.generation.chunks(ranking.rows[shown + also])
        sections = [self.generation.section(row) if expands else None for row in ranking.rows[shown].tolist()]
        addresses = iter([chunk.url for chunk in chunks[len(shown) :]])
        none = [None] * len(shown)
        dense = none if ranking.dense is None else ranking.dense[shown].tolist()
        lexical = none if ranking.lexical is None else ranking.lexical[shown].tolist()
        scores = ranking.scores[shown].tolist()
        hits = []
        for place, (chunk, group) in enumerate(zip(chunks, folded, strict=False)):
            hits.append(
                Hit(
                    rank=place + 1,
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
                )
            )
        return hits

    def _check(
        self, query: object, k: object, mode: object, per_document: object, diversity: object, expand: object
    ) -> None:
        if not isinstance(query, str):
            raise QueryError(f"query must be text, not {type(query).__name__}")
        if not query.strip():
            raise QueryError("query is empty: give at least one word")
        try:
            query.encode()
        except UnicodeEncodeError:
            raise QueryError("query is not valid Unicode text: it holds half of a surrogate pair") from None
        if len(query) > self.max_query_chars:
            raise QueryError(f"query has {len(query)} characters: at most {self.max_query_chars} are allowed")
        if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= self.max_k:
            raise QueryError(f"k must be a whole number from 1 to {self.max_k}, not {k!r}")
        if mode not in MODES:
            raise QueryError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
        if not isinstance(per_document, int) or isinstance(per_document, bool) or per_document < 0:
            raise QueryError(f"per_document must be a whole number, 0 for any number, not {per_document!r}")
        if not isinstance(diversity, int | float) or isinstance(diversity, bool) or not 0 <= diversity <= 1:
            raise QueryError(f"diversity must be a number from 0 to 1, not {diversity!r}")
        if expand not in EXPANSIONS:
            raise QueryError(f"expand must be one of {', '.join(EXPANSIONS)}, not {expand!r}")


_NOTHING: Found = (np.empty(0, np.float32), np.empty(0, np.int64))


def check_fingerprint(generation: Generation, fingerprint: dict[str, object]) -> None:
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
