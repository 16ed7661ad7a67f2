"""HTML to sections of readable text: which part of a page counts, and what it is called."""

from collections.abc import Iterator
from dataclasses import dataclass

from bs4 import BeautifulSoup
from bs4.element import Tag

from indexer.html_metadata import declared
from indexer.html_noise import classes
from indexer.html_walk import Walker, fold
from indexer.metadata import Declared
from indexer.records import Section

_CONTAINERS = ("main", "role", "article", "body", "document", "contents", "id")  # see _kinds; first unique one wins
_LINK_PAGE = 0.5  # share of the text inside links above which a page is a list of links
_LINK_PAGE_LENGTH = 5_000  # characters; shorter pages are left alone


@dataclass(frozen=True, slots=True)
class Extracted:
    """The readable part of a page."""

    title: str | None
    sections: tuple[Section, ...]
    is_link_list: bool  # an index or table of contents rather than text
    declared: Declared


def extract(markup: str) -> Extracted:
    """Find the main part of an HTML page and cut it into sections of plain text.

    Paragraphs are separated by a blank line, list items and table rows by a line end; <pre> is kept as it is;
    navigation, forms, scripts and hidden elements are left out.
    """
    markup = markup if "<" in markup else f"<p>{markup}</p>"  # else it might be taken for a file name
    soup = BeautifulSoup(markup, "lxml", multi_valued_attributes=None)
    walker = Walker()
    container = _container(soup)
    walker.walk(container)
    if not walker.text_length and soup.body is not None and container is not soup.body:
        walker = Walker()
        walker.walk(soup.body)
    is_link_list = walker.text_length >= _LINK_PAGE_LENGTH and walker.link_length > _LINK_PAGE * walker.text_length
    return Extracted(_title(soup, walker.headings), walker.sections(), is_link_list, declared(soup))


def _container(soup: BeautifulSoup) -> Tag:
    """The element that holds the page's own text; a kind of element that occurs twice decides nothing."""
    found: dict[str, list[Tag]] = {kind: [] for kind in _CONTAINERS}
    for tag in soup.find_all(True):
        for kind in _kinds(tag):
            found[kind].append(tag)
    return next((tags[0] for tags in found.values() if len(tags) == 1), soup.body or soup)


def _kinds(tag: Tag) -> Iterator[str]:
    if tag.name in ("main", "article"):
        yield tag.name
    if not tag.attrs:
        return
    if tag.get("role") == "main":
        yield "role"
    if tag.get("id") in ("main-content", "content"):
        yield "id"
    if tag.name == "div":
        names = classes(tag)
        if "body" in names:
            yield "body"
        if "document" in names:
            yield "document"
        before = tag.find_previous_sibling(True) if names == {"contents"} else None
        if isinstance(before, Tag) and before.name == "div" and "header" in classes(before):  # Doxygen's
            yield "contents"


def _title(soup: BeautifulSoup, headings: list[str]) -> str | None:
    """The page's own title; of `Heading - Site name` only the heading, if the page has it."""
    named = fold(soup.title.get_text()) if soup.title else ""
    for heading in headings[:3]:
        if len(heading) > 2 and named.lower().startswith(heading.lower()):
            return heading
    if not named:
        meta = soup.find("meta", attrs={"property": "og:title"})
        named = fold(str(meta.get("content") or "")) if isinstance(meta, Tag) else ""
    return named or (headings[0] if headings else None)
