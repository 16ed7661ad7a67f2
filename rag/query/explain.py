"""Why a hit is where it is: the numbers of which its score is made.

A step that does not concern a hit is null. `fused` is the sum of the contributions; then come `boilerplate` and
`boosts`, score + |score| × (factor − 1); then `rerank`, low + (high − low) × ((1 − weight) × search + weight × model);
and a score is no higher than `ceiling`.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from indexer.errors import counted


class Part(TypedDict):
    """The share of one search in the score of a hit."""

    score: Annotated[float | None, Meta(description="cosine, BM25 or MaxSim; null where this search did not find it")]
    rank: Annotated[int | None, Meta(description="place in what this search found, for tokens among all candidates")]
    scaled: Annotated[float, Meta(description="the score on the scale on which the parts are added")]
    weight: Annotated[float, Meta(description="those of all parts add up to 1")]
    contribution: Annotated[float, Meta(description="scaled × weight")]


class Boilerplate(TypedDict):
    """The effect of text that many pages share."""

    repeated: Annotated[float, Meta(description="share of the passage, 0 to 1")]
    factor: float
    score: Annotated[float, Meta(description="after this step")]


class BoostRule(TypedDict):
    """A rule of the setting `boost` that applies to a hit."""

    rule: str
    factor: float


class Boosted(TypedDict):
    """The effect of the setting `boost`."""

    rules: list[BoostRule]
    factor: Annotated[float, Meta(description="the factors of all rules, multiplied")]
    score: Annotated[float, Meta(description="after this step")]


class Reranked(TypedDict):
    """The effect of the cross-encoder."""

    logit: Annotated[float, Meta(description="of the model")]
    score: Annotated[float, Meta(description="the logit as hits show it")]
    rank_before: int
    search: Annotated[float, Meta(description="the score before, scaled to 0 to 1 among what was read")]
    model: Annotated[float, Meta(description="the logit, scaled likewise")]
    weight: Annotated[float, Meta(description="of the model")]
    low: Annotated[float, Meta(description="lowest score before")]
    high: Annotated[float, Meta(description="highest score before")]
    blend: Annotated[float, Meta(description="the score after this step")]


class Ceiling(TypedDict):
    """The highest score that a hit may have."""

    reason: Annotated[Literal["unread", "deeper"], Meta(description="not reranked, or found by a deeper search only")]
    score: float


class Match(TypedDict):
    """A word or phrase that was searched for, and that a hit has."""

    typed: str
    searched: str
    reason: Annotated[str | None, Meta(description="`correction` or `synonym`")]
    fields: Annotated[list[str], Meta(description="`title`, `section`, `body` or `url`")]


class Explanation(TypedDict):
    """Why a hit is where it is, step by step; a step that does not concern it is null."""

    rank: Annotated[int, Meta(description="among the candidates by score alone, before duplicates and limits")]
    candidates: Annotated[int, Meta(description="passages that were compared")]
    dense: Annotated[Part | None, Meta(description="by meaning")]
    lexical: Annotated[Part | None, Meta(description="by words")]
    tokens: Annotated[Part | None, Meta(description="by late interaction")]
    fused: Annotated[float, Meta(description="sum of the contributions")]
    boilerplate: Boilerplate | None
    boosts: Boosted | None
    rerank: Reranked | None
    ceiling: Ceiling | None
    folded: Annotated[int, Meta(description="passages with the same text, left out for this one")]
    left_out: Annotated[int, Meta(description="passages of its document that `per_document` left out")]
    matches: Annotated[list[Match], Meta(description="words and phrases of the query that it has")]


def in_words(why: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the steps in words, each with its name."""
    for name, part in zip(("Meaning", "Words", "Tokens"), (why["dense"], why["lexical"], why["tokens"]), strict=True):
        if part:
            digits = 1 if name == "Words" else 2
            found = "not found" if part["score"] is None else f"{part['score']:.{digits}f}"
            rank = f", rank {part['rank']}" if part["rank"] else ""
            yield name, f"{found}{rank}: {part['scaled']:.2f} × {part['weight']:.2f} = {part['contribution']:.3f}"
    if why["matches"]:
        yield "Matches", "; ".join(f"{match['searched']} in {', '.join(match['fields'])}" for match in why["matches"])
    yield "Sum", f"{why['fused']:.3f}"
    if low := why["boilerplate"]:
        yield "Boilerplate", f"{low['repeated']:.0%} repeated: × {low['factor']:.3f} gives {low['score']:.3f}"
    if boosts := why["boosts"]:
        rules = ", ".join(f"{rule['rule']} × {rule['factor']:.3f}" for rule in boosts["rules"])
        yield "Boosts", f"{rules}: gives {boosts['score']:.3f}"
    if read := why["rerank"]:
        yield "Cross-encoder", f"{read['score']:.2f}, rank {read['rank_before']} before: gives {read['blend']:.3f}"
    if most := why["ceiling"]:
        yield "Limit", f"{most['score']:.3f} at most: {'not reranked' if most['reason'] == 'unread' else 'found later'}"
    places = [f"{why['rank']} of {counted(why['candidates'], 'candidate')}"]
    places += [f"stands for {counted(why['folded'], 'duplicate')}"] * bool(why["folded"])
    places += [f"{why['left_out']} more of its document left out"] * bool(why["left_out"])
    yield "Place", "; ".join(places)
