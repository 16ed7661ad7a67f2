"""Find and remove the template of a site: text that its pages repeat. `indexer.sources.reading` learns templates.

The path of a block is the chain of element names and classes from the body to the block. Paths and texts are compared
by hashes. Every number is hashed as 0, so that texts are equal even if they have different dates or versions.
"""

import hashlib
import re
from bisect import bisect, bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from itertools import accumulate, chain, compress, islice, pairwise, takewhile, zip_longest
from operator import mul
from typing import Any, NamedTuple

from indexer.read.html.html_tree import HEADINGS, MAX_SEARCH_DEPTH, NOT_TEXT, Element, HtmlTree, texts
from indexer.read.html.noise import CALL, MIN_SENTENCE_WORDS, WORD, is_noise
from indexer.read.html.single_page import find_container

_BLOCKS_AT_END = 300
MAX_BLOCKS = 2 * _BLOCKS_AT_END
_MAX_BLOCK_CHARS = 1_500
_MAX_BARE_CHARS = 600
_MAX_DEPTH = 16
_BLOCKS = HEADINGS | frozenset(
    "address article aside blockquote center dd details div dl dt fieldset figure form header hgroup li main menu nav "
    "ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_SPANNED = _BLOCKS | {"body", ""}
_ROWS = frozenset({"tr", "td", "th", "dt", "dd"})
_SILENT = NOT_TEXT | {"noscript"}
_LABEL_OR_SEPARATOR = re.compile(r"\b\w++\s*+:|[\s|·•,;()\[\]<>«»←→-]+")
_NUMBER = re.compile(r"\d+")
_ROOT = 0


@dataclass(frozen=True, slots=True)
class Template:
    """Hashes of the texts that the pages of a site repeat, and hashes of the paths of these texts.

    `link_paths` are hashes of the paths of navigation whose links differ from page to page, such as breadcrumbs.
    """

    texts: frozenset[int]
    text_paths: frozenset[int]
    link_paths: frozenset[int]

    def __str__(self) -> str:
        """Return the template as text, which `read_template` parses."""
        return ";".join(" ".join(f"{number:x}" for number in sorted(hashes)) for hashes in astuple(self))


@lru_cache(maxsize=16)
def read_template(text: str) -> Template:
    """Parse the result of `str(template)`. Raises ValueError or TypeError if the text is invalid."""
    return Template(*(frozenset(int(number, 16) for number in hashes.split()) for hashes in text.split(";")))


class _Segment(NamedTuple):
    """A block element, or the text and inline elements between two block elements (`block` is None)."""

    parent: Element
    nodes: list[Element | str]
    block: Element | None = None


class _Texts:
    """The texts of some nodes in document order, with running totals of their lengths, to measure nested blocks fast.

    `spans` maps the Python `id()` of a block to the index of its first text and the index after its last text.
    """

    def __init__(self, nodes: Sequence[Element | str]) -> None:
        self._texts: list[str] = []
        self._is_bare: list[bool] = []  # one per text: whether it is outside links
        self._line_ends: list[int] = []  # one per line: the index after its last text
        self.spans: dict[int, tuple[int, int]] = {}
        todo: list[tuple[Element | str, bool, int]] = [(node, True, -1) for node in reversed(nodes)]
        while todo:
            node, is_bare, begin = todo.pop()
            if isinstance(node, str):
                self._texts.append(node)
                self._is_bare.append(is_bare)
                continue
            if node.name in _SPANNED:
                index = len(self._texts)
                self._line_ends.append(index)
                if begin >= 0:
                    self.spans[id(node)] = begin, index
                    continue
                todo.append((node, is_bare, index))
            if node.name not in _SILENT:
                is_bare = is_bare and not (node.name == "a" and "href" in node.attributes)
                todo += [(child, is_bare, -1) for child in reversed(node.children)]
        lengths = [len(text.strip()) for text in self._texts]
        self._lengths = [*accumulate(lengths, initial=0)]
        self._bare: list[int] = [*accumulate(map(mul, lengths, self._is_bare), initial=0)]

    def measure(self, begin: int = 0, end: int = -1, *, is_block: bool) -> tuple[str | None, int, bool]:
        """Measure the texts from the index `begin` to the index `end`, which is exclusive.

        Returns: (the texts joined to one line, or None for a long block; the number of characters outside links;
        whether the texts are a link bar). In a link bar, links make up at least half of the text, and at least half
        of each line that has a sentence outside links.
        """
        end = len(self._texts) if end < 0 else end
        length, bare = self._lengths[end] - self._lengths[begin], self._bare[end] - self._bare[begin]
        if length > _MAX_BLOCK_CHARS and is_block:
            return None, 0, False
        text = " ".join("".join(self._texts[begin:end]).split())
        if length == bare or not self._is_linked(begin, end) or len(CALL.findall(text)) == 1:
            return text, bare, False
        ends = [begin]  # a line that has only links is joined to the next line
        for line_end in (*self._line_ends[bisect(self._line_ends, begin) : bisect_left(self._line_ends, end)], end):
            ends += [line_end] if any(self._is_bare[ends[-1] : line_end]) else []
        return text, bare, all(self._is_linked(*line, MIN_SENTENCE_WORDS) for line in pairwise(ends))

    def _is_linked(self, begin: int, end: int, min_words: int = 0) -> bool:
        """Return whether at least half of the text is in links, or fewer than `min_words` words are outside links."""
        bare = [*compress(self._texts[begin:end], self._is_bare[begin:end])]
        if len(WORD.findall("".join(bare))) < min_words:
            return True
        linked = self._lengths[end] - self._lengths[begin] - (self._bare[end] - self._bare[begin])
        return linked >= len(_LABEL_OR_SEPARATOR.sub("", "|".join(bare)))


def find_blocks(tree: HtmlTree) -> dict[str, Any]:
    """Return the hashes of the first and last 300 blocks, which may be template text, as JSON for `PageBlocks`."""
    title = tree.first("title")
    tags = (tag for tag in tree.elements if tag.name in HEADINGS and tag.depth < MAX_SEARCH_DEPTH)
    headings = [" ".join((tag.short_text(_MAX_BLOCK_CHARS) or "").split()) for tag in tags]
    about = "\n".join(headings) or (title.text() if title is not None else "")
    main = find_container(tree)
    if main is not None and main.name not in ("main", "article") and main.get("role") != "main":
        main = None  # an element that is recognised only by its id, such as "content", may also contain boilerplate
    blocks = iter(()) if tree.redirects else _blocks(_Texts([tree.body]), tree.body, _ROOT, main, about)
    blocks_at_ends = [*islice(blocks, _BLOCKS_AT_END), *deque(blocks, _BLOCKS_AT_END)]
    return {"about": _hash(_ROOT, about), "blocks": blocks_at_ends}


def strip_template(tree: HtmlTree, template: Template) -> bool:
    """Remove template text from both ends of a page. Return whether any text was removed."""
    ends = (takewhile(bool, _matches(tree.body, _ROOT, template, step)) for step in (1, -1))
    removed = [match for match in chain.from_iterable(ends) if match is not None]
    removed_nodes = {id(node) for match in removed for node in match.nodes}
    for parent in {id(match.parent): match.parent for match in removed}.values():
        parent.remove(removed_nodes)
    return bool(removed)


def _blocks(
    page: _Texts, parent: Element, path: int, main: Element | None, about: str, depth: int = 1, prefix: str = ""
) -> Iterator[tuple[int, int, int, bool]]:
    """Yield (parent path hash, path hash, text hash, is link bar) for each block that may belong to the template.

    Within `main`, text outside link bars is hashed together with the headings of the page (`about`). The same
    text in `main` therefore has different hashes on pages with different headings.
    """
    segments, (end, last) = _segments(parent), page.spans[id(parent)]
    for segment, following in zip_longest(segments, segments[1:]):
        block = segment.block
        if block is not None:
            begin, end = page.spans[id(block)]
        else:
            begin, end = end, page.spans[id(following.block)][0] if following is not None else last
        if block is not None and (is_noise(block) or block.name == "pre"):
            continue
        text, bare, is_bar = page.measure(begin, end, is_block=block is not None)
        if text is not None and not WORD.search(text):
            continue
        block_path = _path_hash(path, block)
        is_linked = is_bar and (block or parent).name not in _ROWS  # a table row is not a link bar
        if text is not None and bare <= _MAX_BARE_CHARS:
            yield path, block_path, _hash(block_path, f"{'' if is_linked else prefix}={text}"), is_linked
        if block is not None and depth < _MAX_DEPTH:
            yield from _blocks(page, block, block_path, main, about, depth + 1, about if block is main else prefix)


def _matches(parent: Element, path: int, template: Template, step: int, depth: int = 1) -> Iterator[_Segment | None]:
    """Yield each segment that is in the template, and None for any other text. If `step` is -1, begin at the end."""
    for segment in _segments(parent)[::step]:
        block_path, block = _path_hash(path, segment.block), segment.block
        if block is not None and is_noise(block):
            continue
        if block_path in template.text_paths or block_path in template.link_paths:
            text, _, is_linked = _Texts(segment.nodes).measure(is_block=block is not None)
            is_shared_link = is_linked and block_path in template.link_paths
            if text and (is_shared_link or _hash(block_path, f"={text}") in template.texts):
                yield segment
                continue
        if block is not None and block.name not in HEADINGS and depth < _MAX_DEPTH:
            yield from _matches(block, block_path, template, step, depth + 1)
        elif any(WORD.search(text) for text, _ in texts(segment.nodes, _is_no_text)):
            yield None


def _segments(parent: Element) -> list[_Segment]:
    segments: list[_Segment] = []
    for node in parent.children:
        if isinstance(node, Element) and node.name in _BLOCKS:
            segments.append(_Segment(parent, [node], node))
        elif segments and segments[-1].block is None:
            segments[-1].nodes.append(node)
        else:
            segments.append(_Segment(parent, [node]))
    return segments


def _is_no_text(tag: Element) -> bool:
    """Return whether an element is a heading, a link to a fragment of the page, or boilerplate."""
    return tag.name in HEADINGS or (tag.name == "a" and tag.get("href").startswith("#")) or is_noise(tag)


def _path_hash(around: int, block: Element | None) -> int:
    if block is None:
        return _name_hash(around, "~")
    if not block.attributes:
        return _name_hash(around, block.name)
    names = " ".join(sorted(block.classes)) or "#" + block.get("id")
    return _name_hash(around, f"{block.name} {names}"[:500])


def _hash(around: int, name: str) -> int:
    data = f"{around}/{_NUMBER.sub('0', name)}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


_name_hash = lru_cache(maxsize=4_096)(_hash)
