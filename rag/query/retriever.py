"""Answer a query from one index generation: embed the query, search by vectors and terms, fuse hits, and fetch texts.

The model and the index are loaded and warmed up before the first query.
"""

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property, lru_cache, partial
from itertools import chain
from time import perf_counter

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from embedder.late_interaction import QueryTokens
from embedder.text_embedder import Embedder
from indexer.filter import Filter
from indexer.generation.documents import StoredChunk, document_id
from indexer.generation.editions import Edition
from indexer.generation.languages import SAMPLE_PASSAGES, languages_of
from indexer.generation.lexical.analysis import TERMS, rules_for, spans, terms_in
from indexer.generation.lexical.lexical_query import LexicalQuery, Terms
from indexer.generation.lexical.pasted import nearest_sentences
from indexer.generation.rows import Rows, ScoredRows
from indexer.network.urls import normalise
from indexer.stores import Searchable
from rag.decoding import check
from rag.errors import FieldError, NotConfigured
from rag.query.model_queue import WARM_QUERIES, QueryEncoder, RerankQueue, Vector
from rag.query.ranking import Choice, Ranking, choose, extend, fuse, is_close, rerank, score_tokens
from rag.query.request import CLOSE, DEFAULT_PER_DOCUMENT, MAX_OFFSET, RERANKED, SearchRequest, effective_filter
from rag.query.results import (
    AlsoSearched,
    Answer,
    Hit,
    RerankCounts,
    count_facets,
    explain,
    full_heading,
    link_to_text,
    questions_among,
)
from rag.query.synonyms import read_synonyms
from rag.query.weighting import CollectionFacts, QueryFacts, share_of_code
from rag.stores import check_fingerprint

CANDIDATES = 100  # hits from each search method
_FACET_CANDIDATES = 200
_NO_SECONDS = dict.fromkeys(("embed", "dense", "lexical", "fuse", "rerank", "total"), 0.0)
_FILTERS = 1 << 8
_TERM_SEARCH_THREADS = 4  # each searches while another core embeds the query
_MAX_DUPLICATES_SHOWN = 10
_JUDGED_HITS = 10
_QUESTION_SAMPLE = 1000
_ADDRESS = re.compile(r"(?:(https?|file)://)?([\w-]+(?:\.[\w-]+)+(?::\d+)?/\S*|(?<=//)\S.*)", re.IGNORECASE)
_INDEX = re.compile(r"(?<=/)index\.\w+$")
_AROUND_ADDRESS = " \t\r\n<>()[]\"'`.,;:!"


class _Search(Struct):
    """The state of a search: the request, the parsed query, its vectors, and the seconds of each stage."""

    request: SearchRequest
    filter: Filter | None  # filter of the request, combined with the caller's scope
    terms: LexicalQuery
    vector: Vector | None = None
    tokens: Vector | None = None  # vectors of the query's tokens, float32 (tokens, width)
    broken: tuple[int, int] = (0, 0)  # numbers of broken word pieces and of all word pieces; see `TokenizedText`
    term_hits: Future[ScoredRows] | None = None
    is_exhausted: bool = False
    seconds: dict[str, float] = field(default_factory=_NO_SECONDS.copy)
    reranked: RerankCounts | None = None
    began: float = field(default_factory=perf_counter)


class Retriever:
    """Searches one open index generation. Safe to share between threads."""

    def __init__(
        self,
        generation: Searchable,
        embedder: Embedder,
        *,
        encoder: QueryEncoder | None = None,
        reranker: RerankQueue | None = None,
        synonyms: str = "",
        close: float = CLOSE,
    ) -> None:
        """Create a retriever.

        Args:
            encoder: queue for `embedder`, which retrievers can share; None to create a queue without a cache.
            reranker: queue for the cross-encoder, which retrievers can share; None for no reranking.
            synonyms: path of the file of synonyms; empty for none.
            close: minimum cosine of a close hit, see `is_close`.

        Raises:
            FingerprintMismatch: the generation was built with another embedder.
            SynonymsError: the file of synonyms cannot be read.
        """
        check_fingerprint(generation.manifest, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self._effective_filter = lru_cache(_FILTERS)(partial(effective_filter, manifest=generation.manifest))
        self._encoder = encoder or QueryEncoder(embedder)
        self._synonyms = read_synonyms(synonyms) if synonyms else {}
        self._close = close
        self._reranker = reranker
        self._edition_of: dict[int, Edition | None] = {}
        self._threads = ThreadPoolExecutor(_TERM_SEARCH_THREADS, thread_name_prefix="terms")

    def warm(self) -> None:
        """Run some queries, so that memory is allocated and kernels are chosen before the first query of a user."""
        for query in WARM_QUERIES:
            self.answer_query(SearchRequest(query, rerank=self._reranker is not None))

    def answer_query(self, request: SearchRequest, embedded: QueryTokens | None = None) -> Answer:
        """Find the passages that answer a query best.

        Duplicates and passages above the limit per document are removed. If fewer than k hits remain, the search is
        repeated with four times as many candidates, until there are k hits or no more candidates. If the query is an
        address, the passages of the page at this address are ranked first.

        Args:
            request: the query and its options. Its `collection` is only copied to the hits.
            embedded: vectors of the query and of its tokens, if the caller has already computed them.

        Raises:
            QueryError: a field of the request is invalid.
            NotConfigured: reranking is requested, but there is no cross-encoder.
            FilterError: the filter is invalid.
        """
        _check(request)
        if request.rerank and self._reranker is None:
            raise NotConfigured("reranking is not configured here: set rerank_model")
        search = self._read_query(request, embedded)
        if len(search.terms.meaning) > self.embedder.max_length and request.mode != "lexical":
            self._shorten(search)
        depth = max(CANDIDATES, 2 * request.k)
        if request.mode == "hybrid" and self.generation.terms_take_long:
            search.term_hits = self._threads.submit(copy_context().run, self._search_terms, search, depth)
        if request.mode != "lexical":
            self._embed(search)
        ranking = self._rank(search, depth)
        if request.rerank:
            ranking = self._rerank(search, ranking)
        if rows := self._rows_at_address(search):
            ranking = ranking.preceded_by(self._rank_rows(search, np.array(rows, np.int64)))
        choice = self._choose(search, ranking)
        while len(choice.indices) < request.offset + request.k and not search.is_exhausted:
            depth *= 4
            ranking = extend(ranking, self._rank(search, depth))
            choice = self._choose(search, ranking)
        return self._answer(search, ranking, choice)

    def _read_query(self, request: SearchRequest, embedded: QueryTokens | None) -> _Search:
        filter = self._effective_filter(request.parsed_filter) if request.filter else None
        terms = self.generation.read_query(request.query, self._synonyms, self.embedder.has_word, filter)
        if embedded is not None and terms.meaning != request.meaning:
            embedded = None  # the caller excluded -word, but in this index it is the name of an option to search for
        return _Search(request, filter, terms, *(embedded or ()))

    def _shorten(self, search: _Search) -> None:
        began, terms = perf_counter(), search.terms

        def measure(sentences: Sequence[str]) -> Vector:
            vectors = self._encoder.encode(sentences)
            nearest = [self.generation.search_vectors(each, 1, search.filter, terms)[0] for each in vectors]
            return np.array([cosines.max(initial=-1) for cosines in nearest], np.float32) - self._facts.unrelated

        def read(text: str) -> LexicalQuery:
            return self.generation.read_query(text, self._synonyms, self.embedder.has_word, search.filter)

        search.terms = shorten(terms, self.embedder, measure, read)
        if search.terms is not terms:
            search.vector = None
            search.seconds["embed"] += perf_counter() - began

    def _embed(self, search: _Search) -> None:
        if search.vector is None:
            began = perf_counter()
            with_tokens = self.generation.tokens is not None
            embedding = self._encoder.embed_query(search.terms.meaning, with_tokens=with_tokens)
            search.vector, search.tokens, search.broken = embedding
            search.seconds["embed"] += perf_counter() - began

    def _rank(self, search: _Search, depth: int) -> Ranking:
        """Fetch `depth` hits by vectors and `depth` hits by terms, and fuse them."""
        dense = lexical = None
        if search.vector is not None:
            began = perf_counter()
            dense = self.generation.search_vectors(search.vector, depth, search.filter, search.terms)
            search.seconds["dense"] += perf_counter() - began
        if search.request.mode != "dense":
            term_hits, search.term_hits = search.term_hits, None
            lexical = term_hits.result() if term_hits else self._search_terms(search, depth)
        counts = [len(hits.rows) for hits in (dense, lexical) if hits is not None]
        search.is_exhausted = max(counts) < depth
        return self._fuse(search, dense, lexical)

    def _rows_at_address(self, search: _Search) -> Sequence[int]:
        """Return the first k rows of the page whose address is the query, or () if there is no such page."""
        typed = search.request.query.strip()
        bare = typed.strip(_AROUND_ADDRESS)
        for match in filter(None, map(_ADDRESS.fullmatch, dict.fromkeys((typed, bare, bare.partition("?")[0])))):
            for scheme in dict.fromkeys(((match[1] or "https").lower(), "https", "http")):
                written = f"{scheme}://{match[2]}"
                address = normalise("", written) or written
                folder = _INDEX.sub("", address).rstrip("/")
                on_hosts = (folder, folder.replace("//www.", "//", 1), folder.replace("//", "//www.", 1))
                for url in dict.fromkeys((address, *(f"{each}{end}" for each in on_hosts for end in ("", "/")))):
                    for entry in self.generation.entries(search.filter, document_id(url)):
                        return entry.rows[: search.request.k]
        return ()

    def _rank_rows(self, search: _Search, rows: Rows) -> Ranking:
        dense = lexical = None
        if search.vector is not None:
            dense = ScoredRows(np.asarray(self.generation.vectors(rows) @ search.vector, np.float32), rows)
        if search.request.mode != "dense":
            lexical = ScoredRows(np.zeros(len(rows), np.float32), rows)
        return self._fuse(search, dense, lexical)

    def _search_terms(self, search: _Search, depth: int) -> ScoredRows:
        began = perf_counter()
        hits = self.generation.search_terms(search.terms, depth, search.filter)
        search.seconds["lexical"] += perf_counter() - began
        return hits

    def _fuse(self, search: _Search, dense: ScoredRows | None, lexical: ScoredRows | None) -> Ranking:
        began, generation = perf_counter(), self.generation
        vector = search.vector if search.vector is not None else np.empty(0, np.float32)
        maxsim = None
        if generation.tokens is not None and search.tokens is not None:
            score = partial(score_tokens, self.embedder, search.tokens)
            maxsim = partial(generation.score_tokens, score)

        def cosines(rows: Rows) -> Vector:
            return np.asarray(generation.vectors(rows) @ vector, np.float32)

        query = QueryFacts(self._facts, search.broken)
        ranking = fuse(dense, lexical, cosines, maxsim, query, explain=search.request.explain)
        search.seconds["fuse"] += perf_counter() - began
        return ranking

    @cached_property
    def _facts(self) -> CollectionFacts:
        """The facts of the collection that affect the weights, from its build report and a sample of its passages."""
        manifest = self.generation.manifest
        code = share_of_code([chunk.text for chunk in self._sample(SAMPLE_PASSAGES)])
        languages = tuple(languages_of(manifest.report))
        return CollectionFacts(code, languages, self._encoder.unrelated)

    def _rerank(self, search: _Search, ranking: Ranking) -> Ranking:
        """Rerank the best candidates with the cross-encoder, as many as it can score before the deadline."""
        assert self._reranker is not None  # noqa: S101 - for the type checker; `answer_query` raises NotConfigured
        began = perf_counter()
        best = np.array(self._choose(search, ranking, k=RERANKED).indices, np.int64)
        chunks = self.generation.chunks(ranking.rows[best])
        passages = ["\n\n".join(filter(None, [full_heading(one.title, one.section), one.text])) for one in chunks]
        logits = self._reranker.score_best(search.terms.meaning, passages)
        search.reranked = RerankCounts(len(best), len(logits))
        ranking = rerank(ranking, best[: len(logits)], logits, self._reranker.model.to_scores(logits))
        search.seconds["rerank"] += perf_counter() - began
        return ranking

    def _choose(self, search: _Search, ranking: Ranking, *, k: int = 0) -> Choice:
        """Choose `k` candidates. If `k` is 0, choose the requested hits, all hits before them, and the next hit."""
        began, request = perf_counter(), search.request
        facts = self.generation.row_facts(ranking.rows)
        editions: list[Edition | None] = []
        if self.generation.manifest.versions:
            documents = facts.documents.tolist()
            if new := {number for number in documents if number not in self._edition_of}:
                self._edition_of |= self.generation.editions([*new])
            editions = [self._edition_of[number] for number in documents]
        choice = choose(
            ranking,
            facts,
            k=k or request.offset + request.k + 1,
            per_document=DEFAULT_PER_DOCUMENT if request.per_document is None else request.per_document,
            editions=editions,
            twins=self.generation.twins,
        )
        if not k:
            search.seconds["fuse"] += perf_counter() - began
        return choice

    def _answer(self, search: _Search, ranking: Ranking, choice: Choice) -> Answer:
        """Fetch the texts of the requested hits, and return the hits with facts about the search."""
        request, terms, generation = search.request, search.terms, self.generation
        stop = request.offset + request.k
        has_more = (len(choice.indices) > stop or not search.is_exhausted) and stop <= MAX_OFFSET
        judged, hits = self._fetch(search, ranking, choice)
        cosines = [hit.scores["dense"] for hit in judged]
        close = is_close(cosines, map(partial(coverage, terms.query_words), judged), self._close, self._facts.unrelated)
        if request.explain:
            explained = zip(hits, choice.indices[request.offset :], strict=False)
            hits = [replace(hit, explanation=explain(ranking, choice, index)) for hit, index in explained]
        facets = None
        if request.facets:
            documents = sorted({*choice.documents[: ranking.first][:_FACET_CANDIDATES]})
            editions = map(self._edition_of.get, documents)
            versions = [edition.version for edition in editions if edition]
            facets = count_facets(generation.facts(documents).values(), versions)
        search.seconds["total"] = perf_counter() - search.began
        return Answer(
            query=request.query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in search.seconds.items()},
            generation=generation.manifest.id,
            collections=list(generation.names) or [request.collection],
            next=stop if has_more else None,
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

    def _fetch(self, search: _Search, ranking: Ranking, choice: Choice) -> tuple[list[Hit], list[Hit]]:
        """Return the best hits, which decide whether the query has close hits, and the requested hits."""
        generation, request, terms = self.generation, search.request, search.terms
        offset = request.offset
        earlier = min(offset, _JUDGED_HITS, len(choice.indices))
        positions = [*range(earlier), *range(offset, min(offset + request.k, len(choice.indices)))]
        indices = [choice.indices[position] for position in positions]
        folded: list[list[int]] = [[]] * earlier  # duplicates are only fetched for requested hits
        folded += [choice.folded.get(index, [])[:_MAX_DUPLICATES_SHOWN] for index in indices[earlier:]]
        older = [choice.older.get(index, {}) for index in indices]
        rows = ranking.rows[[*indices, *chain(*folded, *map(dict.values, older))]]
        chunks = generation.chunks(rows)
        further = iter(chunks[len(indices) :])
        duplicates = [[next(further).url for _ in group] if group else [] for group in folded]
        collections = generation.collections(rows.tolist())
        scores = ranking.scores_of(indices)
        marked = {language: terms.marked_in(language) for language in {chunk.language for chunk in chunks}}
        hits = []
        for number, (chunk, position, index) in enumerate(zip(chunks, positions, indices, strict=False)):
            language, document = chunk.language, choice.documents[index]
            highlights = spans(marked[language], chunk.text, language)
            edition = self._edition_of.get(document)
            expands = request.expand == "section" and position >= offset
            section = generation.section(int(rows[number])) if expands else None
            hit = Hit(
                rank=position + 1,
                id=chunk.id,
                url=chunk.url,
                title=chunk.title,
                section=chunk.section,
                text=chunk.text,
                highlights=highlights,
                score=float(ranking.scores[index]),
                scores=scores[number],
                language=language,
                date=chunk.date,
                content_type=chunk.content_type,
                metadata=chunk.metadata,
                duplicates=duplicates[number],
                version=edition.version if edition else None,
                also=[{"version": each, "url": next(further).url} for each in older[number]] if older[number] else [],
                link=link_to_text(chunk.url, chunk.content_type, chunk.text, highlights) if request.links else None,
                section_text=section.text if section else None,
                document=document_id(chunk.document_url),
                collection=collections[number] if collections else request.collection,
                more=choice.left_out.get(document, 0),
                blocks=chunk.blocks,
                section_blocks=section.blocks if section else [],
            )
            hits.append(hit)
        return hits[:_JUDGED_HITS], hits[earlier:]

    def _sample(self, size: int) -> Sequence[StoredChunk]:
        """Fetch at most `size` passages, at regular intervals of the collection."""
        count = self.generation.manifest.counts.chunks
        return self.generation.chunks(np.unique(np.linspace(0, count - 1, min(count, size)).astype(np.int64)))

    @cached_property
    def questions(self) -> list[str]:
        """Some headings that are questions, as examples for the start page."""
        return questions_among(self._sample(_QUESTION_SAMPLE))


def shorten(
    terms: LexicalQuery,
    embedder: Embedder,
    measure: Callable[[Sequence[str]], Vector],
    read: Callable[[str], LexicalQuery],
) -> LexicalQuery:
    """Return the query or, if it is too long for the model, a query with only its best sentences.

    Required and excluded words and phrases do not change.

    Args:
        measure: function that returns the cosine of each sentence and its nearest passage, minus the mean cosine of
            unrelated texts, as float32 (n,).
        read: function that parses the best sentences as a query.
    """
    if embedder.count_tokens([terms.meaning], role="query")[0] <= embedder.max_length:
        return terms
    query = read(nearest_sentences(terms.meaning, measure))
    return replace(query, required=terms.required, excluded=terms.excluded, did_you_mean=terms.did_you_mean)


def _check(request: SearchRequest) -> None:
    """Raise FieldError for a field that the REST API would refuse."""
    check(request)
    try:
        request.query.encode()
    except UnicodeEncodeError:
        raise FieldError("query", "query contains half of a surrogate pair, which is not a character.") from None


def coverage(words: Sequence[Terms], hit: Hit) -> float:
    """Return the share of the query's words that occur in the text, title or headings of a hit."""
    if not words:
        return 0.0
    hit_terms = set(terms_in(f"{hit.title} {hit.section}", hit.language))
    terms = TERMS[rules_for(hit.language)]
    hit_terms.update(*(terms[hit.text[start:end]] for start, end in hit.highlights))
    return sum(not hit_terms.isdisjoint(forms) for forms in words) / len(words)
