"""The results of a search, as structs. REST responses and `pilotlight search --json` contain them as JSON."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from urllib.parse import quote

import msgspec
from msgspec import Meta

from embedder.late_interaction import QueryTokens as QueryTokens
from indexer.errors import counted
from indexer.generation.editions import version_key
from indexer.generation.lexical.letters import fold
from indexer.read.formats import is_source_code as is_source_code
from indexer.records import SEPARATOR
from indexer.records import TextBlock as TextBlock
from rag.query.request import DEFAULT_COLLECTION

if TYPE_CHECKING:  # `rag.Client` starts faster without these imports
    from indexer.generation.documents import DocumentFacts, StoredChunk
    from indexer.generation.lexical.vocabulary import Heading
    from rag.query.ranking import Choice, Ranking

Span = tuple[int, int]
MAX_FACET_VALUES = 10
# A facet has the same name as the field of a filter that selects its values.
FACETS = ("source", "language", "content_type", "path", "version")
_SCORE_TOLERANCE = 1e-6
_BOUNDS = {"excluded": "without", "required": "only with"}
MIN_TYPED_CHARS, MAX_TYPED_CHARS = 2, 200
_MAX_QUESTIONS, _MAX_QUESTION_CHARS = 4, 70
_NUMBER = re.compile(
    r"^(?:(?:chapter|part|appendix|section)\s+(?:\d+|[A-Z]|[IVX]+)\b|(?<![\d.])\d++(?=[\s.):])|[A-Z](?=[.):]))(?:\.\d++)*+[.):]?\s+",
    re.IGNORECASE,
)
_HTML = ("text/html", "application/xhtml+xml")
# A line break between two of these characters is a space in the index, but browsers may ignore it when they search for
# a text fragment.
_CJK = "\u3040-\u30ff\u3400-\u9fff"
_CLAUSE = re.compile(
    rf"(?<!\w)[^\W_](?:(?!(?<=[{_CJK}]) (?=[{_CJK}]))"
    r"[^\n.!?…:;。！？：；，、؟؛،۔।॥|`*\"“”„«»<>()\[\]{}=\\]|(?<=\w)[.:](?=\w))*"
)
_CLAUSE_ENDS = " ,-–—'’/&+%#@$^~_"
# Shorter clauses often occur twice on a page. Scripts without spaces between words have the second limit.
_MIN_WORDS, _MIN_SPACELESS_CHARS = 3, 6
_MAX_WHOLE_WORDS, _START_WORDS, _END_WORDS = 10, 5, 3
_MAX_WORD_CHARS = 80


class ScorePart(TypedDict):
    """The contribution of one search method to the score of a hit."""

    score: Annotated[float | None, Meta(description="cosine, BM25 or MaxSim; null if the method did not find the hit")]
    rank: Annotated[int | None, Meta(description="rank by this score, among the candidates")]
    scaled: Annotated[float, Meta(description="the score, scaled so that methods can be added")]
    weight: Annotated[float, Meta(description="weight of the method; all weights add up to 1")]


class Step(TypedDict):
    """A change of the score of a hit after `fused` was computed."""

    name: Literal["rerank", "limit", "address"]
    why: Annotated[str, Meta(description="reason, in words")]
    score: Annotated[float, Meta(description="score after this step")]


class Explanation(TypedDict):
    """The numbers from which the score of a hit was computed.

    `fused` is the sum of scaled × weight of all methods. Up to three steps then change the score: `rerank` averages it
    with the score of the cross-encoder, `limit` caps it at the lowest score of reranked hits or of hits from earlier
    searches, and `address` raises it to the highest score of all hits.
    """

    rank: Annotated[int, Meta(description="rank by score alone, before duplicates are removed and limits applied")]
    candidates: Annotated[int, Meta(description="passages that were compared")]
    dense: Annotated[ScorePart | None, Meta(description="search by meaning")]
    lexical: Annotated[ScorePart | None, Meta(description="search by words")]
    tokens: Annotated[ScorePart | None, Meta(description="late interaction")]
    weights: Annotated[str, Meta(description="reason for the weights, in words; empty for one method")]
    fused: Annotated[float, Meta(description="sum of scaled × weight of the methods")]
    steps: Annotated[list[Step], Meta(description="what changed the score afterwards, in order")]
    folded: Annotated[int, Meta(description="number of hidden passages with the same text or from other versions")]
    left_out: Annotated[int, Meta(description="passages of the same document that `per_document` left out")]


class OtherVersion(TypedDict):
    """The page of a hit in another version."""

    version: str
    url: str


class Hit(msgspec.Struct, frozen=True):
    """One passage that answers the query."""

    rank: Annotated[int, Meta(ge=1)]
    id: str
    url: Annotated[str, Meta(description="address, with the anchor of the section")]
    title: str
    section: Annotated[str, Meta(description="heading path joined with ` › `")]
    text: str
    highlights: Annotated[list[Span], Meta(description="characters [start, end) of `text` that match query words")]
    score: float
    # The values are, in this order, a cosine, a BM25 score, a MaxSim score and a score of the cross-encoder.
    scores: Annotated[dict[str, float | None], Meta(description="scores of dense, lexical, tokens, rerank, or null")]
    language: Annotated[str | None, Meta(description="primary subtag, such as `en`")]
    date: Annotated[str | None, Meta(description="YYYY-MM-DD")]
    content_type: str
    metadata: Annotated[dict[str, Any], Meta(description="metadata by name: a text or a list of texts")]
    duplicates: Annotated[list[str], Meta(description="urls of hidden passages with the same text")]
    version: Annotated[str | None, Meta(description="version of the manual in its address, such as `17`")] = None
    also: Annotated[list[OtherVersion], Meta(description="other versions of the page, newest first")] = []
    link: Annotated[str | None, Meta(description="with `links`: `url` that makes browsers highlight the text")] = None
    section_text: Annotated[str | None, Meta(description="with `expand`: the text of the section")] = None
    document: Annotated[str, Meta(description="id of the document, the same in every generation")] = ""
    collection: Annotated[str, Meta(description="collection of the document")] = DEFAULT_COLLECTION
    more: Annotated[int, Meta(ge=0, description="passages of this document that `per_document` left out")] = 0
    explanation: Annotated[Explanation | None, Meta(description="only with `explain`")] = None
    blocks: Annotated[list[TextBlock], Meta(description="code and tables: characters [start, end) of `text`")] = []
    section_blocks: Annotated[list[TextBlock], Meta(description="the same for `section_text`")] = []


class Suggestion(msgspec.Struct, frozen=True):
    """A query that completes the text typed so far."""

    text: str
    kind: Literal["title", "heading"]


class RerankCounts(msgspec.Struct, frozen=True):
    """The number of candidates for the cross-encoder, and how many of them were scored before the deadline."""

    candidates: int
    scored: Annotated[int, Meta(description="only the best candidates, if time was short")]


class Share(TypedDict):
    """A value of a facet, and the number of documents that have it."""

    value: str
    count: int


class AlsoSearched(TypedDict):
    """Words or phrases, such as synonyms, that were searched for in addition to a typed word."""

    typed: str
    searched: list[str]
    reason: Annotated[str, Meta(description="`correction`, `synonym` or `compound`")]


class Answer(msgspec.Struct, frozen=True):
    """The hits for one query, best first, and the milliseconds of each stage."""

    query: str
    hits: list[Hit]
    # Stages: embed, dense, lexical, fuse, rerank, total.
    took_ms: Annotated[dict[str, float], Meta(description="milliseconds by stage")]
    generation: str
    next: Annotated[int | None, Meta(description="`offset` of the hits after these, if there are any")] = None
    facets: Annotated[dict[str, list[Share]] | None, Meta(description="only with `facets`")] = None
    also_searched: list[AlsoSearched] = []
    required: Annotated[list[str], Meta(description="words and phrases that every hit has")] = []
    excluded: Annotated[list[str], Meta(description="words and phrases that no hit has")] = []
    close: Annotated[bool, Meta(description="whether any hit is close to the query")] = True
    reranked: RerankCounts | None = None
    did_you_mean: Annotated[str | None, Meta(description="the query with its unknown words corrected")] = None
    collections: Annotated[list[str], Meta(description="collections that were searched")] = msgspec.field(
        default_factory=lambda: [DEFAULT_COLLECTION]
    )
    unavailable: Annotated[list[str], Meta(description="collections that `*` left out because they are not ready")] = []
    search_id: Annotated[str | None, Meta(description="id for feedback; null if searches are not recorded")] = None

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON-ready dictionary."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]  # a struct becomes a dict


def explain(ranking: "Ranking", choice: "Choice", index: int) -> Explanation:
    """Explain the score of the candidate at `index`. Requires a ranking that `fuse` returned with `explain=True`."""
    from rag.query.weighting import REASON_SUFFIX, describe

    row = {name: float(values[index]) for name, values in ranking.columns.items() if not math.isnan(values[index])}
    by_search: dict[str, ScorePart | None] = dict.fromkeys(("dense", "lexical", "tokens"))
    for name in by_search:
        if (weight := row.get(f"{name}_weight")) is not None:
            was_found = row[name] > 0 if name == "lexical" else name in row
            rank = int((ranking.columns[name] > row[name]).sum()) + 1 if was_found else None
            score = row[name] if was_found else None
            by_search[name] = ScorePart(score=score, rank=rank, scaled=row[f"{name}_scaled"], weight=weight)
    reasons = {name.removesuffix(REASON_SUFFIX): value for name, value in row.items() if name.endswith(REASON_SUFFIX)}
    steps: list[Step] = []
    score = float(ranking.scores[index])
    if "rerank" in row:
        why = f"cross-encoder {row['rerank']:.2f}, rank {row['rank_before']:.0f} before"
        steps.append(Step(name="rerank", why=why, score=score))
    elif score > row["fused"] + _SCORE_TOLERANCE:
        steps.append(Step(name="address", why="the query is the address of its page", score=score))
    elif score < row["fused"] - _SCORE_TOLERANCE:
        is_deeper = ranking.first is not None and index >= ranking.first
        steps.append(Step(name="limit", why="found later" if is_deeper else "not reranked", score=score))
    return Explanation(
        rank=index + 1,
        candidates=len(ranking.rows),
        dense=by_search["dense"],
        lexical=by_search["lexical"],
        tokens=by_search["tokens"],
        weights=describe(reasons) if reasons else "",
        fused=row["fused"],
        steps=steps,
        folded=len(choice.folded.get(index, ())) + len(choice.older.get(index, {})),
        left_out=choice.left_out.get(int(choice.documents[index]), 0),
    )


def explanation_lines(why: Explanation) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line of an explanation."""
    for name, share in (("Meaning", why["dense"]), ("Words", why["lexical"]), ("Tokens", why["tokens"])):
        if share:
            score = "not found" if share["score"] is None else f"{share['score']:.2f}, rank {share['rank']}"
            scaled, weight = share["scaled"], share["weight"]
            yield name, f"{score}: {scaled:.2f} × {weight:.2f} = {scaled * weight:.3f}"
    if why["weights"]:
        yield "Weights", why["weights"]
    yield "Sum", f"{why['fused']:.3f}"
    for step in why["steps"]:
        yield step["name"].capitalize(), f"{step['why']}: gives {step['score']:.3f}"
    facts = [f"{why['rank']} of {counted(why['candidates'], 'candidate')}"]
    facts += [f"represents {counted(why['folded'], 'other')}"] * bool(why["folded"])
    facts += [f"{why['left_out']} more of its document left out"] * bool(why["left_out"])
    yield "Place", "; ".join(facts)


def count_facets(documents: "Iterable[DocumentFacts]", versions: Iterable[str] = ()) -> dict[str, list[Share]]:
    """Count the documents with each value of each facet. The most frequent value is first, or the newest version.

    Documents without a value are not counted. `path` counts the folders directly below the deepest folder that contains
    all documents, so that a filter for one folder narrows the results.
    """
    documents = list(documents)
    paths = [facts.url.partition("?")[0].partition("://")[2].split("/")[1:-1] for facts in documents]
    folders = [[*filter(None, path)] for path in paths]
    shared = sum(1 for _ in takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False)))
    values: dict[str, list[str | None]] = {name: [getattr(facts, name) for facts in documents] for name in FACETS[:3]}
    values["path"] = ["/" + "/".join(path[: shared + 1]) if len(path) > shared else None for path in folders]
    values["version"] = [*versions]
    shares = {}
    for name, of_documents in values.items():
        counts = Counter(value for value in of_documents if value)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        shares[name] = [Share(value=value, count=count) for value, count in ordered[:MAX_FACET_VALUES]]
    shares["version"].sort(key=lambda share: version_key(share["value"]), reverse=True)
    return shares


def text_of(hit: Hit) -> str:
    """Return the passage of a hit as Markdown, or its section if the search requested sections."""
    return as_markdown(hit.section_text, hit.section_blocks) if hit.section_text else as_markdown(hit.text, hit.blocks)


def as_markdown(text: str, blocks: Iterable[TextBlock]) -> str:
    """Return a text as Markdown, with its code blocks in fences."""
    pieces, position = [], 0
    for start, end, kind in blocks:
        if kind == "code":
            fence = "`" * (1 + max([2, *map(len, re.findall("`{3,}", text[start:end]))]))
            pieces += [text[position:start], f"{fence}\n", text[start:end], f"\n{fence}"]
            position = end
    return "".join([*pieces, text[position:]])


def section_within(title: str, section: str) -> str:
    """Remove the title of the page from a heading path that begins with it."""
    starts = f"{section}{SEPARATOR}".startswith(f"{title}{SEPARATOR}")
    return section[len(title) :].removeprefix(SEPARATOR) if starts else section


def full_heading(title: str, section: str) -> str:
    """Join the title of a page and the headings below the title into one path."""
    return SEPARATOR.join(filter(None, [title, section_within(title, section)]))


def without_number(name: str) -> str:
    """Remove a number, such as "4.2.", from the beginning of a heading, unless nothing else would remain."""
    plain = " ".join(name.split())
    return _NUMBER.sub("", plain) or plain


def suggestions(typed: str, headings: "Iterable[Heading]", limit: int) -> list[Suggestion]:
    """Return at most `limit` distinct headings as suggestions, except the typed text itself."""
    by_text: dict[str, Suggestion] = {}
    for heading in headings:
        text = without_number(heading.text)
        by_text.setdefault(fold(text), Suggestion(text, "title" if heading.is_title else "heading"))
    by_text.pop(fold(" ".join(typed.split())), None)
    return list(by_text.values())[:limit]


def questions_among(passages: "Iterable[StoredChunk]") -> list[str]:
    """Return at most four headings that are questions. They are from different documents, at regular intervals."""
    by_document: dict[str, str] = {}
    for passage in passages:
        for name in (passage.section.split(SEPARATOR)[-1], passage.title):
            if name.endswith("?") and len(name) <= _MAX_QUESTION_CHARS:
                by_document.setdefault(passage.document_url, without_number(name))
    questions = list(dict.fromkeys(by_document.values()))
    return questions[:: max(1, len(questions) // _MAX_QUESTIONS)][:_MAX_QUESTIONS]


def link_to_text(url: str, content_type: str, text: str, highlights: Sequence[Span]) -> str | None:
    """Return the address of a passage with a text fragment that makes browsers highlight its best clause.

    The best clause contains the most `highlights`, which are ranges of `text`. Returns None if the passage is not from
    an HTML page on the web, or if all its clauses are too short to be unique.
    """
    if content_type not in _HTML or url[:4].lower() != "http":
        return None
    # Imported here, because it loads Tantivy, which clients do not need.
    from indexer.generation.lexical.analysis import is_spaceless

    best, most_highlights = "", -1
    for match in _CLAUSE.finditer(text):
        clause = match[0].rstrip(_CLAUSE_ENDS)
        words = clause.split(" ")
        is_long = len(words) >= _MIN_WORDS or (len(clause) >= _MIN_SPACELESS_CHARS and is_spaceless(clause))
        if not is_long or max(map(len, words)) > _MAX_WORD_CHARS:
            continue
        start, end = match.start(), match.start() + len(clause)
        count = sum(start <= first and last <= end for first, last in highlights)
        if count > most_highlights:
            is_cut = len(words) > _MAX_WHOLE_WORDS
            ends = (words[:_START_WORDS], words[-_END_WORDS:]) if is_cut else (words,)
            best, most_highlights = ",".join(map(_escaped, ends)), count
    return f"{url}{'' if '#' in url else '#'}:~:text={best}" if best else None


def _escaped(words: Sequence[str]) -> str:
    return quote(" ".join(words), safe="").replace("-", "%2D")


def as_text(answer: dict[str, Any]) -> str:
    """Format a JSON-ready answer for a terminal."""
    lines = [f"{label}: {', '.join(answer[name])}" for name, label in _BOUNDS.items() if answer.get(name)]
    several = len(answer["collections"]) > 1
    if left_out := answer["unavailable"]:
        lines.append(f"not ready, so left out: {', '.join(left_out)}")
    if corrected := answer.get("did_you_mean"):
        lines.append(f"did you mean: {corrected}")
    if also := answer.get("also_searched"):
        words = "; ".join(f"{', '.join(one['searched'])} ({one['typed']})" for one in also)
        lines.append(f"also searched for: {words}")
    if answer["hits"] and not answer["close"]:
        lines.append("nothing close; nearest:")
    lines = [line for above in lines for line in (above, "")]
    for hit in answer["hits"]:
        heading = full_heading(hit["title"], hit["section"])
        passage = " ".join(hit["text"].split())
        where = f"  in {hit['collection']}" if several else ""
        lines += [f"{hit['rank']:>2}. {heading}  ({hit['score']:.3f})", f"    {hit['url']}{where}"]
        if hit["version"]:
            older = ", ".join(each["version"] for each in hit["also"])
            lines += [f"    version {hit['version']}{f', also in {older}' if older else ''}"]
        lines += [f"    {passage[:200]}{'…' if len(passage) > 200 else ''}"]
        if why := hit.get("explanation"):
            lines += [f"      {name.lower()}: {text}" for name, text in explanation_lines(why)]
        lines.append("")
    took = answer["took_ms"]
    count = counted(len(answer["hits"]), "hit")
    return "\n".join([*lines, f"{count} in {took['total']:.1f} ms (embedding {took['embed']:.1f} ms)"])
