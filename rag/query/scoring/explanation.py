"""Why a hit is where it is: the numbers of which its score is made, JSON-ready, and the same in words.

`Explanation` says how they make the score. These are plain dictionaries, as clients get them; the schemas and the
reference of the REST API are made of their fields and what stands beside these.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from indexer.errors import counted

After = Annotated[float, Meta(description="the score after this step")]


class Part(TypedDict):
    """What one search gives a hit, and what that counts for."""

    score: Annotated[
        float | None,
        Meta(
            description="cosine, BM25 or MaxSim; null without a match, or where more hits than were read match better"
        ),
    ]
    rank: Annotated[
        int | None,
        Meta(description="place in what this search found, for tokens among all candidates; null where it is not"),
    ]
    scaled: Annotated[
        float, Meta(description="the score on the scale on which the parts are added; itself where there is only one")
    ]
    weight: Annotated[float, Meta(description="share of this part; those of all parts add up to 1")]
    contribution: Annotated[float, Meta(description="scaled × weight")]


class Boilerplate(TypedDict):
    """How text that many pages share lowers a passage."""

    repeated: Annotated[float, Meta(description="share of the passage in such lines, 0 to 1")]
    factor: float
    score: After


class BoostRule(TypedDict):
    """A rule of the setting `boost` that applies to a hit."""

    rule: Annotated[str, Meta(description="as the operator wrote it")]
    factor: Annotated[float, Meta(description="for `age`, what the rule comes to at the age of the document")]


class Boosted(TypedDict):
    """The rules of the setting `boost` that apply to a hit."""

    rules: list[BoostRule]
    factor: Annotated[float, Meta(description="the factors of all rules, multiplied")]
    score: After


class Reranked(TypedDict):
    """What the cross-encoder changed: low + (high − low) × ((1 − weight) × search + weight × model)."""

    logit: Annotated[float, Meta(description="what the model gives")]
    score: Annotated[float, Meta(description="what `scores` of the hit shows of that")]
    rank_before: Annotated[int, Meta(description="place among the candidates before")]
    search: Annotated[float, Meta(description="the score before, scaled to 0 to 1 among the passages that were read")]
    model: Annotated[float, Meta(description="the logit, scaled likewise")]
    weight: Annotated[float, Meta(description="of the model")]
    low: Annotated[float, Meta(description="lowest score before, of the passages that were read")]
    high: Annotated[float, Meta(description="highest of these")]
    blend: After


class Ceiling(TypedDict):
    """A score that a hit may not exceed, because it came after others were ranked."""

    reason: Annotated[
        Literal["unread", "deeper"],
        Meta(description="the cross-encoder did not read it; or only a deeper search found it"),
    ]
    score: Annotated[float, Meta(description="of the last one before")]


class Match(TypedDict):
    """A word or phrase that was searched for, and that a hit has."""

    typed: Annotated[str, Meta(description="as it stands in the query")]
    searched: Annotated[str, Meta(description="the same, unless there is a reason")]
    reason: Annotated[str | None, Meta(description="`correction` or `synonym`")]
    fields: Annotated[list[str], Meta(description="`title`, `section`, `body` or `url`")]


class Explanation(TypedDict):
    """Why a hit is where it is. Its score is made in this order; a step that does not concern it is null.

    1. `fused` is the sum of the contributions of `dense`, `lexical` and `tokens`.
    2. `boilerplate`, then `boosts`: score + |score| × (factor − 1), which is score × factor unless it is below 0.
    3. `rerank`.
    4. `ceiling`: the score of the hit is this one, if that is lower.
    """

    rank: Annotated[
        int, Meta(description="place among the candidates by score alone; duplicates and limits come after that")
    ]
    candidates: Annotated[int, Meta(description="passages that were compared")]
    dense: Annotated[Part | None, Meta(description="by meaning")]
    lexical: Annotated[Part | None, Meta(description="by words")]
    tokens: Annotated[Part | None, Meta(description="by late interaction")]
    fused: Annotated[float, Meta(description="sum of the contributions")]
    boilerplate: Boilerplate | None
    boosts: Boosted | None
    rerank: Reranked | None
    ceiling: Ceiling | None
    rank_before_diversity: Annotated[
        int | None, Meta(description="place of the hit without `diversity`; null unless asked for")
    ]
    folded: Annotated[int, Meta(description="passages that say the same, left out for this one")]
    left_out: Annotated[int, Meta(description="passages of its document that `per_document` left out")]
    matches: Annotated[
        list[Match], Meta(description="words and phrases of the query that it has; none in mode `dense`")
    ]


_PARTS = (("dense", "Meaning", 2), ("lexical", "Words", 1), ("tokens", "Tokens", 2))


def in_words(why: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the steps in words, each with its name."""
    parts: dict[str, Part | None] = {"dense": why["dense"], "lexical": why["lexical"], "tokens": why["tokens"]}
    for key, name, places in _PARTS:
        if part := parts[key]:
            yield name, _part(part, places)
    if why["matches"]:
        yield "Matches", "; ".join(map(_match, why["matches"]))
    yield "Sum", f"{why['fused']:.3f}"
    if low := why["boilerplate"]:
        yield "Boilerplate", f"{low['repeated']:.0%} repeated: × {low['factor']:.3f} gives {low['score']:.3f}"
    if boosted := why["boosts"]:
        rules = ", ".join(f"{one['rule']} × {one['factor']:.3f}" for one in boosted["rules"])
        yield "Boosts", f"{rules}: gives {boosted['score']:.3f}"
    if read := why["rerank"]:
        yield (
            "Cross-encoder",
            f"{read['score']:.2f}, rank {read['rank_before']} before: {read['search']:.2f} × {1 - read['weight']:.2f} "
            f"+ {read['model']:.2f} × {read['weight']:.2f}, from {read['low']:.3f} to {read['high']:.3f}, "
            f"gives {read['blend']:.3f}",
        )
    if most := why["ceiling"]:
        reason = "the cross-encoder did not read it" if most["reason"] == "unread" else "found by a deeper search"
        yield "Limit", f"{most['score']:.3f} at most: {reason}"
    yield "Place", "; ".join(_places(why))


def _part(part: Part, places: int) -> str:
    found = "not found" if part["score"] is None else f"{part['score']:.{places}f}"
    rank = f", rank {part['rank']}" if part["rank"] else ", not among the best" if part["score"] is not None else ""
    return f"{found}{rank}: {part['scaled']:.2f} × {part['weight']:.2f} = {part['contribution']:.3f}"


def _match(match: Match) -> str:
    because = f" for {match['typed']} ({match['reason']})" if match["reason"] else ""
    return f"{match['searched']}{because} in {', '.join(match['fields'])}"


def _places(why: Explanation) -> Iterator[str]:
    yield f"{why['rank']} of {counted(why['candidates'], 'candidate')}"
    if why["rank_before_diversity"]:
        yield f"{why['rank_before_diversity']} without diversity"
    if why["folded"]:
        yield f"stands for {counted(why['folded'], 'duplicate')}"
    if why["left_out"]:
        yield f"{why['left_out']} more of its document left out"
