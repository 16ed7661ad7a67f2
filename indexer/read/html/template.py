"""Templates of sites: text that pages share around their own; `indexer.sources.templates` counts what `find` returns.

A place is the chain of element names and classes from the body down. Places and texts are compared by hashes, in which
all numbers are equal, so that dates and versions may differ.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from indexer.read.html.html_tree import HEADINGS, Element, HtmlTree
from indexer.read.html.noise import DEEP, classes, is_noise, texts

_EITHER_END = 300  # blocks given, from the beginning of a page and from its end
MOST_BLOCKS = 2 * _EITHER_END
_LONGEST = 1_500  # characters of a block that may be of a template
_LINKED = 0.5  # share of the text inside links in what is navigation
_BLOCKS = HEADINGS | frozenset(
    "address article aside blockquote center dd details div dl dt fieldset figure form header hgroup li main menu nav "
    "ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_SILENT = frozenset({"script", "style", "template", "noscript"})
_LABEL = re.compile(r"\b\w++\s*+:|[\s|·•,;()\[\]<>«»←→-]+")  # and what separates links
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w")
_ROOT = 0


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


class _Unit(NamedTuple):  # a block, or a run of text and inline elements between blocks
    parent: Element
    nodes: list[Element | str]
    block: Element | None = None


def find(tree: HtmlTree) -> dict[str, Any]:
    """Find blocks of a prepared page that may belong to its site's template: JSON of `indexer.records.PageBlocks`."""
    blocks = iter(()) if tree.redirects else _blocks(tree.body, _ROOT)
    found = [*islice(blocks, _EITHER_END), *deque(blocks, _EITHER_END)]
    title = tree.first("title")
    tags = (tag for tag in tree.elements if tag.name in HEADINGS and tag.depth < DEEP)
    headings = [" ".join((tag.short_text(_LONGEST) or "").split()) for tag in tags]
    about = "\n".join(headings) or (title.text() if title is not None else "")
    return {"about": _hash(_ROOT, about), "blocks": found}


def strip(tree: HtmlTree, template: Template) -> bool:
    """Remove the template's text around a page's own; return whether there was any."""
    found = list(_matches(tree.body, _ROOT, template))
    own = [place for place, match in enumerate(found) if match is None]
    first, last = (own[0], own[-1]) if own else (len(found), -1)
    gone = [match for place, match in enumerate(found) if match is not None and not first < place < last]
    away = {id(node) for match in gone for node in match.nodes}
    for parent in {id(match.parent): match.parent for match in gone}.values():
        parent.children = [node for node in parent.children if id(node) not in away]
    return bool(gone)


def _blocks(parent: Element, place: int, depth: int = 1) -> Iterator[tuple[int, int, int, bool]]:
    """Yield blocks that may belong to a template, in the order of the page, as `find` returns them."""
    for unit in _units(parent):
        block = unit.block
        if block is not None and (is_noise(block) or block.name == "pre"):
            continue
        text, linked, bare = _measure(unit.nodes)
        if text is not None and not _WORD.search(text):
            continue
        here = _place(place, block)
        if text is not None and len(text) - linked <= 600:
            yield place, here, _hash(here, f"={text}"), _is_linked(linked, bare)
        if block is not None and depth < 16:
            yield from _blocks(block, here, depth + 1)


def _matches(parent: Element, place: int, template: Template) -> Iterator[_Unit | None]:
    """Yield matches of the template in the order of the page, and None for each text of the page's own."""
    for unit in _units(parent):
        here, block = _place(place, unit.block), unit.block
        if here in template.around and not (block is not None and is_noise(block)):
            text, linked, bare = None, 0, ""
            if here in template.at or here in template.places:
                text, linked, bare = _measure(unit.nodes)
            if text and _hash(here, f"={text}") in template.texts:
                yield unit
                continue
            if text and here in template.places and _is_linked(linked, bare):
                yield unit
                continue
            if block is not None:
                yield from _matches(block, here, template)
                continue
        if any(_WORD.search(text) for text, _ in texts(unit.nodes, _says_nothing)):
            yield None


def _units(parent: Element) -> Iterator[_Unit]:
    run: list[Element | str] = []
    for node in parent.children:
        if isinstance(node, str) or node.name not in _BLOCKS:
            run.append(node)
            continue
        if run:
            yield _Unit(parent, run)
            run = []
        yield _Unit(parent, [node], node)
    if run:
        yield _Unit(parent, run)


def _measure(nodes: list[Element | str]) -> tuple[str | None, int, str]:
    """Return the text as one line, or None if it is long, the number of its characters inside links, and the others."""
    pieces: list[str] = []
    bare: list[str] = []
    length = linked = 0
    todo: list[tuple[Element | str, bool]] = [(node, False) for node in reversed(nodes)]
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


def _is_linked(linked: int, bare: str) -> bool:
    return linked > 0 and linked * (1 - _LINKED) >= _LINKED * len(_LABEL.sub("", bare))


def _says_nothing(tag: Element) -> bool:
    """Return whether an element is a heading, a link to a place of the page, or no text."""
    return tag.name in HEADINGS or (tag.name == "a" and tag.get("href").startswith("#")) or is_noise(tag)


def _place(around: int, block: Element | None) -> int:
    if block is None:
        return _name_hash(around, "~")
    if not block.attributes:
        return _name_hash(around, block.name)
    own = " ".join(sorted(classes(block))) or "#" + block.get("id")
    return _name_hash(around, f"{block.name} {own}"[:500])


def _hash(around: int, name: str) -> int:
    said = f"{around}/{_NUMBER.sub('0', name)}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest())


_name_hash = lru_cache(maxsize=4_096)(_hash)  # a page repeats a few all over
