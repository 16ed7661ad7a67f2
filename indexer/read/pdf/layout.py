"""Order the columns of a page, find running heads and feet, and group lines into paragraphs, list items and code."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from indexer.read.pdf.lines import LINE_END_MARK, PdfLine, group_rows, merge_segments, separator
from indexer.read.pdf.page import PdfPage, read_page
from indexer.read.pdf.tables import Table, find_boxed_tables, find_ruled_tables

_MIN_LINES = 3
_MAX_COLUMN_CANDIDATES = 24
_EDGE_TOLERANCE_POINTS = 3.0
_MIN_SIDE_LINES = 6
_BASE_TOLERANCE_POINTS = 0.7
_MIN_FULL_WIDTH = 0.55  # minimum width of the median line, as a share of the column's width
_COMPARED_PAGES = 4  # pages on each side; left and right pages may have different heads
_EDGE_HEIGHT_SHARE = 0.17
_SHORT_PAGE_WORDS = 30
_HEIGHT_TOLERANCE_POINTS = 6.0
_DIGITS = re.compile(r"\d+")

PageElement = PdfLine | Table


def _order_columns(elements: Sequence[PageElement], depth: int = 0) -> list[list[PageElement]]:
    split = (_column_gap(elements) or _empty_strip(elements)) if depth < 3 else None
    if split is None:
        return [sorted(elements, key=lambda element: (-element.base, element.x0))] if elements else []
    columns: list[list[PageElement]] = []
    spanning, bands = _split_bands(elements, *split)
    for place, (left, right) in enumerate(bands):
        columns += _order_columns(left, depth + 1) + _order_columns(right, depth + 1)
        if place < len(spanning):
            if left or right or not columns:
                columns.append([])
            columns[-1].append(spanning[place])
    return [column for column in columns if column]


def _column_gap(elements: Sequence[PageElement]) -> tuple[float, float, float] | None:
    """Return `(x of the border between two columns, left edge, right edge)`, or None if there is only one column."""
    prose = sorted((element for element in elements if element.is_prose), key=lambda element: element.x0)
    if len(prose) < 2 * _MIN_LINES:
        return None
    edges: list[list[float]] = []
    for element in prose:
        if not edges or element.x0 - edges[-1][0] > _EDGE_TOLERANCE_POINTS:
            edges.append([])
        edges[-1].append(element.x0)
    west, east = prose[0].x0, max(element.x1 for element in prose)
    starts = sorted(((len(edge), edge[0]) for edge in edges if len(edge) >= _MIN_LINES), reverse=True)
    pairs = _neighbours(elements)
    columns = [edge for _, edge in starts if edge > west + _EDGE_TOLERANCE_POINTS][:_MAX_COLUMN_CANDIDATES]
    scores = [
        (_count_parallel_lines(elements, edge - 1.0, west, east), edge)
        for edge in columns
        if not _separates_terms(pairs, edge - 1.0)
    ]
    best = max((score for score, _ in scores), default=0)
    if best < _MIN_LINES:
        return None
    # choose the leftmost edge with a good score, because lines at edges further right are indented
    return min(edge for score, edge in scores if score >= 0.8 * best) - 1.0, west, east


def _empty_strip(elements: Sequence[PageElement]) -> tuple[float, float, float] | None:
    """Return `(middle of an empty strip between two texts, left edge, right edge)`, or None if there is no strip."""
    if len(elements) < 2 * _MIN_SIDE_LINES:
        return None
    ordered = sorted(elements, key=lambda element: element.x0)
    strips: list[tuple[float, float]] = []
    end = ordered[0].x1
    for element in ordered[1:]:
        if element.x0 - end >= 0.8 * element.size:
            strips.append((element.x0 - end, (end + element.x0) / 2))
        end = max(end, element.x1)
    pairs = _neighbours(elements)
    for _, x in sorted(strips, reverse=True)[:_MAX_COLUMN_CANDIDATES]:
        sides = [sorted(u.base for u in elements if u.x1 < x), sorted(u.base for u in elements if u.x0 > x)]
        few, many = sorted(sides, key=len)
        places = ((base, bisect_left(many, base - _BASE_TOLERANCE_POINTS)) for base in few)
        shared = sum(place < len(many) and many[place] <= base + _BASE_TOLERANCE_POINTS for base, place in places)
        if len(few) >= _MIN_SIDE_LINES and shared < 0.5 * len(few) and not _separates_terms(pairs, x):
            return x, ordered[0].x0, end
    return None


def _neighbours(elements: Sequence[PageElement]) -> list[tuple[PageElement, PageElement]]:
    rows = pairwise(sorted(elements, key=lambda element: (-round(element.base), element.x0)))
    return [(a, b) for a, b in rows if abs(a.base - b.base) <= _BASE_TOLERANCE_POINTS and a.x1 <= b.x0]


def _separates_terms(pairs: Sequence[tuple[PageElement, PageElement]], x: float) -> bool:
    """Return whether the position `x` separates bold terms from their definitions."""
    across = [(a.is_bold, b.is_bold) for a, b in pairs if a.x1 <= x <= b.x0]
    return len(across) >= _MIN_LINES and across.count((True, False)) >= 0.8 * len(across)


def _count_parallel_lines(elements: Sequence[PageElement], x: float, west: float, east: float) -> int:
    """Return the number of lines left of `x` that have a line to their right, or 0 if `x` does not separate columns."""
    total = 0
    widths: tuple[list[float], list[float]] = [], []
    for band in _split_bands(elements, x, west, east)[1]:
        left_lines, right = texts = [[element for element in side if element.is_prose] for side in band]
        lines = min(map(len, texts))
        if lines < _MIN_LINES or any(3 * len(text) < len(side) for text, side in zip(texts, band, strict=True)):
            continue
        widths[0].extend(element.x1 - element.x0 for element in left_lines)
        widths[1].extend(element.x1 - element.x0 for element in right)
        total += lines
    if not total:
        return 0
    usual = [sorted(side)[len(side) // 2] for side in widths]
    is_full = usual[0] >= _MIN_FULL_WIDTH * (x - west) and usual[1] >= _MIN_FULL_WIDTH * min(east - x, max(widths[1]))
    return total if is_full or (usual[0] >= _MIN_FULL_WIDTH * max(widths[0]) and x - west > 0.4 * (east - west)) else 0


def _typical_pitch(elements: Sequence[PageElement]) -> float:
    bases = sorted(element.base for element in elements)
    steps = sorted(b - a for a, b in pairwise(bases) if b - a > 1.0)
    return steps[len(steps) // 3] if steps else 12.0


def _split_bands(
    elements: Sequence[PageElement], x: float, west: float, east: float
) -> tuple[list[PageElement], list[tuple[list[PageElement], list[PageElement]]]]:
    """Divide a page with two columns. Return the elements that cross the border `x`, from top to bottom.

    Also return `(left elements, right elements)` for each band above, between and below the crossing elements.
    """
    reach = 0.15 * min(x - west, east - x)
    spanning = sorted((u for u in elements if u.x0 < x - reach and u.x1 > x + reach), key=lambda element: -element.base)
    crossing = set(map(id, spanning))
    borders = [-element.base for element in spanning]
    bands: list[tuple[list[PageElement], list[PageElement]]] = [([], []) for _ in range(len(spanning) + 1)]
    for element in elements:
        if id(element) not in crossing:
            side = 0 if element.x1 - x <= x - element.x0 else 1
            bands[bisect_left(borders, -element.base)][side].append(element)
    return spanning, bands


class EdgeRow(NamedTuple):
    """A row near the top or bottom of a page, which may be a running head or foot."""

    is_top: bool
    depth: int  # number of rows between this row and the edge of the page
    y: float
    text: str
    pattern: str  # text with `#` for numbers
    numbers: frozenset[int]
    is_small: bool
    is_apart: bool  # whether a gap separates this row from the next
    line_ids: tuple[int, ...]


def _edge_rows(page: PdfPage) -> list[EdgeRow]:
    bottom, top = page.bottom_and_top
    reach = _EDGE_HEIGHT_SHARE * (top - bottom)
    rows = group_rows(page.lines)
    usual = sorted(line.size for line in page.lines)[len(page.lines) // 2] if rows else 0.0
    edges = []
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
            edges.append(EdgeRow(is_top, place, base, text, key, numbers, is_small, is_apart, lines))
    return edges


def _running_lines(
    page: int, edges: Mapping[int, Sequence[EdgeRow]], similar_pages: Collection[int], count: int, is_short: bool
) -> set[int]:
    """Return the Python `id` of each line of a page that belongs to a running head or foot.

    In a document of at most 3 pages (`count`), only page numbers are running feet. Otherwise, rows are running heads or
    feet if other pages repeat them. `similar_pages` are ignored, because they may be copies of one form, and
    repeat its text. If `is_short`, a row with letters may be a title, so other pages must have exactly the same row.
    """
    if count <= 3:
        outer = [edge for edge in edges[page] if not edge.depth and _is_page_number(edge.text, page + 1, count)]
        return {line for edge in outer for line in edge.line_ids}
    compared = [number for number in edges if number not in (page, *similar_pages)]
    rivals = [(number - page, edge) for number in compared for edge in edges[number]]
    heads: set[int] = set()
    for is_top in (True, False):
        rows = [edge for edge in edges[page] if edge.is_top == is_top]
        near = [(pages, edge) for pages, edge in rivals if edge.is_top == is_top]
        deepest = max((edge.depth for edge in rows if _recurs(edge, near, is_short)), default=-1)
        # rows between a running head and the edge of the page belong to the head, as in a letterhead
        head_rows = [edge for edge in rows if edge.depth <= deepest]
        # on the first page, keep running heads without digits, so that the document contains their text once
        heads |= {line for edge in head_rows if page or _DIGITS.search(edge.text) for line in edge.line_ids}
    return heads


def _recurs(edge: EdgeRow, candidates: Sequence[tuple[int, EdgeRow]], is_short: bool) -> bool:
    """Return whether a row recurs in `candidates`: the rows of other pages, each with its distance in pages."""
    if edge.depth and not edge.is_apart:  # the row belongs to the text, which pages of a form may repeat
        return False
    near = [(pages, other) for pages, other in candidates if abs(other.y - edge.y) <= _HEIGHT_TOLERANCE_POINTS]
    if is_short and any(map(str.isalpha, edge.text)):
        return edge.is_small and any(other.text == edge.text for _, other in near)
    if any(  # another page has the same text with its own page number
        other.pattern == edge.pattern and any(number + pages in other.numbers for number in edge.numbers)
        for pages, other in near
    ):
        return True
    if not edge.is_small:  # a large row may be the title of a slide
        return False
    outer = [(pages, other) for pages, other in near if edge.depth == 0 == other.depth]
    level = {pages: other.is_apart for pages, other in outer if abs(other.y - edge.y) <= 1.0}
    if edge.is_apart and sum(level.values()) >= 3 and all(level.values()):  # text has gaps at varying heights
        return True
    return any(other.text == edge.text for _, other in near)


def _is_page_number(text: str, page: int, count: int) -> bool:
    numbers = [int(digits[:6]) for digits in _DIGITS.findall(text)]
    letters = sum(map(str.isalpha, text))
    return (numbers == [page] and not letters) or (numbers == [page, count] and letters <= 12)


def _share_layout(one: Counter[tuple[str, str, int]], other: Counter[tuple[str, str, int]]) -> bool:
    shorter = min(one.total(), other.total())
    return shorter >= 10 and (one & other).total() > 0.5 * shorter


HYPHENS = ("-", "\u2010")
_DIVIDED_WORD = re.compile(rf"(?<![^\W\d_])([^\W\d_]++)[-\u2010]{LINE_END_MARK}([^\W\d_]+)")
_SPELLING = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_ITEM = re.compile(r"[•◦▪‣∙●○■□◆◇►▶✓➢–—*·-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|\[\d{1,3}\]")
_INDENT_EM = 0.6


class Hyphens:
    """Decides whether to keep hyphens at line ends, by the spellings of the same words elsewhere in the document."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the spellings, with and without a hyphen, of each word that is divided at a line end."""
        texts = list(texts)
        parted = [match.groups() for text in texts if LINE_END_MARK in text for match in _DIVIDED_WORD.finditer(text)]
        spellings = {(a + hyphen + b).casefold() for a, b in parted for hyphen in ("", "-")}
        self._counts: Counter[str] = Counter()
        if spellings:
            words = (word for text in texts for word in _SPELLING.findall(text.casefold().replace("\u2010", "-")))
            self._counts.update(word for word in words if word in spellings)

    def resolve(self, text: str) -> str:
        """Join words that are divided at line ends, and keep the hyphen if the document usually spells them with it."""
        return _DIVIDED_WORD.sub(self._rejoin, text).replace(LINE_END_MARK, "") if LINE_END_MARK in text else text

    def _rejoin(self, match: re.Match[str]) -> str:
        first, second = match.groups()
        with_hyphen, without = (self._counts[(first + hyphen + second).casefold()] for hyphen in ("-", ""))
        around = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
        stays_by_default = second[0].isupper() or "-" in around
        stays = stays_by_default if with_hyphen == without else with_hyphen > without
        return f"{first}-{second}" if stays else first + second


@dataclass(frozen=True, slots=True)
class PdfBlock:
    """A paragraph, a list item, a table, code, or the whole text of a page whose layout is not analysed."""

    kind: str  # "text", "item", "code", "table" or "page"
    text: str
    size: float = 0.0
    is_bold: bool = False
    is_short: bool = False
    head: str = ""
    is_bullet: bool = False
    continues: bool = False  # the last line is full and ends in the middle of a sentence


def read_pages(document: Any, scanned: list[int]) -> Iterator[list[PdfBlock]]:
    """Yield the blocks of each page. Adds the number of each scanned page to `scanned`. The first page has number 1."""
    count = len(document)
    near: dict[int, tuple[PdfPage, list[EdgeRow], Counter[tuple[str, str, int]]]] = {}
    for index in range(count + _COMPARED_PAGES):
        if index < count:
            page = read_page(document, index)
            if page.is_scan:
                scanned.append(index + 1)
            ends = Counter((line.words[0].text, line.words[-1].text, round(line.base)) for line in page.lines)
            near[index] = page, _edge_rows(page), ends
        number = index - _COMPARED_PAGES
        if number >= 0:
            page, _, ends = near[number]
            similar_pages = [each for each, other in near.items() if each != number and _share_layout(ends, other[2])]
            edges = {each: other[1] for each, other in near.items()}
            is_short = sum(len(line.words) for line in page.lines) < _SHORT_PAGE_WORDS
            yield _lay_out(page, _running_lines(number, edges, similar_pages, count, is_short))
            near.pop(number - _COMPARED_PAGES, None)


def _lay_out(page: PdfPage, heads: Collection[int]) -> list[PdfBlock]:
    """Return the blocks of a page in reading order, without the lines whose Python `id` is in `heads`."""
    blocks = [PdfBlock("page", page.text)] if page.text.strip() else []
    if page.lines:
        lines = [line for line in page.lines if id(line) not in heads] or page.lines  # do not remove all lines
        in_boxes, lines, rules = find_boxed_tables(lines, page.drawn)
        tables, lines = find_ruled_tables(lines, rules)
        for column in _order_columns([*in_boxes, *tables, *lines]):
            blocks += _group_blocks(_merge_lines(column))
    return blocks + [PdfBlock("text", note) for note in page.notes]


def _merge_lines(column: Sequence[PageElement]) -> list[PageElement]:
    merged: list[PageElement] = []
    for _, elements in groupby(column, key=lambda element: isinstance(element, Table)):
        run = list(elements)
        lines = [element for element in run if isinstance(element, PdfLine)]
        merged += map(merge_segments, group_rows(lines)) if lines else run
    return merged


def _group_blocks(column: Sequence[PdfLine | Table]) -> Iterator[PdfBlock]:
    pitch = _typical_pitch(column)
    lines = [element for element in column if isinstance(element, PdfLine)]
    ends = sorted(line.x1 for line in lines)
    right = ends[len(ends) * 9 // 10] if ends else 0.0
    code: set[int] = set()
    if not all(line.is_monospaced for line in lines):
        for is_monospaced, group in groupby(column, key=lambda line: isinstance(line, PdfLine) and line.is_monospaced):
            fixed = list(map(id, group))
            code.update(fixed if is_monospaced and len(fixed) > 1 else ())
    run: list[PdfLine] = []
    for element in column:
        if isinstance(element, Table):
            yield from _make_block(run, right)
            run = []
            yield PdfBlock("table", element.text, element.size, head=element.head)
            continue
        is_other = False
        if run and id(element) in code and id(run[-1]) in code:
            is_other = abs(element.size - run[-1].size) > 0.1 or run[-1].base - element.base > 3.2 * element.size
        elif run:
            is_other = id(element) in code or id(run[-1]) in code or _opens_block(element, run, pitch, right)
        if is_other:
            yield from _make_block(run, right)
            run = []
        run.append(element)
    yield from _make_block(run, right)


def _is_item(text: str) -> bool:
    mark, _, rest = text.partition(" ")
    return bool(rest) and bool(_ITEM.fullmatch(mark))


def _opens_block(line: PdfLine, run: Sequence[PdfLine], pitch: float, right: float) -> bool:
    last = run[-1]
    step = last.base - line.base
    if step > 1.25 * max(pitch, 1.05 * line.size):
        return True
    if abs(line.size - last.size) > 0.08 * max(line.size, last.size) and not (
        any(abs(word.size - b.size) <= 0.1 for a, b in ((line, last), (last, line)) for word in a.words)
        and _is_wrapped(last, line, right)
    ):
        return True
    if line.is_bold != last.is_bold and (last.is_bold or _ends_sentence(last)):
        return True
    is_list = _is_item(run[0].text)
    if _is_item(line.text) and (is_list or _ends_sentence(last) or line.x0 > last.x0 - 1):
        return True
    if is_list:
        return line.x0 <= run[0].x0 + 1 and _ends_sentence(last)
    if line.x0 > last.x0 + _INDENT_EM * line.size:
        return _ends_sentence(last) or last.x1 < right - 2 * line.size
    return False


def _ends_sentence(line: PdfLine) -> bool:
    return line.words[-1].text.rstrip("”\"')]»").endswith((".", ":", "!", "?", "。"))


def _is_wrapped(line: PdfLine, after: PdfLine, right: float) -> bool:
    """Return whether a line was wrapped: the next word did not fit, or the sentence continues in lower case."""
    word = after.words[0]
    if line.has_wide_gaps or after.has_wide_gaps:
        return False
    return line.x1 + 0.25 * line.size + (word.x1 - word.x0) > right - 2.0 * line.size or (
        not _ends_sentence(line) and word.text[0].islower()
    )


def _make_block(run: Sequence[PdfLine], right: float) -> Iterator[PdfBlock]:
    if not run:
        return
    if len(run) > 1 and all(line.is_monospaced for line in run):
        yield PdfBlock("code", _code_text(run), run[0].size)
        return
    texts = [line.text for line in run]
    pieces = texts[:1]
    for (before, line), (above, text) in zip(pairwise(run), pairwise(texts), strict=True):
        pieces += separator(above, text) if _is_wrapped(before, line, right) else "\n", text
    first = run[0]
    is_item = _is_item(first.text)
    yield PdfBlock(
        "item" if is_item and len(first.words) > 1 else "text",
        "".join(pieces),
        round(max(line.size for line in run) * 2) / 2,
        all(line.is_bold for line in run),
        is_short=len(run) <= 4,
        is_bullet=is_item and not first.text[0].isalnum() and first.text[0] not in "([",
        continues=not _ends_sentence(run[-1]) and run[-1].x1 > right - 4 * first.size,
    )


def _code_text(run: Sequence[PdfLine]) -> str:
    widths = sorted((word.x1 - word.x0) / len(word.text) for line in run for word in line.words)
    width = max(widths[len(widths) * 3 // 4], 0.2 * run[0].size)
    min_x = min(line.x0 for line in run)
    pitch = _typical_pitch(run)
    gaps = ["", *("\n" * (1 + (above.base - line.base > 1.6 * pitch)) for above, line in pairwise(run))]
    indents = (" " * min(round((line.x0 - min_x) / width), 200) for line in run)
    return "".join(gap + indent + line.text for gap, indent, line in zip(gaps, indents, run, strict=True))
