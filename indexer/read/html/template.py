"""Templates of sites: text that pages share around their own, found in a sample of pages and left out of each.

A place in a page is the chain of element names and classes from its body down, without siblings; places and texts are
compared by hashes. All numbers in them count as equal, so that dates and versions may differ. Runs in the reader
process; `indexer.sources.templates` counts what `find` returns.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from indexer.decoding import decode
from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree, parse_html, redirects
from indexer.read.html.noise import classes, holds, is_noise
from indexer.read.html.unfold import unfold

_EITHER_END = 300  # blocks given, from the beginning of a page and from its end
MOST_BLOCKS = 2 * _EITHER_END
_LONGEST = 1_500  # characters of a block that may be of a template
_LINKED = 0.5  # share of the text inside links in what is navigation
_TITLES = frozenset({"h1", "h2"})
_BLOCKS = HEADINGS | frozenset(
    "address article aside blockquote center dd details div dl dt fieldset figure form header hgroup li main menu nav "
    "ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_ENTRIES = frozenset({"li", "tr", "td", "th", "dt", "dd"})  # say something among others of their kind
_SILENT = frozenset({"script", "style", "template", "noscript"})
_LABEL = re.compile(r"\w+\s*:|[\s|·•,;()\[\]<>«»←→-]+")  # and what separates links
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w")
_ROOT = 0

Unit = Element | list[Element | str]  # a block, or text and inline elements between blocks
# by the id of an element: its text, how long that is, how much of it is inside links, and what is outside; None if long
_Measures = dict[int, tuple[str, int, int, str] | None]


@dataclass(frozen=True, slots=True)
class Template:
    """The shared text and links around the pages of a site; all numbers are hashes."""

    texts: frozenset[int]  # of a place and the text that is there
    at: frozenset[int]  # places of these texts
    places: frozenset[int]  # at which each page has links of its own
    around: frozenset[int]  # all these places, and those they are in

    def __str__(self) -> str:
        """Return the text form that `read_template` reads."""
        return ";".join(" ".join(f"{number:x}" for number in sorted(some)) for some in astuple(self))


@lru_cache(maxsize=16)
def read_template(text: str) -> Template:
    """Read a template from its text form; raises ValueError or TypeError if it is invalid."""
    return Template(*(frozenset(int(number, 16) for number in some.split()) for some in text.split(";")))


@dataclass(frozen=True, slots=True)
class _Match:
    parent: Element
    unit: Unit
    is_links: bool = False  # and may go from anywhere


def find(body: bytes, charset: str | None) -> dict[str, Any]:
    """Find the blocks of a page that may belong to the template of its site, JSON-ready, as hashes.

    `about` is the hash of the page's headings. `blocks` has, for each block, the hashes of the place around it, of its
    own place and of its text, and whether the text is mostly links. Raises as `parse_html` does.
    """
    tree = parse_html(decode(body, charset, markup=True))
    unfold(tree)
    blocks = iter(()) if redirects(tree) else _blocks(tree.first("body") or tree.root, _ROOT, _measures(tree))
    found = [*islice(blocks, _EITHER_END), *deque(blocks, _EITHER_END)]
    headings = [" ".join(tag.text().split()) for tag in tree.elements if tag.name in HEADINGS]
    title = tree.first("title")
    about = "\n".join(headings) or (title.text() if title is not None else "")
    return {"about": _hash(_ROOT, about), "blocks": found}


def strip(tree: HtmlTree, template: Template) -> bool:
    """Remove the template's text from a page; return whether there was any.

    Text is removed before the page's first own text and after its last, links also in between. Blocks that hold all
    main headings of a page stay.
    """
    found = list(_matches(tree.first("body") or tree.root, _ROOT, template))
    own = [place for place, match in enumerate(found) if match is None]
    first, last = (own[0], own[-1]) if own else (len(found), -1)
    gone = [
        match
        for place, match in enumerate(found)
        if match is not None
        and (match.is_links or not first < place < last)
        and not (place < first and isinstance(match.unit, Element) and match.unit.name in HEADINGS)
    ]
    titled = [match for match in gone if isinstance(match.unit, Element) and holds(match.unit, _TITLES)]
    inside = (node for match in titled for node in _nodes(match.unit))
    titles = sum(isinstance(node, Element) and node.name in _TITLES for node in inside)
    if titled and sum(tag.name in _TITLES for tag in tree.elements) <= titles:
        gone = [match for match in gone if match not in titled]
    away = {id(node) for match in gone for node in ([match.unit] if isinstance(match.unit, Element) else match.unit)}
    for parent in {id(match.parent): match.parent for match in gone}.values():
        parent.children = [node for node in parent.children if id(node) not in away]
    return bool(gone)


def _blocks(parent: Element, place: int, measures: _Measures, depth: int = 1) -> Iterator[tuple[int, int, int, bool]]:
    """Yield blocks that may belong to a template, in the order of the page, as `find` returns them."""
    for unit in _units(parent):
        if isinstance(unit, Element) and (is_noise(unit) or unit.name == "pre"):
            continue
        measure = measures.get(id(unit)) if isinstance(unit, Element) else _sum(unit, measures)
        raw, _, linked, bare = measure or (None, 0, 0, "")
        text = " ".join(raw.split()) if raw is not None else None
        if text is not None and not _WORD.search(text):
            continue
        here = _place(place, unit)
        if text is not None and len(text) - linked <= 600:
            yield place, here, _text_hash(here, text), _is_linked(linked, bare, _LINKED)
        if isinstance(unit, Element) and depth < 16:
            yield from _blocks(unit, here, measures, depth + 1)


def _matches(parent: Element, place: int, template: Template) -> Iterator[_Match | None]:
    """Yield matches of the template in the order of the page, and None for each text of the page's own."""
    for unit in _units(parent):
        here = _place(place, unit)
        if here in template.around and not (isinstance(unit, Element) and is_noise(unit)):
            text, linked, bare = _measure(unit) if here in template.at or here in template.places else (None, 0, "")
            if text and _text_hash(here, text) in template.texts:
                is_entry = parent.name in _ENTRIES or (isinstance(unit, Element) and unit.name in _ENTRIES)
                yield _Match(parent, unit, not is_entry and _is_linked(linked, bare, 0.8))
            elif text and here in template.places and _is_linked(linked, bare, _LINKED):
                yield _Match(parent, unit)
            elif isinstance(unit, Element):
                yield from _matches(unit, here, template)
            elif _says(unit):
                yield None
        elif _says(unit):
            yield None


def _units(parent: Element) -> Iterator[Unit]:
    """Yield blocks, and runs of text and inline elements between them."""
    run: list[Element | str] = []
    for node in parent.children:
        if isinstance(node, str) or node.name not in _BLOCKS:
            run.append(node)
            continue
        if run:
            yield run
            run = []
        yield node
    if run:
        yield run


def _measure(unit: Unit) -> tuple[str | None, int, str]:
    """Return the text as one line, or None if it is long, the number of its characters inside links, and the others."""
    pieces: list[str] = []
    bare: list[str] = []
    length = linked = 0
    todo: list[tuple[Element | str, bool]] = [(node, False) for node in reversed(_nodes(unit))]
    while todo:
        node, is_link = todo.pop()
        if isinstance(node, str):
            said = len(node.strip())
            length, linked = length + said, linked + said * is_link
            if length > _LONGEST:
                return None, 0, ""
            pieces.append(node)
            if not is_link:
                bare.append(node)
        elif node.name not in _SILENT:
            is_link = is_link or (node.name == "a" and "href" in node.attributes)
            todo += [(child, is_link) for child in reversed(node.children)]
    return " ".join("".join(pieces).split()), linked, "|".join(bare) if linked else ""


def _measures(tree: HtmlTree) -> _Measures:
    """Measure all elements of a page; those inside one are there before it, so nothing is looked at twice."""
    found: _Measures = {}
    for element in reversed(tree.elements):
        if element.name in _SILENT:
            found[id(element)] = "", 0, 0, ""
            continue
        measure = _sum(element.children, found)
        if measure is not None and element.name == "a" and "href" in element.attributes:
            measure = measure[0], measure[1], measure[1], ""
        found[id(element)] = measure
    return found


def _sum(nodes: list[Element | str], measures: _Measures) -> tuple[str, int, int, str] | None:
    pieces: list[str] = []
    bare: list[str] = []
    length = linked = 0
    for node in nodes:
        if isinstance(node, str):
            length += len(node.strip())
            pieces.append(node)
            bare.append(node)
        else:
            measure = measures[id(node)]
            if measure is None:
                return None
            pieces.append(measure[0])
            length += measure[1]
            linked += measure[2]
            if measure[3]:
                bare.append(measure[3])
        if length > _LONGEST:
            return None
    return "".join(pieces), length, linked, "|".join(bare)


def _is_linked(linked: int, bare: str, share: float) -> bool:
    return linked > 0 and linked * (1 - share) >= share * len(_LABEL.sub("", bare))


def _nodes(unit: Unit) -> list[Element | str]:
    return unit.children if isinstance(unit, Element) else unit


def _says(unit: Unit) -> bool:
    """Return whether a unit has text outside of headings, and of links to places of the page."""
    todo: list[Element | str] = [unit] if isinstance(unit, Element) else unit[::-1]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            if _WORD.search(node):
                return True
        elif (
            node.name not in HEADINGS
            and not (node.name == "a" and node.get("href").startswith("#"))
            and not is_noise(node)
        ):
            todo += reversed(node.children)
    return False


def _place(around: int, unit: Unit) -> int:
    if not isinstance(unit, Element):
        return _name_hash(around, "~")
    attributes = unit.attributes
    if not attributes:
        return _name_hash(around, unit.name)
    own = " ".join(sorted(classes(unit))) or "#" + attributes.get("id", "")
    return _name_hash(around, f"{unit.name} {own}"[:500])


def _text_hash(place: int, text: str) -> int:
    return _hash(place, f"={text}")


@lru_cache(maxsize=4_096)  # a page repeats a few all over
def _name_hash(around: int, name: str) -> int:
    return _hash(around, name)


def _hash(around: int, name: str) -> int:
    said = f"{around}/{_NUMBER.sub('0', name)}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest())
