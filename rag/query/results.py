"""Results of a search; `Answer.as_dict` is the body of the REST answer and of `pilotlight search --json`."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.late_interaction import QueryTokens as QueryTokens  # a query as `search` takes it ready-made
from indexer.number_format import counted
from indexer.read.formats import is_source_code as is_source_code  # whose hits are shown as code
from indexer.records import SEPARATOR
from rag.query.facets import Share
from rag.query.scoring.explanation import Explanation, in_words


class Hit(NamedTuple):
    """One passage that answers the query; a tuple, as ten of these are made for every query."""

    rank: int  # from 1
    id: str  # chunk id
    url: str  # with the section's anchor
    title: str
    section: str  # heading path joined with " › "
    text: str
    highlights: list[tuple[int, int]]  # character spans [start, end) in text that match query words
    score: float
    scores: dict[str, float | None]  # dense (cosine), lexical (BM25), tokens (MaxSim), rerank; None where there is none
    language: str | None  # primary subtag, such as en
    date: str | None  # YYYY-MM-DD
    content_type: str
    metadata: dict[str, Any]  # the user's own
    duplicates: list[str]  # urls of passages that say the same, left out for this one
    section_text: str | None = None  # the passage with those around it in its section; None where not asked for
    document: str = ""  # id of the document, the same in every generation
    sentence: tuple[int, int] | None = None  # span in text of what is nearest in meaning, where no word matches
    more: int = 0  # passages of the same document that were compared with these and left out by per_document
    explanation: Explanation | None = None  # None where it was not asked for

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form, which shares its values with the hit; without an explanation where there is none."""
        fields = self._asdict()
        if self.explanation is None:
            del fields["explanation"]
        return fields


class Suggestion(NamedTuple):
    """A query that somebody who types may be about to ask."""

    text: str
    kind: Literal["title", "heading"]


class Relevance(NamedTuple):
    """How well texts answer a query, as a cross-encoder says."""

    logits: npt.NDArray[np.float32]  # (n,), the higher the better
    tokens: int  # that it has read

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """The logits after a sigmoid, from 0 to 1, (n,)."""
        return np.asarray(1 / (1 + np.exp(-self.logits.astype(np.float64))))


class Reranked(NamedTuple):
    """How many candidates a cross-encoder was to read, and did."""

    candidates: int
    scored: int  # fewer where time was short: the best of them


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits for one query, best first, with what each stage took."""

    query: str
    hits: list[Hit]
    took_ms: dict[str, float]  # embed, dense, lexical, fuse, rerank, sentences, total
    generation: str
    next: int | None = None  # offset of the hits after these; None where there are no more
    facets: dict[str, list[Share]] | None = None  # see `facets.count_facets`; None where not asked for
    # words and phrases that were searched for as well: what was typed, what was searched, and the reason (correction or
    # synonym)
    also_searched: list[dict[str, Any]] = field(default_factory=list)
    required: list[str] = field(default_factory=list)  # phrases and fields that every passage found has
    excluded: list[str] = field(default_factory=list)  # and what none has
    close: bool = True  # whether any hit is close to the query; if not, these are only the nearest
    reranked: Reranked | None = None  # None where it was not asked for
    did_you_mean: str | None = None  # the query with words of the index for those that it does not have
    search_id: str | None = None  # what feedback names it by; None where what people ask is not kept

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready form, which shares its values with the answer; JSON turns spans into two-element lists."""
        return {
            "query": self.query,
            "hits": [hit.as_dict() for hit in self.hits],
            "next": self.next,
            "facets": self.facets,
            "also_searched": self.also_searched,
            "did_you_mean": self.did_you_mean,
            "required": self.required,
            "excluded": self.excluded,
            "close": self.close,
            "reranked": self.reranked._asdict() if self.reranked else None,
            "took_ms": self.took_ms,
            "generation": self.generation,
            **({"search_id": self.search_id} if self.search_id else {}),
        }


def section_within(title: str, section: str) -> str:
    """Return a heading path without the page's own title at its start, as it is shown beside that title."""
    starts = f"{section}{SEPARATOR}".startswith(f"{title}{SEPARATOR}")
    return section[len(title) :].removeprefix(SEPARATOR) if starts else section


def headed(title: str, section: str, text: str) -> str:
    """Return a passage below its page's title and heading path, for a model that reads it by itself."""
    heading = SEPARATOR.join(filter(None, [title, section_within(title, section)]))
    return f"{heading}\n\n{text}" if heading else text


def as_text(answer: dict[str, Any]) -> str:
    """Lay out the JSON-ready form of an answer for a terminal."""
    lines: list[str] = []
    for hit in answer["hits"]:
        heading = SEPARATOR.join(filter(None, [hit["title"], section_within(hit["title"], hit["section"])]))
        passage = " ".join(hit["text"].split())
        lines += [f"{hit['rank']:>2}. {heading}  ({hit['score']:.3f})", f"    {hit['url']}"]
        lines += [f"    {passage[:200]}{'…' if len(passage) > 200 else ''}"]
        if why := hit.get("explanation"):
            lines += [f"      {name.lower()}: {text}" for name, text in in_words(why)]
        lines.append("")
    if lines and not answer["close"]:
        lines = ["nothing close; nearest:", "", *lines]
    if also := answer.get("also_searched"):
        told = "; ".join(f"{', '.join(one['searched'])} ({one['typed']})" for one in also)
        lines = [f"also searched for: {told}", "", *lines]
    if meant := answer.get("did_you_mean"):
        lines = [f"did you mean: {meant}", "", *lines]
    for name, what in (("required", "only with"), ("excluded", "without")):
        if bounds := answer.get(name):
            lines = [f"{what}: {', '.join(bounds)}", "", *lines]
    took = answer["took_ms"]
    return "\n".join(
        [*lines, f"{counted(len(answer['hits']), 'hit')} in {took['total']:.1f} ms (embedding {took['embed']:.1f} ms)"]
    )
