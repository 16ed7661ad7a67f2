"""The hits of a page: the texts of the chosen candidates, with what a reader must know of them."""

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from indexer.generation.documents import document_id
from indexer.generation.lexical.analysis import rules_for, terms_in, terms_of_word
from indexer.generation.lexical.highlights import matching, sought_by, spans
from indexer.generation.lexical.lexical_query import LexicalQuery, Terms
from indexer.rowset import RowFacts
from indexer.stores.store import Searchable
from rag.query.explain import Boilerplate, Boosted, BoostRule, Ceiling, Explanation, Match, Part, Reranked
from rag.query.ranking import Choice, Ranking
from rag.query.request import BOILERPLATE, CLOSE, SearchRequest
from rag.query.results import Hit, Span
from rag.query.rules import Boosts

Vectors = npt.NDArray[np.float32]

_DUPLICATES_SHOWN = 10  # of a hit
_PARTS = ("dense", "lexical", "tokens", "rerank")  # of `Hit.scores`
_JUDGED = 10  # of the best passages, which say whether anything is close
_CLOSE_WITH_TERMS = 0.8  # of the cosine `close`, where the passage has most words of the query
_MOST_TERMS = 0.6  # of the words of the query
_SOME_TERMS = 0.34  # of the words, where there is no cosine: the search was by words alone
_MOST_SENTENCES = 12  # of a passage
_SHORTEST = 12  # characters of a sentence; less is a label or a number
# An end of a line, or a full stop with what closes around it; scripts without spaces need none after it. A row of full
# stops, as tables of contents have, is looked at once.
_END = re.compile(r"""\n+|(?<![.!?…])[.!?…]++["'”’»)\]]*+(?=\s)|[。！？｡]+[」』”）]*""")


class Ranked(NamedTuple):
    """Candidates, and which of them are chosen."""

    ranking: Ranking
    facts: RowFacts  # of the candidates
    choice: Choice
    has_more: bool  # there is another page


def fetch_hits(
    generation: Searchable, ranked: Ranked, request: SearchRequest, terms: LexicalQuery
) -> tuple[list[Hit], list[Hit]]:
    """Fetch, in one call, the best of the chosen passages and those on the page of a request.

    The best ones say whether anything is close. The words of the query are highlighted.
    """
    ranking, choice = ranked.ranking, ranked.choice
    before, stop = min(request.offset, _JUDGED), request.offset + request.k
    chosen = choice.indices.tolist()
    places = [*range(min(before, len(chosen))), *range(request.offset, min(stop, len(chosen)))]
    indices = [chosen[place] for place in places]
    folded = [
        choice.folded.get(index, ())[:_DUPLICATES_SHOWN] if place >= request.offset else ()
        for index, place in zip(indices, places, strict=True)
    ]
    chunks = generation.chunks(ranking.rows[indices + [index for group in folded for index in group]])
    rows = ranking.rows[indices].tolist()
    urls = iter([chunk.url for chunk in chunks[len(indices) :]])
    documents, scores = ranked.facts.documents[indices].tolist(), ranking.scores[indices].tolist()
    nothing = [math.nan] * len(indices)
    parts = {name: ranking.columns[name][indices].tolist() if name in ranking.columns else nothing for name in _PARTS}
    marked = {language: terms.marked_in(language) for language in {chunk.language for chunk in chunks}}
    hits = []
    for number, (chunk, place) in enumerate(zip(chunks, places, strict=False)):  # the other chunks are duplicates
        of_part = {name: None if math.isnan(values[number]) else values[number] for name, values in parts.items()}
        of_part["lexical"] = of_part["lexical"] or None
        expands = request.expand == "section" and place >= request.offset
        hits.append(
            Hit(
                rank=place + 1,
                id=chunk.id,
                url=chunk.url,
                title=chunk.title,
                section=chunk.section,
                text=chunk.text,
                highlights=spans(marked[chunk.language], chunk.text, chunk.language),
                score=scores[number],
                scores=of_part,
                language=chunk.language,
                date=chunk.date,
                content_type=chunk.content_type,
                metadata=chunk.metadata,
                duplicates=[next(urls) for _ in folded[number]] if folded[number] else [],
                section_text=generation.section(rows[number]) if expands else None,
                document=document_id(chunk.document_url),
                more=choice.left_out.get(documents[number], 0),
            )
        )
    return hits[:_JUDGED], hits[before:]


def is_close(words: Sequence[Terms], hits: Sequence[Hit], close: float = CLOSE) -> bool:
    """Return whether one of the hits is close to a query, by its cosine and by how many of the query's words it has.

    `words` are `LexicalQuery.asked`.
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
    rules = rules_for(hit.language)
    found.update(*(terms_of_word(hit.text[start:end], rules) for start, end in hit.highlights))
    return sum(not found.isdisjoint(forms) for forms in words) / len(words)


def without_guesses(hits: Sequence[Hit], terms: LexicalQuery) -> list[Hit]:
    """Return hits in which no word is highlighted that only a correction of the query has."""
    return [
        replace(hit, highlights=spans(terms.marked_in(hit.language, guesses=False), hit.text, hit.language))
        for hit in hits
    ]


def explain_hits(
    hits: Sequence[Hit],
    ranked: Ranked,
    request: SearchRequest,
    terms: LexicalQuery,
    generation: Searchable,
    boosts: Boosts | None,
) -> list[Hit]:
    """Return the hits of a page with their explanations."""
    indices = ranked.choice.indices[request.offset : request.offset + len(hits)]
    rules = list(boosts.by_rule(generation, ranked.ranking.rows[indices])) if boosts and len(hits) else []
    sought = [] if request.mode == "dense" else sought_by(request.query, terms, generation.manifest.languages)
    explained = []
    for place, (index, hit) in enumerate(zip(indices.tolist(), hits, strict=True)):
        texts = {"title": hit.title, "section": hit.section, "body": hit.text, "url": hit.url}
        matches = [
            Match(typed=one.typed, searched=one.searched, reason=one.reason, fields=fields)
            for one, fields in matching(sought, texts, hit.language)
        ]
        of_hit = [BoostRule(rule=rule, factor=float(of[place])) for rule, of in rules if of[place] != 1]
        explained.append(replace(hit, explanation=explain(ranked, index, of_hit, matches)))
    return explained


def explain(ranked: Ranked, index: int, rules: list[BoostRule], matches: list[Match]) -> Explanation:
    """Explain the candidate at an index of a ranking that was made with `explain`."""
    ranking, choice = ranked.ranking, ranked.choice
    row = {name: float(values[index]) for name, values in ranking.columns.items() if not math.isnan(values[index])}
    parts: dict[str, Part | None] = dict.fromkeys(("dense", "lexical", "tokens"))
    for name in parts:
        if (weight := row.get(f"{name}_weight")) is not None:
            rank, scaled = int(row.get(f"{name}_rank", 0)) or None, row[f"{name}_scaled"]
            score = None if name == "lexical" and rank is None else row[name]
            parts[name] = Part(score=score, rank=rank, scaled=scaled, weight=weight, contribution=scaled * weight)
    lowered = boosted = reranked = ceiling = None
    if row.get("repeated", 0) > 0:
        factor = 1 - BOILERPLATE * row["repeated"]
        lowered = Boilerplate(repeated=row["repeated"], factor=factor, score=row["lowered"])
    if rules:
        boosted = Boosted(rules=rules, factor=math.prod(rule["factor"] for rule in rules), score=row["boosted"])
    if "rerank_logit" in row:
        numbers = {name: row[f"rerank_{name}"] for name in Reranked.__annotations__}
        reranked = cast(Reranked, numbers | {"rank_before": int(numbers["rank_before"])})
    if "ceiling" in row:
        ceiling = Ceiling(reason="deeper" if row.get("deeper") else "unread", score=row["ceiling"])
    return Explanation(
        rank=index + 1,
        candidates=len(ranking.rows),
        dense=parts["dense"],
        lexical=parts["lexical"],
        tokens=parts["tokens"],
        fused=row["fused"],
        boilerplate=lowered,
        boosts=boosted,
        rerank=reranked,
        ceiling=ceiling,
        folded=len(choice.folded.get(index, ())),
        left_out=choice.left_out.get(int(ranked.facts.documents[index]), 0),
        matches=matches,
    )


def mark_sentences(hits: list[Hit], query: Vectors, encode: Callable[[list[str]], Vectors]) -> list[Hit]:
    """Return the hits; those without a word of a query get the sentence nearest to it, if there are two to choose from.

    Args:
        hits: of a page.
        query: unit vector, float32 (dim,).
        encode: embeds documents as unit vectors, float32 (n, dim); called once for all passages, or not at all.
    """
    candidates: list[list[Span]] = []
    for hit in hits:
        found = [] if hit.highlights else split_sentences(hit.text)[:_MOST_SENTENCES]
        candidates.append(found if len(found) > 1 else [])
    sentences = [hit.text[start:end] for hit, found in zip(hits, candidates, strict=True) for start, end in found]
    likeness = iter((encode(sentences) @ query).tolist() if sentences else ())
    return [
        replace(hit, sentence=max(found, key=lambda _: next(likeness))) if found else hit
        for hit, found in zip(hits, candidates, strict=True)
    ]


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences and lines of a text, in order, without white space around them."""
    found: list[Span] = []
    start = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        piece = text[start:end]
        left = start + len(piece) - len(piece.lstrip())
        right = start + len(piece.rstrip())
        if right - left >= _SHORTEST:
            found.append((left, right))
        start = end
    return found
