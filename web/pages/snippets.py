"""Render the snippet, text or section of a passage as safe HTML with its matches marked."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from markupsafe import Markup, escape

from rag.query.results import Span, TextBlock

SNIPPET_CHARS = 320
LEAD_CHARS = 110
MAX_WORD_CHARS = 120
CELL = " | "
MARK = Markup("<mark>")
SHAPES = {
    "text": Markup("<p>{}</p>"),
    "table": Markup('<div class="rows" tabindex="0"><table>{}</table></div>'),
    "code": Markup('<pre tabindex="0"><code>{}</code></pre>'),
}
ROW, ROW_CELL = Markup("<tr>{}</tr>"), Markup("<td>{}</td>")
CUT = Markup('<span class="cut">…</span>')

_BREAK = re.compile(r"\s+")
# Matches the end of a sentence. A full stop after "7" or "J", or before a lower-case letter, is not an end.
_STOP = re.compile(r"""(?:(?<=[^\W\d_]{2})|(?<=[)\]"'”’]))[.!?…]+["'”’)\]]*\s+(?=[^\sa-z])|[。！？｡]+[」』”）]*""")
_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")


class ShownBlock(NamedTuple):
    """The span of a paragraph, a table or code in a text, without blank lines at its ends."""

    start: int
    end: int
    kind: Literal["text", "table", "code"]


def make_text(
    text: str,
    highlights: Iterable[Span] = (),
    blocks: Iterable[TextBlock] = (),
    *,
    is_code: bool = False,
    size: float = math.inf,
) -> Markup:
    """Render a text as HTML with its matches marked. If it is longer than `size`, render only a snippet of it.

    The snippet is the part with the most matching words. It consists of whole sentences, table rows or lines of code,
    unless one of them is longer than `size`.

    Args:
        text: a passage.
        highlights: spans [start, end) of matching characters.
        blocks: code and tables in the passage.
        is_code: whether the whole passage is source code.
        size: approximate maximum length of a snippet in characters, such as SNIPPET_CHARS.
    """
    text = text.rstrip()
    spans = merge_spans(highlights, len(text))
    shown = split_blocks(text, blocks, is_code=is_code)
    return _render(text, shown, spans, (0, len(text)) if len(text) <= size else _window(text, shown, spans, int(size)))


def make_section(
    section: str, text: str, highlights: Iterable[Span], blocks: Sequence[TextBlock] = (), *, is_code: bool = False
) -> Markup:
    """Render a section as HTML, with the passage `text` emphasised. `blocks` are code and tables in the section."""
    section, text = section.rstrip(), text.rstrip()
    start = section.find(text)
    if start < 0:
        return make_text(section, (), blocks, is_code=is_code)
    end = start + len(text)
    rest = end + len(section[end:]) - len(section[end:].lstrip("\n"))

    def piece(first: int, last: int, spans: Iterable[Span] = ()) -> Markup:
        inside = [TextBlock(max(0, a - first), b - first, kind) for a, b, kind in blocks if a < last and b > first]
        return make_text(section[first:last], spans, inside, is_code=is_code)

    passage = piece(start, end, highlights)
    if len(text) == len(section):
        return passage
    return piece(0, start) + Markup('<div class="passage">{}</div>').format(passage) + piece(rest, len(section))


def merge_spans(spans: Iterable[Span], length: int) -> list[Span]:
    """Sort spans, clip them to a text with `length` characters, and merge overlapping and adjacent spans."""
    merged: list[Span] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def mark(text: str, spans: Iterable[Span], start: int, end: int) -> Markup:
    """Escape text[start:end], and put <mark> around the spans, which must be sorted and disjoint."""
    pieces: list[Markup] = []
    position = start
    for span_start, span_end in spans:
        first, right = max(span_start, start), min(span_end, end)
        if first < right:
            pieces += [escape(text[position:first]), MARK, escape(text[first:right]), Markup("</mark>")]
            position = right
    pieces.append(escape(text[position:end]))
    return Markup("").join(pieces)


def _render(text: str, blocks: Iterable[ShownBlock], spans: list[Span], shown: Span) -> Markup:
    """Render the span `shown` of a text, with an ellipsis for omitted text before and after."""
    start, end = shown
    visible = [ShownBlock(max(block.start, start), min(block.end, end), block.kind) for block in blocks]
    visible = [block for block in visible if block.start < block.end]
    elements: list[Markup] = []
    for block in visible:
        if block.kind == "table":
            inner, cut = Markup(""), ROW.format(ROW_CELL.format(CUT))
            for line_start, line_end in _lines(text, block.start, block.end):
                row, position = Markup(""), line_start
                for cell in text[line_start:line_end].split(CELL):
                    row += ROW_CELL.format(mark(text, spans, position, position + len(cell)))
                    position += len(cell) + len(CELL)
                inner += ROW.format(row)
        else:
            inner, cut = mark(text, spans, block.start, block.end), CUT
        gap = {"code": "\n", "table": ""}.get(block.kind, " ")
        if block is visible[0] and text[:start].strip():
            inner = cut + gap + inner
        if block is visible[-1] and text[end:].strip():
            inner = inner + gap + cut
        elements.append(SHAPES[block.kind].format(inner))
    return Markup("").join(elements)


def _window(text: str, blocks: list[ShownBlock], spans: list[Span], size: int) -> Span:
    units = [unit for block in blocks for unit in _units(text, block, size)]

    def words_from(first: int) -> int:
        limit = units[first][0] + size
        inside = (text[start:end] for start, end in spans if units[first][0] <= start and end <= limit)
        # Words with the same first four letters count once, because they are often forms of one word.
        return len({word[:4].casefold() for word in inside})

    matched = [at for at, unit in enumerate(units) if any(start < unit[1] and unit[0] < end for start, end in spans)]
    first = last = max(matched, key=words_from) if matched else 0
    while last + 1 < len(units) and units[last + 1][1] - units[first][0] <= size:
        last += 1
    while first > 0 and units[last][1] - units[first - 1][0] <= size + LEAD_CHARS:
        first -= 1
    return units[first][0], units[last][1]


def _units(text: str, block: ShownBlock, size: int) -> list[Span]:
    """Split a block into sentences, table rows or lines of code, and return their spans. Long spans are split again."""
    units: list[Span] = []
    for line_start, line_end in _lines(text, block.start, block.end):
        is_prose = block.kind not in ("code", "table")
        stops = [stop.end() for stop in _STOP.finditer(text, line_start, line_end)] if is_prose else []
        for start, end in pairwise([line_start, *stops, line_end]):
            piece = text[start:end]
            start += 0 if block.kind == "code" else len(piece) - len(piece.lstrip())
            end -= len(piece) - len(piece.rstrip())
            while end - start > size:
                spaces = [space.start() for space in _BREAK.finditer(text, start + 1, start + size // 2)]
                after = _BREAK.search(text, start + size // 2, min(end, start + size // 2 + MAX_WORD_CHARS))
                stop = spaces[-1] if spaces else after.start() if after else start + size // 2
                units.append((start, stop))
                start = stop + len(text[stop:end]) - len(text[stop:end].lstrip())
            if start < end:
                units.append((start, end))
    return units or [(block.start, block.end)]


def split_blocks(text: str, blocks: Iterable[TextBlock] = (), *, is_code: bool = False) -> list[ShownBlock]:
    """Split a text into code, tables and paragraphs. Blank lines separate paragraphs."""
    if is_code:
        blocks = [TextBlock(0, len(text), "code")]
    shown: list[ShownBlock] = []
    position = 0
    kind: Literal["text", "table", "code"]
    for start, end, kind in [*blocks, (len(text), len(text), "text")]:  # type: ignore[assignment]
        gaps = [gap.span() for gap in _BLANK.finditer(text, position, start)]
        ends = [position, *chain(*gaps), max(position, start)]
        shown += [ShownBlock(*_bounds(text, *each), "text") for each in zip(ends[::2], ends[1::2], strict=True)]
        shown.append(ShownBlock(*_bounds(text, start, end), kind))
        position = end
    return [block for block in shown if block.start < block.end]


def _lines(text: str, start: int, end: int) -> list[Span]:
    """Return the spans of all lines in text[start:end], without their line breaks."""
    spans, position = [], start
    for line in text[start:end].split("\n"):
        spans.append((position, position + len(line)))
        position += len(line) + 1
    return spans


def _bounds(text: str, start: int, end: int) -> Span:
    """Return the span of text[start:end] without white space at its ends, but with the first indentation."""
    piece = text[start:end]
    indent = len(piece) - len(piece.lstrip())
    return start + piece.rfind("\n", 0, indent) + 1, start + len(piece.rstrip())
