"""Running heads and feet: what stands at the edge of several pages near each other, or counts them."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from indexer.read.pdf.lines import Line, rows_of

NEAR = 4  # pages before and after, in which a head comes again: it may change from left to right page, and by chapter
_ROWS = 6  # at each edge
_SHARE = 0.17  # of the height, at each edge
_ALIKE = 6.0  # points between heights that are one
_EQUAL = 1.0  # points between heights of heads whose texts differ
_OFTEN = 3  # pages near, at least, on which something stands apart where they stand
_LARGEST = 1.25  # times the size of the text
_APART = 1.6  # of the size: more than lines of text are from each other
_FEW = 3  # pages of a document whose running heads stay
_TWINS = 0.5  # share of lines that pages like each other have in common
_LEAST_ALIKE = 10  # lines of a page
_OF_A_NUMBER = 12  # letters around the number of a page and that of all
_LONGEST = 200  # characters
_MOST_NUMBERS = 20  # of a row
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
        for place, row in enumerate(inwards[:_ROWS]):
            if row[0].base > top - _SHARE * height if is_top else row[0].base < bottom + _SHARE * height:
                step = abs(inwards[place + 1][0].base - row[0].base) if place + 1 < len(inwards) else 0.0
                is_small = max(line.size for line in row) <= _LARGEST * usual
                edge = _edge(row, is_top, place, is_small, step > _APART * usual)
                found += [edge] if edge else []
    return found


def _edge(row: Sequence[Line], is_top: bool, place: int, is_small: bool, is_apart: bool) -> Edge | None:
    text = " ".join(line.text for line in row)
    if len(text) > _LONGEST:
        return None
    words = text.split()
    ends = {words[0].strip("[]()–—-.,:"), words[-1].strip("[]()–—-.,:")}
    numbers = tuple(number for word in ends if (number := _value(word)))
    inside = frozenset(int(digits[:6]) for digits in _DIGITS.findall(text)[:_MOST_NUMBERS])
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
    if count <= _FEW:
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
            and abs(other.y - edge.y) <= _ALIKE
            and _is_same_but_for_pages(edge, other, number - page)
            for number, other in others
        )
    if edge.place == 0 and edge.is_apart:
        alike = {
            number
            for number, other in others
            if other.is_top == edge.is_top and other.place == 0 and other.is_apart and abs(other.y - edge.y) <= _EQUAL
        }
        if len(alike) >= _OFTEN:
            return True
    return any(
        other.is_top == edge.is_top
        and abs(other.y - edge.y) <= _ALIKE
        and (
            other.text == edge.text
            or _is_same_but_for_pages(edge, other, number - page)
            or (edge.place == 0 == other.place and _counts(edge, other, number - page))
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
    return edge.place == 0 and (
        (numbers == [page] and not letters) or (numbers == [page, count] and letters <= _OF_A_NUMBER)
    )


def are_twins(one: Mapping[Ends, int], other: Mapping[Ends, int]) -> bool:
    """Return whether most lines of two pages are alike in the same places, as on an invoice and its copy."""
    shorter = min(sum(one.values()), sum(other.values()))
    common = sum(min(count, other[line]) for line, count in one.items() if line in other)
    return shorter >= _LEAST_ALIKE and common > _TWINS * shorter


def ends_of(lines: Iterable[Line]) -> Mapping[Ends, int]:
    """Return the first and last words of the lines of a page with their heights, each with its count."""
    return Counter((line.words[0].text, line.words[-1].text, round(line.base)) for line in lines)


def _counts(edge: Edge, other: Edge, pages: int) -> bool:
    """Whether a number at the end of a row grows with the pages."""
    return any(before + pages == after for before in edge.numbers for after in other.numbers)
