"""Hits as the page shows them: grouped by page, with addresses that are safe to follow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flask import url_for
from markupsafe import Markup

from rag.query.explain import in_words
from rag.query.results import Hit, is_source_code, section_within
from web.api.parameters import collection_field
from web.display_urls import BIDI_CONTROLS, SAFE_URL, Link, Places, is_of_web
from web.pages.refinements import PageSearch
from web.pages.snippets import make_section, make_snippet

ALSO = 3  # addresses of the same passage that are shown


@dataclass(frozen=True, slots=True)
class ShownHit:
    """One hit."""

    id: str
    rank: int
    link: Link
    section: str
    why: list[tuple[str, str]]  # the steps to its score, each with its name; none unless asked for
    snippet: Markup
    whole: Markup | None  # with its section, where that was asked for
    citation: str
    also: list[Link]
    beyond: int  # such addresses that are not shown


@dataclass(frozen=True, slots=True)
class PageHits:
    """The hits of one page, in its best one's place."""

    title: str
    place: str
    language: str | None
    date: str | None
    passages: list[ShownHit]
    more: int  # passages of it that were left out
    all: str  # address of a search that gives these too


def group_hits(hits: Iterable[Hit], asked: PageSearch) -> list[PageHits]:
    """Group hits, best first, by the page that they are of; `section_text` is shown where a hit has it."""
    groups: dict[str, list[Hit]] = {}
    places = asked.places
    for hit in hits:
        groups.setdefault(hit.url.partition("#")[0], []).append(hit)
    return [
        PageHits(
            title=own[0].title or places.of(url),
            place=places.of(url),
            language=own[0].language,
            date=own[0].date,
            passages=[_passage(hit, asked) for hit in own],
            more=own[-1].more,
            all=asked.within(url),
        )
        for url, own in groups.items()
    ]


def _passage(hit: Hit, asked: PageSearch) -> ShownHit:
    section = section_within(hit.title, hit.section)
    is_code = is_source_code(hit.content_type)
    return ShownHit(
        id=hit.id,
        rank=hit.rank,
        link=_link(hit, asked),
        section=section,
        why=list(in_words(hit.explanation)) if hit.explanation else [],
        snippet=make_snippet(hit.text, hit.highlights, hit.sentence, is_code=is_code),
        whole=make_section(hit.section_text, hit.text, hit.highlights, is_code=is_code) if hit.section_text else None,
        citation=_citation(hit, section, asked.places),
        also=[asked.places.link_to(url) for url in hit.duplicates[:ALSO]],
        beyond=len(hit.duplicates[ALSO:]),
    )


def _link(hit: Hit, asked: PageSearch) -> Link:
    """Return where a hit leads: to its page, or for what browsers do not open from there, to its text here."""
    if is_of_web(hit.url) or not SAFE_URL.fullmatch(hit.url) or not hit.document:
        return asked.places.link_to(hit.url)
    kept: dict[str, Any] = collection_field(asked.collection)
    address = url_for("reading.read", id=hit.document, passage=hit.id, q=asked.query, **kept, _anchor="passage")
    return Link(address, asked.places.of(hit.url))


def _citation(hit: Hit, section: str, places: Places) -> str:
    """Title, section, address and date, as far as they are known, in one line."""
    name = " › ".join(" ".join(part.split()) for part in (hit.title, section) if part)
    parts = [f"“{name}”" if name else "", hit.url if is_of_web(hit.url) else places.of(hit.url), hit.date or ""]
    return BIDI_CONTROLS.sub("", ", ".join(filter(None, parts)))
