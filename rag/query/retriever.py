"""The query path: text in, the k best passages out. Everything is loaded and warmed beforehand."""

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.errors import PilotlightError
from embedder.late_interaction import QueryTokens
from embedder.protocol import Embedder, Role
from indexer.filter import Filter
from indexer.generation.catalogue import document_id
from indexer.generation.generation import Generation
from indexer.generation.lexical.highlights import spans
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.generation.manifest import differing_fields
from indexer.stores.store import Searchable
from rag import deadline
from rag.errors import FingerprintMismatch
from rag.query.batcher import MAX_TEXTS, QueryBatcher, Vector
from rag.query.closeness import JUDGED, is_close
from rag.query.facets import Share, count_facets
from rag.query.fusion import Rows, Scores
from rag.query.headings import sample_headings
from rag.query.options import FURTHEST
from rag.query.ranking import Choice, Found, Ranking, choose, extended, fused, interacted, lowered, single
from rag.query.request import USUAL, Limits, SearchRequest
from rag.query.results import Answer, Hit
from rag.query.rules.boosts import Boosts
from rag.query.rules.synonyms_file import SynonymsFile
from rag.query.sentences import nearest_sentences

CANDIDATES = 100  # of each search, from which the hits are chosen
COUNTED = 200  # candidates whose documents are counted for facets
_WORD_SEARCHES = 4  # at the same time; each takes a core for as long as a query is embedded
_DUPLICATES_SHOWN = 10
MOST_TOKENS = 256  # of a query that are compared with those of passages: about 200 words, the first ones
_SLICE = 64  # passages whose tokens are compared before the deadline is asked


class _Search:
    """One search on its way: the vectors of its query, once there are some, and the seconds that each stage took."""

    def __init__(self, request: SearchRequest, words: LexicalQuery, embedded: Vector | QueryTokens | None) -> None:
        self.request = request
        self.words = words
        self.vector: Vector | None
        self.tokens: Vector | None  # of the query, float32 (tokens, width)
        self.vector, self.tokens = embedded if isinstance(embedded, QueryTokens) else (embedded, None)
        self.took = dict.fromkeys(("embed", "dense", "lexical", "fuse", "sentences", "total"), 0.0)
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


class _Ranked(NamedTuple):
    """Candidates, and which of them are chosen."""

    ranking: Ranking
    documents: npt.NDArray[np.integer]  # of the candidates
    choice: Choice
    has_more: bool  # there is another page


class Retriever:
    """One open generation and the embedder that made it. Safe to share between threads."""

    def __init__(
        self,
        generation: Searchable,
        embedder: Embedder,
        *,
        batcher: QueryBatcher | None = None,
        limits: Limits = USUAL,
    ) -> None:
        """Retrievers that share an embedder should share a batcher.

        Raises:
            FingerprintMismatch: another embedder built the generation.
            SynonymsError, SettingsError: the rules of `limits` cannot be read.
        """
        check_fingerprint(generation, embedder.fingerprint)
        self.generation = generation
        self.embedder = embedder
        self.limits = limits
        self._batcher = batcher or QueryBatcher(embedder)
        self._boosts = Boosts.parse(limits.boost)
        self._synonyms = SynonymsFile(limits.synonyms)
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

    def search(self, request: SearchRequest, embedded: Vector | QueryTokens | None = None) -> Answer:
        """Find the passages that answer a query best.

        Args:
            request: what is searched for, and how; its collection is of no concern here.
            embedded: the query's vector, float32 (dim,), or that and its tokens, where the caller has them already.

        Raises:
            QueryError: the query cannot be answered as asked.
            FilterError: its filter cannot be read.
        """
        request.check(self.limits)
        search = _Search(request, self.generation.read_query(request.query, self._synonyms.current()), embedded)
        return self._present(search, self._rank(search, self._candidates(search)))

    def _candidates(self, search: _Search) -> Iterator[_Candidates]:
        """Yield what is found by meaning and by words: each time four times as much, until that is all."""
        request, only = search.request, search.request.only
        allowed = self.generation.select(only) if only else None  # once: the search by words finds it remembered
        within = self.generation.within(search.words, allowed) if search.words.is_bounded else allowed
        depth = max(CANDIDATES, 2 * request.k)  # whatever the offset, for all pages to be of one ranking
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

    def _rank(self, search: _Search, candidates: Iterator[_Candidates]) -> _Ranked:
        """Choose the hits up to the end of the page, and one more, which says that there is another page.

        Duplicates and passages of one document may take the places of others; then it is looked for these further down.
        """
        request, ranking = search.request, None
        per_document = self.limits.per_document if request.per_document is None else request.per_document
        for found in candidates:
            began = time.perf_counter()
            ranking = extended(ranking, self._scored(search, found))
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
                return _Ranked(ranking, facts["document"], choice, has_more and search.stop <= FURTHEST)
        raise AssertionError("the last candidates are all there are")

    def _scored(self, search: _Search, found: _Candidates) -> Ranking:
        vector = search.vector
        maxsim = partial(self._maxsim, search) if self.generation.tokens is not None else None
        if found.dense and found.lexical and vector is not None:
            cosines = lambda rows: self.generation.vectors(rows) @ vector  # noqa: E731
            ranking = fused(found.dense, found.lexical, cosines, maxsim=maxsim)
        elif found.dense and maxsim is not None:
            ranking = interacted(found.dense, maxsim)
        else:
            ranking = single(next(filter(None, found[:2])), is_dense=found.dense is not None)
        return self._boosts.apply(lowered(ranking, self.generation.repetition(ranking.rows)), self.generation)

    def _present(self, search: _Search, ranked: _Ranked) -> Answer:
        """Fetch the hits of the page, and what is told of them and of the candidates."""
        request = search.request
        judged, hits = self._hits(search, ranked)
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
            also_searched=[each._asdict() | {"searched": list(each.searched)} for each in search.words.also],
            required=[str(clause) for clause in search.words.required],
            excluded=[str(clause) for clause in search.words.excluded],
            close=is_close(search.words.asked, judged, self.limits.close),
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

    def _maxsim(self, search: _Search, rows: Rows) -> Scores:
        """Score passages by their tokens. Raises DeadlinePassed if it passes meanwhile."""
        kept, query = self.generation.tokens, search.tokens
        scores = np.zeros(len(rows), dtype=np.float32)
        if kept is not None and query is not None:
            for start in range(0, len(rows), _SLICE):
                deadline.check()
                some = slice(start, start + _SLICE)
                scores[some] = self.embedder.maxsim(query[:MOST_TOKENS], kept.signs, *kept.places(rows[some]))
        return scores

    def _with_sentences(self, search: _Search, hits: list[Hit]) -> list[Hit]:
        """The hits, the nearest sentence marked in those that have no word of the query."""
        unmarked = [hit.text for hit in hits if not hit.highlights]
        if not unmarked:
            return hits
        vector = self._vector_of(search)
        began = time.perf_counter()
        spans = iter(nearest_sentences(vector, unmarked, self.embed))
        hits = [hit if hit.highlights else hit._replace(sentence=next(spans)) for hit in hits]
        search.spent("sentences", began)
        return hits

    def _count(self, rows: Rows) -> dict[str, list[Share]]:
        numbers = np.unique(self.generation.rows_of(rows)["document"])
        return count_facets(self.generation.facts(numbers.tolist()))

    def _search_words(self, query: LexicalQuery, k: int, only: Filter | None) -> tuple[Found, float]:
        """Search by words; also return how many seconds it took."""
        start = time.perf_counter()
        return self.generation.search_words(query, k, only), time.perf_counter() - start

    def _hits(self, search: _Search, ranked: _Ranked) -> tuple[list[Hit], list[Hit]]:
        """Fetch, at once, the best of the chosen passages and those on the page.

        The best, which say whether anything is close, come as bare as that takes where they are on an earlier page.
        """
        ranking, choice = ranked.ranking, ranked.choice
        start, expands = search.request.offset, (search.request.expand or self.limits.expand) == "section"
        before = min(start, JUDGED)
        places = [place for place in (*range(before), *range(start, search.stop)) if place < len(choice.indices)]
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
        tokens = none if ranking.tokens is None else ranking.tokens[shown].tolist()
        scores = ranking.scores[shown].tolist()
        documents = ranked.documents[shown].tolist()
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
                    highlights=spans(search.words.marked, chunk.text, chunk.language),
                    score=scores[place],
                    scores={"dense": dense[place], "lexical": lexical[place] or None, "tokens": tokens[place]},
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
