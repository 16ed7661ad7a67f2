"""Order the columns of a page, and find its running heads and feet."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from indexer.read.pdf.lines import Line, rows_of
from indexer.read.pdf.page import Page
from indexer.read.pdf.tables import Table

_MIN_LINES = 3  # of text side by side that make columns
_MOST = 24  # places that are tried for a gap
_ALIKE = 3.0  # points between left edges that are one
_MIN_CARD = 6  # pieces of lines on each side of a strip
_SAME_BASE = 0.7  # points between base lines that are one
_FULL = 0.55  # share of a column's width that half its lines have
NEAR = 4  # pages before and after, in which a head comes again: it may change from left to right page, and by chapter
_SHARE = 0.17  # of the height, at each edge
_SAME_HEIGHT = 6.0  # points between heights that are one
_DIGITS = re.compile(r"\d+")

Unit = Line | Table


def in_order(units: Sequence[Unit], depth: int = 0) -> list[list[Unit]]:
    """Return columns and parts of them in reading order; within each, units from the top down."""
    split = (_gap(units) or _strip(units)) if depth < 3 else None
    if split is None:
        return [sorted(units, key=lambda unit: (-unit.base, unit.left))] if units else []
    found: list[list[Unit]] = []
    spanning, bands = _bands(units, *split)
    for place, (left, right) in enumerate(bands):
        found += in_order(left, depth + 1) + in_order(right, depth + 1)
        if place < len(spanning):
            if left or right or not found or not place:
                found.append([])
            found[-1].append(spanning[place])
    return [column for column in found if column]


def _gap(units: Sequence[Unit]) -> tuple[float, float, float] | None:
    """Return where one column ends, with the outer edges of both; None where there is one column."""
    prose = sorted((unit for unit in units if unit.is_prose), key=lambda unit: unit.left)
    if len(prose) < 2 * _MIN_LINES:
        return None
    edges: list[list[float]] = []  # left edges of lines that begin at one place
    for unit in prose:
        if not edges or unit.left - edges[-1][0] > _ALIKE:
            edges.append([])
        edges[-1].append(unit.left)
    west, east = prose[0].left, max(unit.right for unit in prose)
    starts = sorted(((len(edge), edge[0]) for edge in edges if len(edge) >= _MIN_LINES), reverse=True)
    pairs = _neighbours(units)
    columns = [edge for _, edge in starts if edge > west + _ALIKE][:_MOST]
    scores = [
        (_rows_beside(units, edge - 1.0, west, east), edge) for edge in columns if not _are_terms(pairs, edge - 1.0)
    ]
    best = max((score for score, _ in scores), default=0)
    if best < _MIN_LINES:
        return None
    # a column begins where its outermost lines do, not where its items or paragraphs are indented
    return min(edge for score, edge in scores if score >= 0.8 * best) - 1.0, west, east


def _strip(units: Sequence[Unit]) -> tuple[float, float, float] | None:
    """Return the widest strip that nothing reaches into, unless what stands on both sides shares its base lines.

    This parts a page of cards, whose lines are short, but not a table, whose rows go across.
    """
    if len(units) < 2 * _MIN_CARD:
        return None
    ordered = sorted(units, key=lambda unit: unit.left)
    found: list[tuple[float, float]] = []
    end = ordered[0].right
    for unit in ordered[1:]:
        if unit.left - end >= 0.8 * unit.size:
            found.append((unit.left - end, (end + unit.left) / 2))
        end = max(end, unit.right)
    pairs = _neighbours(units)
    for _, x in sorted(found, reverse=True)[:_MOST]:
        sides = [sorted(u.base for u in units if u.right < x), sorted(u.base for u in units if u.left > x)]
        few, many = sorted(sides, key=len)
        places = ((base, bisect_left(many, base - _SAME_BASE)) for base in few)
        shared = sum(place < len(many) and many[place] <= base + _SAME_BASE for base, place in places)
        if len(few) >= _MIN_CARD and shared < 0.5 * len(few) and not _are_terms(pairs, x):
            return x, ordered[0].left, end
    return None


def _neighbours(units: Sequence[Unit]) -> list[tuple[Unit, Unit]]:
    rows = pairwise(sorted(units, key=lambda unit: (-round(unit.base), unit.left)))
    return [(a, b) for a, b in rows if abs(a.base - b.base) <= _SAME_BASE and a.right <= b.left]


def _are_terms(pairs: Sequence[tuple[Unit, Unit]], x: float) -> bool:
    """Return whether a place parts bold terms from what they mean."""
    across = [(a.is_bold, b.is_bold) for a, b in pairs if a.right <= x <= b.left]
    return len(across) >= _MIN_LINES and across.count((True, False)) >= 0.8 * len(across)


def _rows_beside(units: Sequence[Unit], x: float, west: float, east: float) -> int:
    """Return how many lines of text stand beside each other left and right of a place; 0 where they are no columns."""
    total = 0
    widths: tuple[list[float], list[float]] = [], []
    for band in _bands(units, x, west, east)[1]:
        left, right = texts = [[unit for unit in side if unit.is_prose] for side in band]
        lines = min(map(len, texts))
        if lines < _MIN_LINES or any(3 * len(text) < len(side) for text, side in zip(texts, band, strict=True)):
            continue
        low = max(min(unit.base for unit in side) for side in texts)
        high = min(max(unit.base for unit in side) for side in texts)
        if high - low < (_MIN_LINES - 1) * typical_pitch(left):
            continue
        widths[0].extend(unit.right - unit.left for unit in left)
        widths[1].extend(unit.right - unit.left for unit in right)
        total += lines
    if not total:
        return 0
    usual = [sorted(side)[len(side) // 2] for side in widths]
    is_full = usual[0] >= _FULL * (x - west) and usual[1] >= _FULL * min(east - x, max(widths[1]))
    # a column of a few points is none, whatever is in it
    return total if is_full or (usual[0] >= _FULL * max(widths[0]) and x - west > 0.4 * (east - west)) else 0


def typical_pitch(units: Sequence[Unit]) -> float:
    """Return the distance that most lines of a column have from the next, in points."""
    bases = sorted(unit.base for unit in units)
    steps = sorted(b - a for a, b in pairwise(bases) if b - a > 1.0)
    return steps[len(steps) // 3] if steps else 12.0


def _bands(
    units: Sequence[Unit], x: float, west: float, east: float
) -> tuple[list[Unit], list[tuple[list[Unit], list[Unit]]]]:
    """Return what spans a place, from the top down, and the units left and right of it, above, between and below."""
    reach = 0.15 * min(x - west, east - x)
    spanning = sorted((u for u in units if u.left < x - reach and u.right > x + reach), key=lambda unit: -unit.base)
    crossing = set(map(id, spanning))
    borders = [-unit.base for unit in spanning]
    bands: list[tuple[list[Unit], list[Unit]]] = [([], []) for _ in range(len(spanning) + 1)]
    for unit in units:
        if id(unit) not in crossing:
            side = 0 if unit.right - x <= x - unit.left else 1
            bands[bisect_left(borders, -unit.base)][side].append(unit)
    return spanning, bands


class Edge(NamedTuple):
    """A row at the upper or lower edge of a page."""

    is_top: bool
    place: int  # from the edge: 0 is the outermost
    y: float
    text: str
    key: str  # its text without digits
    numbers: frozenset[int]  # all of them, the first ones
    is_small: bool  # whether it is not much larger than the text
    is_apart: bool  # whether it is further from the next row than lines of text are
    lines: tuple[int, ...]  # identities of its lines


def edges_of(page: Page) -> list[Edge]:
    """Return the rows at both edges of a page."""
    bottom, top = page.height
    reach = _SHARE * (top - bottom)
    rows = rows_of(page.lines)
    usual = sorted(line.size for line in page.lines)[len(page.lines) // 2] if rows else 0.0
    found = []
    for is_top, inwards in ((True, rows), (False, rows[::-1])):
        for place, row in enumerate(inwards[:6]):
            base = row[0].base
            text = " ".join(line.text for line in row)
            if not (base > top - reach if is_top else base < bottom + reach) or len(text) > 200:
                continue
            is_small = max(line.size for line in row) <= 1.25 * usual
            is_apart = place + 1 < len(inwards) and abs(inwards[place + 1][0].base - base) > 1.6 * usual
            numbers = frozenset(int(digits[:6]) for digits in _DIGITS.findall(text)[:20])
            key = _DIGITS.sub("#", text).casefold()
            lines = tuple(map(id, row))
            found.append(Edge(is_top, place, base, text, key, numbers, is_small, is_apart, lines))
    return found


def running(page: int, edges: Mapping[int, Sequence[Edge]], twins: Collection[int], count: int) -> set[int]:
    """Return the identities of the lines of a page, from 0, that are a running head or foot.

    Twins are pages like it, such as a copy: what they have in common is no running head. Of a document of few pages,
    only numbers of pages are left out.
    """
    if count <= 3:
        outer = [edge for edge in edges[page] if edge.place == 0 and _is_page_number(edge.text, page + 1, count)]
        return {line for edge in outer for line in edge.lines}
    others = [(number - page, edge) for number, some in edges.items() if number not in (page, *twins) for edge in some]
    found: set[int] = set()
    for is_top in (True, False):
        rows = [edge for edge in edges[page] if edge.is_top == is_top]
        near = [(pages, edge) for pages, edge in others if edge.is_top == is_top]
        deepest = max((edge.place for edge in rows if _comes_again(edge, near)), default=-1)
        # what is further out than a running head is one as well, like the lines of a letterhead
        gone = [edge for edge in rows if edge.place <= deepest]
        # the first page keeps what says more than its number, so that it is read once
        found |= {line for edge in gone if page or _DIGITS.search(edge.text) for line in edge.lines}
    return found


def _comes_again(edge: Edge, others: Sequence[tuple[int, Edge]]) -> bool:
    """Return whether a row stands on other pages too, which are so many pages further on."""
    if edge.place and not edge.is_apart:  # the first lines of a form or a table may be alike, too
        return False
    near = [(pages, other) for pages, other in others if abs(other.y - edge.y) <= _SAME_HEIGHT]
    if any(  # nothing differs but numbers, one of which grows with the pages
        other.key == edge.key and any(number + pages in other.numbers for number in edge.numbers)
        for pages, other in near
    ):
        return True
    if not edge.is_small:  # the title of a slide is no head
        return False
    outer = [(pages, other) for pages, other in near if edge.place == 0 == other.place]
    alike = {pages for pages, other in outer if other.is_apart and abs(other.y - edge.y) <= 1.0}
    if edge.is_apart and len(alike) >= 3:
        return True
    return any(other.text == edge.text for _, other in near)


def _is_page_number(text: str, page: int, count: int) -> bool:
    """Return whether a row is nothing but the number of its page, as `2` or `Page 2 of 3`."""
    numbers = [int(digits[:6]) for digits in _DIGITS.findall(text)]
    letters = sum(map(str.isalpha, text))
    return (numbers == [page] and not letters) or (numbers == [page, count] and letters <= 12)


def ends_of(page: Page) -> Counter[tuple[str, str, int]]:
    """Return the first and last words of the lines of a page with their heights, each with its count."""
    return Counter((line.words[0].text, line.words[-1].text, round(line.base)) for line in page.lines)


def are_twins(one: Counter[tuple[str, str, int]], other: Counter[tuple[str, str, int]]) -> bool:
    """Return whether most lines of two pages are alike in the same places, as on an invoice and its copy."""
    shorter = min(one.total(), other.total())
    return shorter >= 10 and (one & other).total() > 0.5 * shorter
