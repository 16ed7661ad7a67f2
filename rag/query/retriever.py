"""The query path: text in, the k best passages out. Everything is loaded and warmed beforehand."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder, Role
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.stores.store import Searchable
from rag.errors import RerankOff
from rag.query.batcher import MAX_TEXTS, QueryBatcher, Vector
from rag.query.closeness import is_close
from rag.query.facets import Share, count_facets
from rag.query.filters import in_force
from rag.query.headings import sample_headings
from rag.query.hits import Page, Ranked, explained, fetch_hits, without_guesses
from rag.query.options import FURTHEST
from rag.query.request import USUAL, Limits, SearchRequest
from rag.query.results import AlsoSearched, Answer, Hit, RerankCounts, headed
from rag.query.scoring.boosts import Boosts
from rag.query.scoring.fusion import Rows
from rag.query.scoring.ranking import Found, Ranking, choose, extended, fused, interacted, lowered, reranked, single
from rag.query.scoring.token_scores import score_tokens
from rag.query.scoring.trace import Reading, Round, Trace
from rag.query.sentences import nearest_sentences
from rag.query.served_model import check_fingerprint
from rag.query.synonyms_file import SynonymsFile
from rag.rerank_queue import RerankQueue

CANDIDATES = 100  # of each search, from which the hits are chosen
COUNTED = 200  # candidates whose documents are counted for facets
_WORD_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded


class _Search:
    """One search on its way: the vectors of its query, once there are some, and the seconds that each stage took."""

    def __init__(self, request: SearchRequest, words: LexicalQuery, embedded: Vector | QueryTokens | None) -> None:
        self.request = request
        self.words = words
        self.vector: Vector | None
        self.tokens: Vector | None  # of the query, float32 (tokens, width)
        self.vector, self.tokens = embedded if isinstance(embedded, QueryTokens) else (embedded, None)
        self.took = dict.fromkeys(("embed", "dense", "lexical", "fuse", "rerank", "sentences", "total"), 0.0)
        self.reranked: RerankCounts | None = None
        self.trace = Trace() if request.explain else None
        self.stop = request.offset + request.k  # where the page ends
        self.began = time.perf_counter()

    def spent(self, stage: str, since: float) -> None:
        """Add the time since a moment of `time.perf_counter` to a stage."""
        self.took[stage] += time.perf_counter() - since


class _Candidates(NamedTuple):
    """Rows that were found, best first."""

    dense: Found | None  # None where it was not asked for
    lexical: Found | None
    are_all: bool  # there are no others


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self,
        generation: Searchable,
        embedder: Embedder,
        *,
        batcher: QueryBatcher | None = None,
        reranker: RerankQueue | None = None,
        limits: Limits = USUAL,
    ) -> None:
        """Retrievers that share an embedder should share a batcher, and a reranker.

        Raises:
            FingerprintMismatch: another embedder built the generation.
            SynonymsError, SettingsError: the rules of `limits` cannot be read.
        """
        check_fingerprint(generation.manifest, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self.limits = limits
        self._batcher = batcher or QueryBatcher(embedder)
        self._boosts = Boosts.parse(limits.boost)
        self._synonyms = SynonymsFile(limits.synonyms)
        self._reranker = reranker
        self._words = ThreadPoolExecutor(_WORD_SEARCHES, thread_name_prefix="words")

    @classmethod
    def open(cls, index_dir: Path, embedder: Embedder, limits: Limits = USUAL) -> "Retriever":
        """Open the live generation of an index. Raises IndexMissing, IndexCorrupt or FingerprintMismatch."""
        generation = Generation.open(index_dir)
        try:
            return cls(generation, embedder, limits=limits)
        except PilotlightError:
            generation.close()
            raise

    def warm(self) -> None:
        """Run the whole path once, so that the first user's query finds memory allocated and kernels chosen."""
        for query in ("warm", "a longer query that fills a second shape of the model's input"):
            self.search(SearchRequest(query, k=min(10, self.limits.max_k)))
        if self._reranker:
            self._reranker.warm()

    def search(self, request: SearchRequest, embedded: Vector | QueryTokens | None = None) -> Answer:
        """Find the passages that answer a query best.

        Args:
            request: what is searched for, and how; its collection is of no concern here.
            embedded: the query's vector, float32 (dim,), or that and its tokens, where the caller has them already.

        Raises:
            QueryError: the query cannot be answered as asked.
            RerankOff: it is to be ranked anew, and there is no cross-encoder.
            FilterError: its filter cannot be read.
        """
        request.check(self.limits)
        if request.rerank and self._reranker is None:
            raise RerankOff
        if request.filter:
            request = replace(request, filter=in_force(request.only, self.generation.manifest))
        words = self.generation.read_query(
            request.query, self._synonyms.current(), self.embedder.has_word, request.only
        )
        search = _Search(request, words, embedded)
        return self._present(search, self._rank(search, self._candidates(search)))

    def _candidates(self, search: _Search) -> Iterator[_Candidates]:
        """Yield what is found by meaning and by words: each time four times as much, until that is all."""
        request, only = search.request, search.request.only
        allowed = self.generation.select(only) if only else None  # once: the search by words finds it remembered
        within = self.generation.within(search.words, allowed) if search.words.is_bounded else allowed
        depth = max(CANDIDATES, 2 * request.k)  # whatever the offset, for all pages to be of one ranking
        depth = max(depth, self.limits.rerank_depth) if request.rerank else depth
        words: Future[tuple[Found, float]] | None = None
        if request.mode == "hybrid" and self.generation.words_take_long:  # while the query is embedded
            # in this context, which has the deadline
            words = self._words.submit(copy_context().run, self._search_words, search.words, depth, only)
        has_tokens = self.generation.tokens is not None
        vector = None if request.mode == "lexical" else self._vector_of(search, tokens=has_tokens)
        are_all = False
        while not are_all:
            dense = lexical = None
            if vector is not None:
                began = time.perf_counter()
                dense = self.generation.search(vector, depth, within)
                search.spent("dense", began)
            if request.mode != "dense":
                lexical, seconds = words.result() if words else self._search_words(search.words, depth, only)
                search.took["lexical"] += seconds
                words = None
            are_all = all(found is None or len(found[1]) < depth for found in (dense, lexical))
            yield _Candidates(dense, lexical, are_all)
            depth *= 4

    def _rank(self, search: _Search, candidates: Iterator[_Candidates]) -> Ranked:
        """Choose the hits up to the end of the page, and one more, which says that there is another page.

        Duplicates and passages of one document may take the places of others; then it is looked for these further down.
        """
        request, ranking = search.request, None
        per_document = self.limits.per_document if request.per_document is None else request.per_document
        for found in candidates:
            began = time.perf_counter()
            is_first, ranking = ranking is None, extended(ranking, self._scored(search, found))
            if is_first and request.rerank:
                search.spent("fuse", began)
                ranking = self._reranked(search, ranking, per_document)
                began = time.perf_counter()
            facts = self.generation.rows_of(ranking.rows)
            choice = choose(
                ranking,
                facts,
                self.generation.vectors,
                k=search.stop + 1,
                per_document=per_document,
                diversity=request.diversity,
            )
            search.spent("fuse", began)
            if found.are_all or len(choice.indices) >= search.stop:
                has_more = len(choice.indices) > search.stop or not found.are_all
                return Ranked(ranking, facts, choice, per_document, has_more and search.stop <= FURTHEST)
        raise AssertionError("the last candidates are all there are")

    def _scored(self, search: _Search, found: _Candidates) -> Ranking:
        vector = search.vector
        query, kept = search.tokens, self.generation.tokens
        maxsim = partial(score_tokens, self.embedder, query, kept) if kept is not None and query is not None else None
        if found.dense and found.lexical and vector is not None:
            ranking = fused(
                found.dense,
                found.lexical,
                lambda rows: self.generation.vectors(rows) @ vector,
                maxsim=maxsim,
                idf_sum=self.generation.idf_sum(search.words),
            )
        elif found.dense and maxsim is not None:
            ranking = interacted(found.dense, maxsim)
        else:
            ranking = single(next(filter(None, found[:2])), is_dense=found.dense is not None)
        repetition = self.generation.repetition(ranking.rows)
        low = lowered(ranking, repetition)
        boosted = self._boosts.apply(low, self.generation)
        if search.trace:
            search.trace.rounds.append(Round(found.dense, found.lexical, ranking, repetition, low, boosted))
        return boosted

    def _reranked(self, search: _Search, ranking: Ranking, per_document: int) -> Ranking:
        """Have the cross-encoder read the best candidates that could be shown, as far as there is time."""
        if self._reranker is None:  # which `search` has seen to
            raise RerankOff
        began = time.perf_counter()
        facts, depth = self.generation.rows_of(ranking.rows), self.limits.rerank_depth
        best = choose(ranking, facts, self.generation.vectors, k=depth, per_document=per_document).indices
        texts = [headed(chunk.title, chunk.section, chunk.text) for chunk in self.generation.chunks(ranking.rows[best])]
        logits = self._reranker.score_best(search.request.meaning, texts)
        search.reranked = RerankCounts(len(best), len(logits))
        read = best[: len(logits)]
        after = reranked(ranking, read, logits, self._reranker.model.activated(logits))
        if search.trace:
            search.trace.reading = Reading(ranking, read, logits, after)
        search.spent("rerank", began)
        return after

    def _present(self, search: _Search, ranked: Ranked) -> Answer:
        """Fetch the hits of the page, and what is told of them and of the candidates."""
        request = search.request
        expands = (request.expand or self.limits.expand) == "section"
        page = Page(request.offset, search.stop, expands)
        judged, hits = fetch_hits(self.generation, ranked, page, search.words)
        close = is_close(search.words.asked, judged, self.limits.close)
        if not close and search.words.guessed:
            hits = without_guesses(hits, search.words)
        if search.trace:
            hits = explained(hits, ranked, search.trace, search.words, request, self.generation, self._boosts)
        if request.sentences:
            hits = self._with_sentences(search, hits)
        ranking = ranked.ranking
        facets = self._count(ranking.rows[: ranking.first][:COUNTED]) if request.facets else None
        search.spent("total", search.began)
        return Answer(
            query=request.query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in search.took.items()},
            generation=self.generation.id,
            next=search.stop if ranked.has_more else None,
            facets=facets,
            also_searched=[
                AlsoSearched(typed=each.typed, searched=list(each.searched), reason=each.reason)
                for each in search.words.also
            ],
            required=[str(clause) for clause in search.words.required],
            excluded=[str(clause) for clause in search.words.excluded],
            close=close,
            reranked=search.reranked,
            did_you_mean=search.words.did_you_mean,
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

    def _vector_of(self, search: _Search, *, tokens: bool = False) -> Vector:
        """The vector of the query, which takes the wait for other queries, too, unless it is there already.

        With `tokens` its tokens come as well, in the same run of the model.
        """
        if search.vector is None or (tokens and search.tokens is None):
            began = time.perf_counter()
            if tokens:
                search.vector, search.tokens = self._batcher.encode_tokens(search.request.meaning)
            else:
                search.vector = self._batcher.encode(search.request.meaning)
            search.spent("embed", began)
        return search.vector

    def _with_sentences(self, search: _Search, hits: list[Hit]) -> list[Hit]:
        """The hits, the nearest sentence marked in those that have no word of the query."""
        unmarked = [hit.text for hit in hits if not hit.highlights]
        if not unmarked:
            return hits
        vector = self._vector_of(search)
        began = time.perf_counter()
        spans = iter(nearest_sentences(vector, unmarked, self.embed))
        hits = [hit if hit.highlights else structs.replace(hit, sentence=next(spans)) for hit in hits]
        search.spent("sentences", began)
        return hits

    def _count(self, rows: Rows) -> dict[str, list[Share]]:
        numbers = np.unique(self.generation.rows_of(rows)["document"])
        return count_facets(self.generation.facts(numbers.tolist()))

    def _search_words(self, query: LexicalQuery, k: int, only: Filter | None) -> tuple[Found, float]:
        """Search by words; also return how many seconds it took."""
        start = time.perf_counter()
        return self.generation.search_words(query, k, only), time.perf_counter() - start
