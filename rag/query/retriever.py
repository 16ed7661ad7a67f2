"""The query path, from a request to its answer: tokenize, embed, dense search ∥ lexical search, fuse, fetch, answer.

Everything is loaded and warmed beforehand.
"""

import math
import re
from collections.abc import Iterable, Sequence
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
from indexer.generation.languages import SAMPLE, languages_of
from indexer.generation.lexical.analysis import TERMS, rules_for, spans, terms_in
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.lexical_query import LexicalQuery, Terms
from indexer.generation.lexical.vocabulary import Heading
from indexer.generation.rows import TermHits
from indexer.generation.versions import Edition
from indexer.records import SEPARATOR
from indexer.stores.store import Searchable
from rag.decoding import check
from rag.errors import FieldError, NotConfigured
from rag.query.fingerprint import check_fingerprint
from rag.query.model_queue import WARM_QUERIES, QueryEncoder, RerankQueue, Vector
from rag.query.ranking import Choice, Ranking, Rows, VectorHits, choose, extend, fuse, rerank, score_tokens
from rag.query.request import CLOSE, FURTHEST, PER_DOCUMENT, RERANKED, SearchRequest, in_force
from rag.query.results import AlsoSearched, Answer, Hit, RerankCounts, Suggestion, count_facets, explain, headed
from rag.query.synonyms import read_synonyms
from rag.query.text_fragment import link_to_text
from rag.query.weighting import CollectionFacts, QueryFacts, measure_unrelated, share_of_code

CANDIDATES = 100  # of each search, from which the hits are chosen
COUNTED = 200  # candidates whose documents are counted for facets
_NO_TIME = {"embed": 0.0, "dense": 0.0, "lexical": 0.0, "fuse": 0.0, "rerank": 0.0, "total": 0.0}  # by stage
_FILTERS = 1 << 8
_TERM_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded
_DUPLICATES_SHOWN = 10  # of a hit
_PARTS = ("dense", "lexical", "tokens", "rerank")  # of `Hit.scores`
_JUDGED = 10  # of the best passages, which say whether anything is close
_CLOSE_WITH_TERMS = 0.8  # of the cosine `close`, where the passage has most words of the query
_MOST_TERMS = 0.6  # of the words of the query
_SAMPLED = 1000  # passages, from all over the index, whose headings may be questions
_OFFERED, _LONGEST = 4, 70  # questions; characters of one
FEWEST_TYPED, MOST_TYPED = 2, 200  # characters; a longer text is no search for a heading
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|(?<![\d.])\d++(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)
_SOME_TERMS = 0.34  # of the words, where there is no cosine: the search was by words alone


class _Search(Struct):
    """One request on its way: its words, its vector once there is one, and the seconds that each stage took."""

    request: SearchRequest
    only: Filter | None  # the filter of the request, which has the scope of the caller
    terms: LexicalQuery
    vector: Vector | None = None
    tokens: Vector | None = None  # of the query, float32 (tokens, width)
    broken: tuple[int, int] = (0, 0)  # see `TokenizedText`
    took: dict[str, float] = field(default_factory=_NO_TIME.copy)
    reranked: RerankCounts | None = None
    began: float = field(default_factory=perf_counter)


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

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
        """Retrievers that share an embedder should share an encoder, and a reranker; for the others see `Settings`.

        Raises:
            FingerprintMismatch: another embedder built the generation.
            SynonymsError: the file of synonyms cannot be read.
        """
        check_fingerprint(generation.manifest, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self._in_force = lru_cache(_FILTERS)(partial(in_force, manifest=generation.manifest))
        self._encoder = encoder or QueryEncoder(embedder)
        self._synonyms = read_synonyms(synonyms) if synonyms else {}
        self._close = close
        self._reranker = reranker
        self._edition_of: dict[int, Edition | None] = {}  # by document, as far as they were found
        self._threads = ThreadPoolExecutor(_TERM_SEARCHES, thread_name_prefix="terms")

    def warm(self) -> None:
        """Run the whole path once, so that the first user's query finds memory allocated and kernels chosen."""
        for query in WARM_QUERIES:
            self.answer_query(SearchRequest(query, k=10, rerank=self._reranker is not None))

    def answer_query(self, request: SearchRequest, embedded: QueryTokens | None = None) -> Answer:
        """Find the passages that answer a query best: tokenize, embed, search, fuse, fetch the k texts, answer.

        Duplicates and passages of one document may take the places of others; then the searches go deeper, each time
        four times as far, until the page is full or there are no other candidates.

        Args:
            request: what is searched for, and how; its collection is only what hits say of themselves.
            embedded: the query's vector and its tokens, where the caller has them already.

        Raises:
            QueryError: the query cannot be answered as asked.
            NotConfigured: it is to be reranked, and there is no cross-encoder.
            FilterError: its filter cannot be read.
        """
        _check(request)
        if request.rerank and self._reranker is None:
            raise NotConfigured("reranking is not configured here: set rerank_model")
        generation = self.generation
        only = self._in_force(request.only) if request.filter else None
        # tokenize
        terms = generation.read_query(request.query, self._synonyms, self.embedder.has_word, only)
        if embedded is not None and terms.meaning != request.meaning:  # the index has told an option from an exclusion
            embedded = None
        search = _Search(request, only, terms, *(embedded or ()))
        # embed, and search by words meanwhile where that takes longer than waking a thread
        depth = max(CANDIDATES, 2 * request.k, RERANKED if request.rerank else 0)
        in_background: Future[TermHits] | None = None
        if request.mode == "hybrid" and generation.terms_take_long:
            in_background = self._threads.submit(copy_context().run, self._search_terms, search, depth)
        vector = None
        if request.mode != "lexical":
            vector = self._embed(search)
        ranking: Ranking | None = None
        while True:
            # dense search ∥ lexical search
            dense = lexical = None
            if vector is not None:
                began = perf_counter()
                dense = generation.search_vectors(vector, depth, only, terms)
                search.took["dense"] += perf_counter() - began
            if request.mode != "dense":
                lexical = in_background.result() if in_background else self._search_terms(search, depth)
            # fuse
            fused = self._fuse(search, dense, lexical)
            if ranking is not None:
                ranking = extend(ranking, fused)
            else:
                ranking = self._rerank(search, fused) if request.rerank else fused
            choice = self._choose(search, ranking)
            are_all = (dense is None or len(dense[1]) < depth) and (lexical is None or len(lexical.rows) < depth)
            if are_all or len(choice.indices) >= request.offset + request.k:
                break
            in_background, depth = None, depth * 4
        # fetch the k texts, answer
        return self._answer(search, ranking, choice, are_all=are_all)

    def _embed(self, search: _Search) -> Vector:
        """Return the vector of the query; its tokens come in the same run. The time includes the wait for others."""
        if search.vector is None:
            began = perf_counter()
            with_tokens = self.generation.tokens is not None
            made = self._encoder.embed_query(search.terms.meaning, with_tokens=with_tokens)
            search.vector, search.tokens, search.broken = made
            search.took["embed"] += perf_counter() - began
        return search.vector

    def _search_terms(self, search: _Search, depth: int) -> TermHits:
        """Find the passages that have words of the query."""
        began = perf_counter()
        found = self.generation.search_terms(search.terms, depth, search.only)
        search.took["lexical"] += perf_counter() - began
        return found

    def _fuse(self, search: _Search, dense: VectorHits | None, lexical: TermHits | None) -> Ranking:
        """Rank the hits of the searches."""
        began, generation = perf_counter(), self.generation
        vector = search.vector if search.vector is not None else np.empty(0, np.float32)
        maxsim = None
        if generation.tokens is not None and search.tokens is not None:
            score = partial(score_tokens, self.embedder, search.tokens)
            maxsim = partial(generation.score_tokens, score)

        def cosines(rows: Rows) -> Vector:
            return np.asarray(generation.vectors(rows) @ vector, np.float32)

        query = QueryFacts(self._facts, search.terms.meaning, search.broken)
        ranking = fuse(dense, lexical, cosines, maxsim, query, explain=search.request.explain)
        search.took["fuse"] += perf_counter() - began
        return ranking

    @cached_property
    def _facts(self) -> CollectionFacts:
        """Facts of the collection, from its report and from passages all over it."""
        manifest, code = self.generation.manifest, share_of_code([chunk.text for chunk in self._spread(SAMPLE)])
        languages = tuple(languages_of(manifest.report))
        return CollectionFacts(manifest.counts.chunks, code, languages, measure_unrelated(self.embedder))

    def _rerank(self, search: _Search, ranking: Ranking) -> Ranking:
        """Rank the best candidates that could be shown by the cross-encoder, as far as there is time."""
        assert self._reranker is not None  # noqa: S101 - for the type checker; `answer_query` raises NotConfigured
        began = perf_counter()
        best = np.array(self._choose(search, ranking, k=RERANKED).indices, np.int64)
        texts = [headed(chunk.title, chunk.section, chunk.text) for chunk in self.generation.chunks(ranking.rows[best])]
        logits = self._reranker.score_best(search.terms.meaning, texts)
        search.reranked = RerankCounts(len(best), len(logits))
        ranking = rerank(ranking, best[: len(logits)], logits, self._reranker.model.to_scores(logits))
        search.took["rerank"] += perf_counter() - began
        return ranking

    def _choose(self, search: _Search, ranking: Ranking, *, k: int = 0) -> Choice:
        """Choose k candidates, or the hits up to the end of the page and one more, which says that there is another."""
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
            per_document=PER_DOCUMENT if request.per_document is None else request.per_document,
            editions=editions,
            twins=self.generation.twins,
        )
        if not k:
            search.took["fuse"] += perf_counter() - began
        return choice

    def _answer(self, search: _Search, ranking: Ranking, choice: Choice, *, are_all: bool) -> Answer:
        """Fetch the texts of the page, and describe the hits and the candidates."""
        request, terms, generation = search.request, search.terms, self.generation
        stop = request.offset + request.k
        has_more = (len(choice.indices) > stop or not are_all) and stop <= FURTHEST
        judged, hits = self._fetch(search, ranking, choice)
        close = is_close(terms.query_words, judged, self._close)
        if request.explain:
            explained = zip(hits, choice.indices[request.offset :], strict=False)
            hits = [replace(hit, explanation=explain(ranking, choice, index)) for hit, index in explained]
        facets = None
        if request.facets:
            documents = sorted({*choice.documents[: ranking.first][:COUNTED]})
            editions = map(self._edition_of.get, documents)
            versions = [edition.version for edition in editions if edition]
            facets = count_facets(generation.facts(documents).values(), versions)
        search.took["total"] = perf_counter() - search.began
        return Answer(
            query=request.query,
            hits=hits,
            took_ms={stage: round(seconds * 1000, 3) for stage, seconds in search.took.items()},
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
        """Fetch, in one call, the best of the chosen passages, which say whether anything is close, and the page."""
        generation, request, terms = self.generation, search.request, search.terms
        chosen, offset = choice.indices, request.offset
        before = min(offset, _JUDGED, len(chosen))
        places = [*range(before), *range(offset, min(offset + request.k, len(chosen)))]
        indices = [chosen[place] for place in places]
        folded: list[list[int]] = [[]] * before  # only those of the page are shown
        folded += [choice.folded.get(index, [])[:_DUPLICATES_SHOWN] for index in indices[before:]]
        older = [choice.older.get(index, {}) for index in indices] if choice.older else []
        rows = ranking.rows[[*indices, *chain(*folded, *(group.values() for group in older))]]
        chunks = generation.chunks(rows)
        others = iter(chunks[len(indices) :])
        duplicates = [[next(others).url for _ in group] if group else [] for group in folded]
        scores = ranking.scores[indices].tolist()
        collections = generation.collections(rows.tolist())
        parts = []
        for name in _PARTS:
            values = ranking.columns[name][indices].tolist() if name in ranking.columns else [math.nan] * len(indices)
            least = 0 if name == "lexical" else -math.inf  # where no word matches, BM25 is 0
            parts.append([value if value > least else None for value in values])  # NaN is not
        marked = {language: terms.marked_in(language) for language in {chunk.language for chunk in chunks}}
        hits = []
        each_with_scores = zip(chunks, places, *parts, strict=False)  # the other chunks are duplicates
        for number, (chunk, place, dense, lexical, tokens, reranked) in enumerate(each_with_scores):
            language, document = chunk.language, choice.documents[indices[number]]
            highlights = spans(marked[language], chunk.text, language)
            edition = self._edition_of.get(document)
            expands = request.expand == "section" and place >= offset
            section = generation.section(int(rows[number])) if expands else None
            hit = Hit(  # by position: names take six times as long
                place + 1,
                chunk.id,
                chunk.url,
                chunk.title,
                chunk.section,
                chunk.text,
                highlights,
                scores[number],
                {"dense": dense, "lexical": lexical, "tokens": tokens, "rerank": reranked},
                language,
                chunk.date,
                chunk.content_type,
                chunk.metadata,
                duplicates[number],
                edition.version if edition else None,
                [{"version": each, "url": next(others).url} for each in older[number]] if older else [],
                link_to_text(chunk.url, chunk.content_type, chunk.text, highlights) if request.links else None,
                section.text if section else None,
                document_id(chunk.document_url),
                collections[number] if collections else request.collection,
                choice.left_out.get(document, 0),
                None,
                chunk.blocks,
                section.blocks if section else [],
            )
            hits.append(hit)
        return hits[:_JUDGED], hits[before:]

    def _spread(self, most: int) -> Sequence[StoredChunk]:
        """Fetch at most so many passages, at equal distances in the collection."""
        count = self.generation.manifest.counts.chunks
        return self.generation.chunks(np.unique(np.linspace(0, max(0, count - 1), min(count, most)).astype(np.int64)))

    @cached_property
    def questions(self) -> list[str]:
        """Headings that are questions, from all over the generation, for a start page."""
        found: dict[str, str] = {}  # one of each document
        for chunk in self._spread(_SAMPLED):
            for name in (chunk.section.split(SEPARATOR)[-1], chunk.title):
                if name.endswith("?") and len(name) <= _LONGEST:
                    found.setdefault(chunk.document_url, without_number(name))
        questions = list(dict.fromkeys(found.values()))
        return questions[:: max(1, len(questions) // _OFFERED)][:_OFFERED]


def _check(request: SearchRequest) -> None:
    """Raise FieldError for a field that REST would refuse too."""
    check(request)
    try:
        request.query.encode()
    except UnicodeEncodeError:
        raise FieldError("query", "query contains half of a surrogate pair, which is not a character.") from None


def is_close(words: Sequence[Terms], hits: Sequence[Hit], close: float = CLOSE) -> bool:
    """Return whether one of the hits is close to a query, by its cosine and by how many of the query's words it has.

    `words` are `LexicalQuery.query_words`.
    """
    cosines = [hit.scores["dense"] for hit in hits]
    if max([cosine for cosine in cosines if cosine is not None], default=-1.0) >= close:
        return True
    for hit, cosine in zip(hits, cosines, strict=True):
        is_candidate = cosine is None or cosine >= _CLOSE_WITH_TERMS * close
        if is_candidate and coverage(words, hit) >= (_SOME_TERMS if cosine is None else _MOST_TERMS):
            return True
    return False


def coverage(words: Sequence[Terms], hit: Hit) -> float:
    """Return the share of the words of a query that a hit has in its text, title or headings."""
    if not words:
        return 0.0
    found = set(terms_in(f"{hit.title} {hit.section}", hit.language))
    terms = TERMS[rules_for(hit.language)]
    found.update(*(terms[hit.text[start:end]] for start, end in hit.highlights))
    return sum(not found.isdisjoint(forms) for forms in words) / len(words)


def without_number(name: str) -> str:
    """Return a heading without its number, "4.2. Vacuum", unless it is nothing else."""
    plain = " ".join(name.split())
    return _NUMBER.sub("", plain, count=1) or plain


def suggestions(typed: str, headings: Iterable[Heading], most: int) -> list[Suggestion]:
    """Return headings as suggestions, each text once, without what is typed already."""
    known = {fold(" ".join(typed.split()))}
    found = []
    for heading in headings:
        text = without_number(heading.text)
        if (key := fold(text)) not in known:
            known.add(key)
            found.append(Suggestion(text, "title" if heading.is_title else "heading"))
    return found[:most]
