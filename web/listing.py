"""Hits as the page shows them: grouped by page, with addresses that are safe to follow."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from markupsafe import Markup

from rag.results import Hit, section_within
from web.snippets import make_section, make_snippet

# anything else, javascript: above all, is shown as text; white space and controls can hide a scheme
SAFE_URL = re.compile(r"(?:https?://|file:///)[^\s\x00-\x1f\x7f]+", re.IGNORECASE)
BIDI_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # they let a url read backwards

ALSO = 3  # addresses of the same passage that are shown


@dataclass(frozen=True, slots=True)
class Link:
    """An address as people read it, which may be one to follow."""

    href: str | None  # None where it is not
    place: str


@dataclass(frozen=True, slots=True)
class Passage:
    """One hit."""

    id: str
    rank: int
    link: Link
    section: str
    scores: list[tuple[str, str]]  # what it is of, and how much
    snippet: Markup
    whole: Markup | None  # with its section, where that was asked for
    citation: str
    also: list[Link]
    more: int  # such addresses that are not shown


@dataclass(frozen=True, slots=True)
class PageHits:
    """The hits of one page, in its best one's place."""

    title: str
    place: str
    language: str | None
    date: str | None
    passages: list[Passage]


def group_hits(hits: Iterable[Hit]) -> list[PageHits]:
    """Group hits, best first, by the page that they are of; `section_text` is shown where a hit has it."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.url.partition("#")[0], []).append(hit)
    return [
        PageHits(
            title=own[0].title or place_of(own[0].url),
            place=place_of(own[0].url),
            language=own[0].language,
            date=own[0].date,
            passages=[_passage(hit) for hit in own],
        )
        for own in groups.values()
    ]


def _passage(hit: Hit) -> Passage:
    section = section_within(hit.title, hit.section)
    return Passage(
        id=hit.id,
        rank=hit.rank,
        link=link_to(hit.url),
        section=section,
        scores=_scores(hit),
        snippet=make_snippet(hit.text, hit.highlights, hit.sentence),
        whole=make_section(hit.section_text, hit.text, hit.highlights) if hit.section_text else None,
        citation=_citation(hit, section),
        also=[link_to(url) for url in hit.duplicates[:ALSO]],
        more=len(hit.duplicates[ALSO:]),
    )


def _scores(hit: Hit) -> list[tuple[str, str]]:
    """The scores of the retrievers that found a hit; the fused score only orders, and says nothing by itself."""
    dense, lexical = hit.scores.get("dense"), hit.scores.get("lexical")
    found = [("Meaning", f"{dense:.2f}")] if dense is not None else []
    return found + ([("Words", f"{lexical:.1f}")] if lexical is not None else [])


def _citation(hit: Hit, section: str) -> str:
    """Title, section, address and date, as far as they are known, in one line."""
    name = " › ".join(" ".join(part.split()) for part in (hit.title, section) if part)
    parts = [f"“{name}”" if name else "", hit.url, hit.date or ""]
    return BIDI_CONTROLS.sub("", ", ".join(filter(None, parts)))


def link_to(url: str) -> Link:
    """Make a link of an address that is safe to follow, and text of any other."""
    return Link(url if SAFE_URL.fullmatch(url) else None, place_of(url))


def place_of(url: str) -> str:
    """Return an address as people read it: without scheme and anchor, unescaped."""
    bare = url.partition("#")[0]
    if not SAFE_URL.fullmatch(bare):
        return url
    host, slash, path = bare.partition("://")[2].partition("/")
    return BIDI_CONTROLS.sub("", host + slash + unquote(path)).rstrip("/")
