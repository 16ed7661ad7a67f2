"""The query path, from a request to its answer: tokenize, embed, dense search ∥ lexical search, fuse, fetch, answer.

Everything is loaded and warmed beforehand.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder
from indexer.filter import Filter
from indexer.generation.generation import Generation
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.rowset import TermHits
from indexer.stores.store import Searchable
from rag.errors import RerankOff
from rag.query import hits as page_hits
from rag.query.batcher import MAX_TEXTS, QueryBatcher, RerankQueue, Vector
from rag.query.headings import sample_headings
from rag.query.hits import Ranked
from rag.query.ranking import Ranking, Rows, VectorHits, choose, extend, fuse, lower_boilerplate, rerank, score_tokens
from rag.query.request import FURTHEST, RERANKED, Limits, SearchRequest, in_force
from rag.query.results import AlsoSearched, Answer, RerankCounts, count_facets, headed
from rag.query.rules import Boosts, read_synonyms
from rag.query.served_model import WARM_QUERIES, check_fingerprint

CANDIDATES = 100  # of each search, from which the hits are chosen
COUNTED = 200  # candidates whose documents are counted for facets
_STAGES = ("embed", "dense", "lexical", "fuse", "rerank", "sentences", "total")
_TERM_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded


class _Search:
    """One request on its way: its words, its vector once there is one, and the seconds that each stage took."""

    def __init__(
        self, request: SearchRequest, only: Filter | None, terms: LexicalQuery, embedded: Vector | QueryTokens | None
    ) -> None:
        self.request = request
        self.only = only  # the filter of the request, which has the scope of the caller
        self.terms = terms
        self.vector: Vector | None
        self.tokens: Vector | None  # of the query, float32 (tokens, width)
        self.vector, self.tokens = embedded if isinstance(embedded, QueryTokens) else (embedded, None)
        self.took = dict.fromkeys(_STAGES, 0.0)
        self.reranked: RerankCounts | None = None
        self.began = time.perf_counter()

    def spent(self, stage: str, since: float) -> None:
        """Add the time since a moment of `time.perf_counter` to a stage."""
        self.took[stage] += time.perf_counter() - since


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self,
        generation: Searchable,
        embedder: Embedder,
        *,
        batcher: QueryBatcher | None = None,
        reranker: RerankQueue | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Retrievers that share an embedder should share a batcher, and a reranker.

        Raises:
            FingerprintMismatch: another embedder built the generation.
            SynonymsError, SettingsError: the rules of `limits` cannot be read.
        """
        check_fingerprint(generation.manifest, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self.limits = limits or Limits()
        self._batcher = batcher or QueryBatcher(embedder)
        boosts = Boosts.parse(self.limits.boost)
        self._boosts = boosts if boosts.rules or boosts.days else None
        self._synonyms = read_synonyms(self.limits.synonyms) if self.limits.synonyms else {}
        self._reranker = reranker
        self._threads = ThreadPoolExecutor(_TERM_SEARCHES, thread_name_prefix="terms")

    @classmethod
    def open(cls, index_dir: Path, embedder: Embedder, limits: Limits | None = None) -> "Retriever":
        """Open the live generation of an index. Raises IndexMissing, IndexCorrupt or FingerprintMismatch."""
        generation = Generation.open(index_dir)
        try:
            return cls(generation, embedder, limits=limits)
        except PilotlightError:
            generation.close()
            raise

    def warm(self) -> None:
        """Run the whole path once, so that the first user's query finds memory allocated and kernels chosen."""
        for query in WARM_QUERIES:
            self.answer_query(SearchRequest(query, k=10))
        if self._reranker:
            self._reranker.warm()

    def answer_query(self, request: SearchRequest, embedded: Vector | QueryTokens | None = None) -> Answer:
        """Find the passages that answer a query best: tokenize, embed, search, fuse, fetch the k texts, answer.

        Duplicates and passages of one document may take the places of others; then the searches go deeper, each time
        four times as far, until the page is full or there are no other candidates.

        Args:
            request: what is searched for, and how; its collection is of no concern here.
            embedded: the query's vector, float32 (dim,), or that and its tokens, where the caller has them already.

        Raises:
            QueryError: the query cannot be answered as asked.
            RerankOff: it is to be reranked, and there is no cross-encoder.
            FilterError: its filter cannot be read.
        """
        request.check()
        if request.rerank and self._reranker is None:
            raise RerankOff
        generation = self.generation
        only = in_force(request.only, generation.manifest) if request.filter else None
        # tokenize
        terms = generation.read_query(request.query, self._synonyms, self.embedder.has_word, only)
        search = _Search(request, only, terms, embedded)
        # embed, and search by words meanwhile where that takes longer than waking a thread
        depth = max(CANDIDATES, 2 * request.k, RERANKED if request.rerank else 0)
        in_background: Future[TermHits] | None = None
        if request.mode == "hybrid" and generation.terms_take_long:
            in_background = self._threads.submit(copy_context().run, self._search_terms, search, depth)
        vector = None
        if request.mode != "lexical":
            vector = self._embed(search, with_tokens=generation.tokens is not None)
        ranking: Ranking | None = None
        while True:
            # dense search ∥ lexical search
            dense = lexical = None
            if vector is not None:
                began = time.perf_counter()
                dense = generation.search_vectors(vector, depth, only, terms)
                search.spent("dense", began)
            if request.mode != "dense":
                lexical = in_background.result() if in_background else self._search_terms(search, depth)
            # fuse
            is_first, ranking = ranking is None, extend(ranking, self._fuse(search, dense, lexical))
            if is_first and request.rerank:
                ranking = self._rerank(search, ranking)
            are_all = (dense is None or len(dense[1]) < depth) and (lexical is None or len(lexical.rows) < depth)
            ranked = self._choose(search, ranking, are_all=are_all)
            if are_all or len(ranked.choice.indices) >= request.offset + request.k:
                return self._answer(search, ranked)  # fetch the k texts, answer
            in_background, depth = None, depth * 4

    def _embed(self, search: _Search, *, with_tokens: bool = False) -> Vector:
        """Return the vector of the query; its tokens come in the same run. The time includes the wait for others."""
        if search.vector is None or (with_tokens and search.tokens is None):
            began = time.perf_counter()
            if with_tokens:
                [(search.vector, search.tokens)] = self._batcher.encode_tokens([search.terms.meaning])
            else:
                [search.vector] = self._batcher.encode([search.terms.meaning])
            search.spent("embed", began)
        return search.vector

    def _search_terms(self, search: _Search, depth: int) -> TermHits:
        """Find the passages that have words of the query."""
        began = time.perf_counter()
        found = self.generation.search_terms(search.terms, depth, search.only)
        search.spent("lexical", began)
        return found

    def _fuse(self, search: _Search, dense: VectorHits | None, lexical: TermHits | None) -> Ranking:
        """Rank what the searches found, boilerplate lower, and by the rules of the operator."""
        began, generation = time.perf_counter(), self.generation
        vector = search.vector if search.vector is not None else np.empty(0, np.float32)
        maxsim = None
        if generation.tokens is not None and search.tokens is not None:
            maxsim = partial(score_tokens, self.embedder, search.tokens, generation.tokens)

        def cosines(rows: Rows) -> Vector:
            return np.asarray(generation.vectors(rows) @ vector, np.float32)

        ranking = fuse(dense, lexical, cosines, maxsim, explain=search.request.explain)
        ranking = lower_boilerplate(ranking, generation.row_facts(ranking.rows).repeated)
        if self._boosts:
            ranking = self._boosts.apply(ranking, generation)
        search.spent("fuse", began)
        return ranking

    def _rerank(self, search: _Search, ranking: Ranking) -> Ranking:
        """Rank the best candidates that could be shown by the cross-encoder, as far as there is time."""
        assert self._reranker is not None  # noqa: S101 - for the type checker; `answer_query` raises RerankOff
        began = time.perf_counter()
        best = self._choose(search, ranking, k=RERANKED).choice.indices
        texts = [headed(chunk.title, chunk.section, chunk.text) for chunk in self.generation.chunks(ranking.rows[best])]
        logits = self._reranker.score_best(search.terms.meaning, texts)
        search.reranked = RerankCounts(len(best), len(logits))
        ranking = rerank(ranking, best[: len(logits)], logits, self._reranker.model.activated(logits))
        search.spent("rerank", began)
        return ranking

    def _choose(self, search: _Search, ranking: Ranking, *, k: int = 0, are_all: bool = False) -> Ranked:
        """Choose k candidates, or the hits up to the end of the page and one more, which says that there is another."""
        began, request = time.perf_counter(), search.request
        stop = request.offset + request.k
        facts = self.generation.row_facts(ranking.rows)
        choice = choose(
            ranking,
            facts,
            self.generation.vectors,
            k=k or stop + 1,
            per_document=self.limits.per_document if request.per_document is None else request.per_document,
            diversity=0 if k else request.diversity,
        )
        has_more = (len(choice.indices) > stop or not are_all) and stop <= FURTHEST
        if not k:
            search.spent("fuse", began)
        return Ranked(ranking, facts, choice, has_more)

    def _answer(self, search: _Search, ranked: Ranked) -> Answer:
        """Fetch the texts of the page, and describe the hits and the candidates."""
        request, terms, generation = search.request, search.terms, self.generation
        judged, hits = page_hits.fetch_hits(generation, ranked, request, terms)
        close = page_hits.is_close(terms.asked, judged, self.limits.close)
        if not close and terms.guessed:
            hits = page_hits.without_guesses(hits, terms)
        if request.explain:
            hits = page_hits.explain_hits(hits, ranked, request, terms, generation, self._boosts)
        if request.sentences and not all(hit.highlights for hit in hits):
            vector, began = self._embed(search), time.perf_counter()
            hits = page_hits.mark_sentences(hits, vector, self.embed_passages)
            search.spent("sentences", began)
        facets = None
        if request.facets:
            documents = np.unique(ranked.facts.documents[: ranked.ranking.first][:COUNTED])
            facets = count_facets(generation.facts(documents.tolist()).values())
        search.spent("total", search.began)
        return Answer(
            query=request.query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in search.took.items()},
            generation=generation.manifest.id,
            next=request.offset + request.k if ranked.has_more else None,
            facets=facets,
            also_searched=[
                AlsoSearched(typed=each.typed, searched=list(each.searched), reason=each.reason) for each in terms.also
            ],
            required=list(map(str, terms.required)),
            excluded=list(map(str, terms.excluded)),
            close=close,
            reranked=search.reranked,
            did_you_mean=terms.did_you_mean,
        )

    @cached_property
    def headings(self) -> list[str]:
        """Headings that could be searched for; see `sample_headings`."""
        return sample_headings(self.generation)

    def embed_passages(self, texts: list[str]) -> npt.NDArray[np.float32]:
        """Embed one text or more as float32 (n, dim); between two runs, queries of others have their turn."""
        starts = range(0, len(texts), MAX_TEXTS)
        return np.concatenate([self._batcher.encode(texts[start : start + MAX_TEXTS], "document") for start in starts])
