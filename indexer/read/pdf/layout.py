"""Order the columns of a page, and find its running heads and feet."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

from indexer.read.pdf.lines import Line, rows_of

_LEAST = 3  # lines of text side by side that make columns
_MOST = 24  # places that are tried for a gap
_ALIKE = 3.0  # points between left edges that are one
_LEAST_CARD = 6  # pieces of lines on each side of a strip
_FULL = 0.55  # share of a column's width that half its lines have


class Unit(Protocol):
    """A piece of a line, or a table."""

    @property
    def left(self) -> float: ...  # noqa: D102
    @property
    def right(self) -> float: ...  # noqa: D102
    @property
    def top(self) -> float: ...  # noqa: D102
    @property
    def bottom(self) -> float: ...  # noqa: D102
    @property
    def base(self) -> float: ...  # noqa: D102
    @property
    def size(self) -> float: ...  # noqa: D102
    @property
    def is_prose(self) -> bool: ...  # noqa: D102
    @property
    def is_bold(self) -> bool: ...  # noqa: D102


U = TypeVar("U", bound=Unit)


def in_order(units: Sequence[U], depth: int = 0) -> list[list[U]]:
    """Return columns and parts of them in reading order; within each, units from the top down."""
    split = (_gap(units) or _strip(units)) if depth < 3 else None
    if split is None:
        return [sorted(units, key=lambda unit: (-unit.base, unit.left))] if units else []
    found: list[list[U]] = []
    spanning, bands = _bands(units, *split)
    for place, (left, right) in enumerate(bands):
        if left or right:
            found += in_order(left, depth + 1) + in_order(right, depth + 1)
        if place < len(spanning):
            if left or right or not found or not place:
                found.append([])
            found[-1].append(spanning[place])
    return [column for column in found if column]


def _gap(units: Sequence[U]) -> tuple[float, float, float] | None:
    """Return where one column ends, with the outer edges of both; None where there is one column."""
    prose = sorted((unit for unit in units if unit.is_prose), key=lambda unit: unit.left)
    if len(prose) < 2 * _LEAST:
        return None
    edges: list[tuple[int, float]] = []  # how many lines begin at a left edge
    first = 0
    for place, unit in enumerate(prose):
        if unit.left - prose[first].left > _ALIKE:
            edges.append((place - first, prose[first].left))
            first = place
    edges.append((len(prose) - first, prose[first].left))
    outer = prose[0].left
    tried = sorted((edge for edge in edges if edge[0] >= _LEAST and edge[1] > outer + _ALIKE), reverse=True)[:_MOST]
    west, east = min(unit.left for unit in prose), max(unit.right for unit in prose)
    pairs = _neighbours(units)
    columns = (edge for _, edge in tried if not _are_terms(pairs, edge - 1.0))
    scores = [(_rows_beside(units, edge - 1.0, west, east), edge) for edge in columns]
    best = max((score for score, _ in scores), default=0)
    if best < _LEAST:
        return None
    # a column begins where its outermost lines do, not where its items or paragraphs are indented
    return min(edge for score, edge in scores if score >= 0.8 * best) - 1.0, west, east


def _strip(units: Sequence[U]) -> tuple[float, float, float] | None:
    """Return the widest strip that nothing reaches into, if what stands beside it does not share its lines.

    So a page of cards, whose lines are short, is parted, and a table, whose rows go across, is not.
    """
    if len(units) < 2 * _LEAST_CARD:
        return None
    found: list[tuple[float, float]] = []
    end = float("inf")
    for unit in sorted(units, key=lambda unit: unit.left):
        if unit.left - end >= 0.8 * unit.size:
            found.append((unit.left - end, (end + unit.left) / 2))
        end = unit.right if end == float("inf") else max(end, unit.right)
    pairs = _neighbours(units)
    for _, x in sorted(found, reverse=True)[:_MOST]:
        if _are_terms(pairs, x):
            continue
        sides = sorted(([u.base for u in units if u.right < x], [u.base for u in units if u.left > x]), key=len)
        bases = sorted(sides[1])
        if len(sides[0]) >= _LEAST_CARD and sum(_is_in(bases, base) for base in sides[0]) < 0.5 * len(sides[0]):
            return x, min(unit.left for unit in units), max(unit.right for unit in units)
    return None


def _neighbours(units: Sequence[U]) -> list[tuple[U, U]]:
    """Return each unit that is not the first on its base line, after the one before it."""
    in_rows = sorted(units, key=lambda unit: (-round(unit.base), unit.left))
    return [
        (one, other)
        for one, other in pairwise(in_rows)
        if abs(one.base - other.base) <= 0.7 and one.right <= other.left
    ]


def _are_terms(pairs: Sequence[tuple[U, U]], x: float) -> bool:
    """Whether what stands left of a place is bold and what goes on right of it is not: terms, each with its text."""
    across = [(one.is_bold, other.is_bold) for one, other in pairs if one.right <= x <= other.left]
    return len(across) >= _LEAST and across.count((True, False)) >= 0.8 * len(across)


def _is_in(bases: Sequence[float], base: float) -> bool:
    place = bisect_left(bases, base - 0.7)
    return place < len(bases) and bases[place] <= base + 0.7


def _rows_beside(units: Sequence[U], x: float, west: float, east: float) -> int:
    """How many lines of text stand beside each other left and right of a place, or 0 where they are no columns."""
    total = 0
    full_left, full_right = [], []
    for left, right in _bands(units, x, west, east)[1]:
        texts = [[unit for unit in side if unit.is_prose] for side in (left, right)]
        if min(len(side) for side in texts) < _LEAST or not _overlap(*texts):
            continue
        if any(3 * len(text) < len(side) for text, side in zip(texts, (left, right), strict=True)):
            continue
        full_left += [unit.right - unit.left for unit in texts[0]]
        full_right += [unit.right - unit.left for unit in texts[1]]
        total += min(len(side) for side in texts)
    if not total:
        return 0
    middle_left, middle_right = (sorted(widths)[len(widths) // 2] for widths in (full_left, full_right))
    is_full = middle_left >= _FULL * (x - west) and middle_right >= _FULL * min(east - x, max(full_right))
    # a column of a few points is none, whatever is in it
    return total if is_full or (middle_left >= _FULL * max(full_left) and x - west > 0.4 * (east - west)) else 0


def _overlap(left: Sequence[U], right: Sequence[U]) -> bool:
    low = max(min(unit.base for unit in left), min(unit.base for unit in right))
    high = min(max(unit.base for unit in left), max(unit.base for unit in right))
    return high - low >= (_LEAST - 1) * typical_pitch(left)


def typical_pitch(units: Sequence[U]) -> float:
    """Return the distance that most lines of a column have from the next, in points."""
    bases = sorted(unit.base for unit in units)
    steps = sorted(step for step in (b - a for a, b in pairwise(bases)) if step > 1.0)
    return steps[len(steps) // 3] if steps else 12.0


def _bands(units: Sequence[U], x: float, west: float, east: float) -> tuple[list[U], list[tuple[list[U], list[U]]]]:
    """What spans a place, from the top down, and what is left and right of it, above, between and below that."""
    reach = 0.15 * min(x - west, east - x)
    spanning = [unit for unit in units if unit.left < x - reach and unit.right > x + reach]
    spanning.sort(key=lambda unit: -unit.base)
    crossing = set(map(id, spanning))
    borders = [-unit.base for unit in spanning]
    bands: list[tuple[list[U], list[U]]] = [([], []) for _ in range(len(spanning) + 1)]
    for unit in units:
        if id(unit) not in crossing:
            side = 0 if unit.right - x <= x - unit.left else 1
            bands[bisect_left(borders, -unit.base)][side].append(unit)
    return spanning, bands


NEAR = 4  # pages before and after, in which a head comes again: it may change from left to right page, and by chapter
_SHARE = 0.17  # of the height, at each edge
_SAME_HEIGHT = 6.0  # points between heights that are one
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"\d{1,5}|[ivxlc]{1,8}", re.IGNORECASE)
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}

Ends = tuple[str, str, int]


class Edge(NamedTuple):
    """A row at the upper or lower edge of a page."""

    is_top: bool
    place: int  # from the edge: 0 is the outermost
    y: float
    text: str
    key: str  # its text without digits
    numbers: tuple[int, ...]  # at its beginning and end
    inside: frozenset[int]  # all of them, the first ones
    is_small: bool  # whether it is not much larger than the text
    is_apart: bool  # whether it is further from the next row than lines of text are
    lines: tuple[int, ...]  # identities of its lines


def edges_of(lines: Sequence[Line], bottom: float, top: float) -> list[Edge]:
    """Return the rows at both edges of a page that reaches from `bottom` to `top`, in points."""
    height = top - bottom
    rows = rows_of(lines)
    sizes = sorted(line.size for line in lines)
    usual = sizes[len(sizes) // 2]
    found = []
    for is_top, inwards in ((True, rows), (False, rows[::-1])):
        for place, row in enumerate(inwards[:6]):
            if row[0].base > top - _SHARE * height if is_top else row[0].base < bottom + _SHARE * height:
                step = abs(inwards[place + 1][0].base - row[0].base) if place + 1 < len(inwards) else 0.0
                is_small = max(line.size for line in row) <= 1.25 * usual
                edge = _edge(row, is_top, place, is_small, step > 1.6 * usual)
                found += [edge] if edge else []
    return found


def _edge(row: Sequence[Line], is_top: bool, place: int, is_small: bool, is_apart: bool) -> Edge | None:
    text = " ".join(line.text for line in row)
    if len(text) > 200:
        return None
    words = text.split()
    ends = {words[0].strip("[]()–—-.,:"), words[-1].strip("[]()–—-.,:")}
    numbers = tuple(number for word in ends if (number := _value(word)))
    inside = frozenset(int(digits[:6]) for digits in _DIGITS.findall(text)[:20])
    key = _DIGITS.sub("#", text).casefold()
    return Edge(is_top, place, row[0].base, text, key, numbers, inside, is_small, is_apart, tuple(map(id, row)))


def _value(word: str) -> int:
    """Return a number in Arabic or Roman digits; 0 for what is none."""
    if not _NUMBER.fullmatch(word):
        return 0
    if word.isdecimal():
        return int(word)
    values = [_ROMAN[letter] for letter in word.lower()]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


def running(page: int, edges: Mapping[int, Sequence[Edge]], twins: Collection[int] = (), count: int = 0) -> set[int]:
    """Return the identities of the lines of a page that are a running head or foot.

    Args:
        page: its number, from 0.
        edges: by page, those of the page and of the ones near it.
        twins: pages like this one, such as a copy; what they have in common is no running head.
        count: how many pages the document has; of one with few, only numbers of pages are left out.
    """
    if count <= 3:
        return {line for edge in edges[page] if _is_page_number(edge, page + 1, count) for line in edge.lines}
    others = [
        (number, edge) for number, found in edges.items() if number != page and number not in twins for edge in found
    ]
    found: set[int] = set()
    for is_top in (True, False):
        own = sorted((edge for edge in edges[page] if edge.is_top == is_top), key=lambda edge: edge.place)
        deepest = max((edge.place for edge in own if _comes_again(page, edge, others)), default=-1)
        # what is further out than a running head is one as well, like the lines of a letterhead
        gone = [edge for edge in own if edge.place <= deepest]
        # the first page keeps what says more than its number, so that it is read once
        found |= {line for edge in gone if page or _DIGITS.search(edge.text) for line in edge.lines}
    return found


def _comes_again(page: int, edge: Edge, others: Sequence[tuple[int, Edge]]) -> bool:
    if edge.place and not edge.is_apart:  # the first lines of a form or a table may be alike, too
        return False
    if not edge.is_small:  # the title of a slide is no head
        return any(
            other.is_top == edge.is_top
            and abs(other.y - edge.y) <= _SAME_HEIGHT
            and _is_same_but_for_pages(edge, other, number - page)
            for number, other in others
        )
    if edge.place == 0 and edge.is_apart:
        alike = {
            number
            for number, other in others
            if other.is_top == edge.is_top and other.place == 0 and other.is_apart and abs(other.y - edge.y) <= 1.0
        }
        if len(alike) >= 3:
            return True
    return any(
        other.is_top == edge.is_top
        and abs(other.y - edge.y) <= _SAME_HEIGHT
        and (
            other.text == edge.text
            or _is_same_but_for_pages(edge, other, number - page)
            or (
                edge.place == 0 == other.place
                and any(before + (number - page) == after for before in edge.numbers for after in other.numbers)
            )
        )
        for number, other in others
    )


def _is_same_but_for_pages(edge: Edge, other: Edge, pages: int) -> bool:
    """Whether two rows differ in nothing but numbers, one of which grows with the pages."""
    return other.key == edge.key and any(before + pages in other.inside for before in edge.inside)


def _is_page_number(edge: Edge, page: int, count: int) -> bool:
    """Whether a row at the outer edge is nothing but the number of its page, as `2` or `Page 2 of 3`."""
    numbers = [int(digits[:6]) for digits in _DIGITS.findall(edge.text)]
    letters = sum(map(str.isalpha, edge.text))
    return edge.place == 0 and ((numbers == [page] and not letters) or (numbers == [page, count] and letters <= 12))


def are_twins(one: Mapping[Ends, int], other: Mapping[Ends, int]) -> bool:
    """Return whether most lines of two pages are alike in the same places, as on an invoice and its copy."""
    shorter = min(sum(one.values()), sum(other.values()))
    common = sum(min(count, other[line]) for line, count in one.items() if line in other)
    return shorter >= 10 and common > 0.5 * shorter


def ends_of(lines: Iterable[Line]) -> Mapping[Ends, int]:
    """Return the first and last words of the lines of a page with their heights, each with its count."""
    return Counter((line.words[0].text, line.words[-1].text, round(line.base)) for line in lines)
