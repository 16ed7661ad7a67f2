"""The order in which what is on a page is read: down one column, then the next, between what spans them.

In the spirit of the XY cut (Nagy, Seth, Viswanathan 1992), but what spans columns parts them into bands instead of
hiding the gap between them.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

_LEAST = 3  # lines of text side by side that make columns
_MOST = 24  # places that are tried for a gap
_ALIKE = 3.0  # points between left edges that are one
_DEEPEST = 3  # columns within columns
_LEAST_CARD = 6  # pieces of lines on each side of a strip
_WIDE = 0.8  # of the size: a strip that parts a page
_SHARED = 0.5  # share of base lines that both sides of it may have in common
_REACH = 0.15  # share of the narrower column that a line must reach into to span both
_NEARLY = 0.8  # share of the best count that another place may have to be taken for the same gap
_SAME = 0.7  # points between base lines that are one
_TERMS = 0.8  # share of the lines across a gap that go from bold type to another
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
    split = (_gap(units) or _strip(units)) if depth < _DEEPEST else None
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
    return min(edge for score, edge in scores if score >= _NEARLY * best) - 1.0, west, east


def _strip(units: Sequence[U]) -> tuple[float, float, float] | None:
    """Return the widest strip that nothing reaches into, if what stands beside it does not share its lines.

    So a page of cards, whose lines are short, is parted, and a table, whose rows go across, is not.
    """
    if len(units) < 2 * _LEAST_CARD:
        return None
    found: list[tuple[float, float]] = []
    end = float("inf")
    for unit in sorted(units, key=lambda unit: unit.left):
        if unit.left - end >= _WIDE * unit.size:
            found.append((unit.left - end, (end + unit.left) / 2))
        end = unit.right if end == float("inf") else max(end, unit.right)
    pairs = _neighbours(units)
    for _, x in sorted(found, reverse=True)[:_MOST]:
        if _are_terms(pairs, x):
            continue
        sides = sorted(([u.base for u in units if u.right < x], [u.base for u in units if u.left > x]), key=len)
        bases = sorted(sides[1])
        if len(sides[0]) >= _LEAST_CARD and sum(_is_in(bases, base) for base in sides[0]) < _SHARED * len(sides[0]):
            return x, min(unit.left for unit in units), max(unit.right for unit in units)
    return None


def _neighbours(units: Sequence[U]) -> list[tuple[U, U]]:
    """Return each unit that is not the first on its base line, after the one before it."""
    in_rows = sorted(units, key=lambda unit: (-round(unit.base), unit.left))
    return [
        (one, other)
        for one, other in pairwise(in_rows)
        if abs(one.base - other.base) <= _SAME and one.right <= other.left
    ]


def _are_terms(pairs: Sequence[tuple[U, U]], x: float) -> bool:
    """Whether what stands left of a place is bold and what goes on right of it is not: terms, each with its text."""
    across = [(one.is_bold, other.is_bold) for one, other in pairs if one.right <= x <= other.left]
    return len(across) >= _LEAST and across.count((True, False)) >= _TERMS * len(across)


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
    reach = _REACH * min(x - west, east - x)
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
