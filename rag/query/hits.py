"""Hits of a page, fetched from a generation: the chosen candidates with their texts, in order."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from indexer.generation.catalogue import document_id
from indexer.generation.lexical.highlights import matching, sought_by, spans
from indexer.generation.lexical.lexical_query import LexicalQuery
from indexer.stores.store import Searchable
from rag.query.closeness import JUDGED
from rag.query.request import SearchRequest
from rag.query.results import Hit
from rag.query.scoring.boosts import Boosts
from rag.query.scoring.explanation import Match
from rag.query.scoring.fusion import Scores
from rag.query.scoring.ranking import Choice, Ranking, choose
from rag.query.scoring.trace import Trace

_DUPLICATES_SHOWN = 10


class Ranked(NamedTuple):
    """Candidates, and which of them are chosen."""

    ranking: Ranking
    facts: npt.NDArray[np.void]  # document and signature of the candidates
    choice: Choice
    per_document: int  # most hits of one document; 0 for any number
    has_more: bool  # there is another page


class Page(NamedTuple):
    """Which of the chosen are on a page, by place from 0, and whether with their sections."""

    start: int
    stop: int
    expands: bool


def fetch_hits(generation: Searchable, ranked: Ranked, page: Page, words: LexicalQuery) -> tuple[list[Hit], list[Hit]]:
    """Fetch, at once, the best of the chosen passages and those on the page.

    The best, which say whether anything is close, come as bare as that takes where they are on an earlier page.
    The terms of `words` are highlighted.
    """
    ranking, choice = ranked.ranking, ranked.choice
    before = min(page.start, JUDGED)
    places = [place for place in (*range(before), *range(page.start, page.stop)) if place < len(choice.indices)]
    shown = choice.indices[places].tolist()
    folded = [
        choice.folded.get(index, [])[:_DUPLICATES_SHOWN] if place >= page.start else []
        for place, index in zip(places, shown, strict=True)
    ]
    also = [index for group in folded for index in group]
    chunks = generation.chunks(ranking.rows[shown + also])
    sections = [
        generation.section(row) if page.expands and place >= page.start else None
        for place, row in zip(places, ranking.rows[shown].tolist(), strict=True)
    ]
    addresses = iter([chunk.url for chunk in chunks[len(shown) :]])
    dense, lexical = _listed(ranking.dense, shown), _listed(ranking.lexical, shown)
    tokens, rerank = _listed(ranking.tokens, shown), _listed(ranking.rerank, shown)
    scores = ranking.scores[shown].tolist()
    documents = ranked.facts["document"][shown].tolist()
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
                highlights=spans(words.marked_in(chunk.language), chunk.text, chunk.language),
                score=scores[place],
                scores={
                    "dense": dense[place],
                    "lexical": lexical[place] or None,
                    "tokens": tokens[place],
                    "rerank": rerank[place],
                },
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


def without_guesses(hits: Sequence[Hit], words: LexicalQuery) -> list[Hit]:
    """Return hits in which nothing is highlighted that was only guessed, by correcting the query."""
    return [
        replace(hit, highlights=spans(words.marked_in(hit.language, guesses=False), hit.text, hit.language))
        for hit in hits
    ]


def explained(
    hits: list[Hit],
    ranked: Ranked,
    trace: Trace,
    words: LexicalQuery,
    request: SearchRequest,
    generation: Searchable,
    boosts: Boosts,
) -> list[Hit]:
    """Add their explanations to the hits of a page."""
    ranking, choice = ranked.ranking, ranked.choice
    shown = choice.indices[request.offset : request.offset + len(hits)].tolist()
    documents = ranked.facts["document"][shown].tolist()
    whys = trace.explain(ranking, choice, shown, documents, generation, boosts)
    if request.diversity:
        plain = choose(ranking, ranked.facts, generation.vectors, k=len(ranking.rows), per_document=ranked.per_document)
        places = {index: place for place, index in enumerate(plain.indices.tolist(), 1)}
        for index, why in zip(shown, whys, strict=True):
            why["rank_before_diversity"] = places[index]
    if request.mode != "dense":
        sought = sought_by(request.query, words, generation.manifest.languages)
        for hit, why in zip(hits, whys, strict=True):
            texts = {"title": hit.title, "section": hit.section, "body": hit.text, "url": hit.url}
            why["matches"] = [
                Match(typed=one.typed, searched=one.searched, reason=one.reason, fields=fields)
                for one, fields in matching(sought, texts, hit.language)
            ]
    return [replace(hit, explanation=why) for hit, why in zip(hits, whys, strict=True)]


def _listed(scores: Scores | None, shown: list[int]) -> list[float | None]:
    """Return the scores of what is shown; None where there is none, which arrays have as NaN."""
    if scores is None:
        return [None] * len(shown)
    return [None if math.isnan(score) else score for score in scores[shown].tolist()]
