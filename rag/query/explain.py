"""Why a hit is where it is: the numbers of which its score is made.

`fused` is the sum of scaled × weight of the parts. Each step then changes the score, the last to that of the hit:
`boosts` by score + |score| × (factor − 1), `rerank` to the mean of the search and the cross-encoder,
and `limit` to that of the best hit that was read, or found, before.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from msgspec import Meta

from indexer.errors import counted

if TYPE_CHECKING:
    from rag.query.ranking import Choice, Ranking

_SAME = 1e-6  # between scores


class Part(TypedDict):
    """The share of one search in the score of a hit."""

    score: Annotated[float | None, Meta(description="cosine, BM25 or MaxSim; null where no word matches")]
    rank: Annotated[int | None, Meta(description="by this score, among the candidates")]
    scaled: Annotated[float, Meta(description="the score on the scale on which the parts are added")]
    weight: Annotated[float, Meta(description="those of all parts add up to 1")]


class Step(TypedDict):
    """A step that changed the score of a hit."""

    name: Literal["boosts", "rerank", "limit"]
    why: Annotated[str, Meta(description="in words")]
    score: Annotated[float, Meta(description="after this step")]


class Explanation(TypedDict):
    """Why a hit is where it is, step by step."""

    rank: Annotated[int, Meta(description="among the candidates by score alone, before duplicates and limits")]
    candidates: Annotated[int, Meta(description="passages that were compared")]
    dense: Annotated[Part | None, Meta(description="by meaning")]
    lexical: Annotated[Part | None, Meta(description="by words")]
    tokens: Annotated[Part | None, Meta(description="by late interaction")]
    fused: Annotated[float, Meta(description="sum of scaled × weight of the parts")]
    steps: Annotated[list[Step], Meta(description="what changed the score afterwards, in order")]
    folded: Annotated[int, Meta(description="passages with the same text, left out for this one")]
    left_out: Annotated[int, Meta(description="passages of its document that `per_document` left out")]


def explain(ranking: "Ranking", choice: "Choice", index: int, boosts: Sequence[str]) -> Explanation:
    """Explain the candidate at an index of a ranking that was made with `explain`; `boosts` are rules in words."""
    row = {name: float(values[index]) for name, values in ranking.columns.items() if not math.isnan(values[index])}
    parts: dict[str, Part | None] = dict.fromkeys(("dense", "lexical", "tokens"))
    for name in parts:
        if (weight := row.get(f"{name}_weight")) is not None:
            is_found = name != "lexical" or row[name] > 0
            rank = int((ranking.columns[name] > row[name]).sum()) + 1 if is_found else None
            score = row[name] if is_found else None
            parts[name] = Part(score=score, rank=rank, scaled=row[f"{name}_scaled"], weight=weight)
    steps: list[Step] = []
    if boosts:
        steps.append(Step(name="boosts", why=", ".join(boosts), score=row["boosted"]))
    score, before = float(ranking.scores[index]), steps[-1]["score"] if steps else row["fused"]
    if "rerank" in row:
        why = f"cross-encoder {row['rerank']:.2f}, rank {row['rank_before']:.0f} before"
        steps.append(Step(name="rerank", why=why, score=score))
    elif score < before - _SAME:
        is_deeper = ranking.first is not None and index >= ranking.first
        steps.append(Step(name="limit", why="found later" if is_deeper else "not reranked", score=score))
    return Explanation(
        rank=index + 1,
        candidates=len(ranking.rows),
        dense=parts["dense"],
        lexical=parts["lexical"],
        tokens=parts["tokens"],
        fused=row["fused"],
        steps=steps,
        folded=len(choice.folded.get(index, ())),
        left_out=choice.left_out.get(int(choice.documents[index]), 0),
    )


def in_words(why: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the parts and steps in words, each with its name."""
    for name, part in (("Meaning", why["dense"]), ("Words", why["lexical"]), ("Tokens", why["tokens"])):
        if part:
            found = "not found" if part["score"] is None else f"{part['score']:.2f}, rank {part['rank']}"
            scaled, weight = part["scaled"], part["weight"]
            yield name, f"{found}: {scaled:.2f} × {weight:.2f} = {scaled * weight:.3f}"
    yield "Sum", f"{why['fused']:.3f}"
    for step in why["steps"]:
        yield step["name"].capitalize(), f"{step['why']}: gives {step['score']:.3f}"
    places = [f"{why['rank']} of {counted(why['candidates'], 'candidate')}"]
    places += [f"stands for {counted(why['folded'], 'duplicate')}"] * bool(why["folded"])
    places += [f"{why['left_out']} more of its document left out"] * bool(why["left_out"])
    yield "Place", "; ".join(places)
