"""Turns a passage and the spans that match into safe HTML: a piece around the matches, or all of it."""

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from web.pages.blocks import CELL, Span, TextBlock, lines_of, split_blocks, unwrap

SNIPPET_CHARS = 320
LEAD_CHARS = 110  # shown at most before the first match of a snippet
LEAD_LINES = 3  # of code before the line with the first match
LONGEST_WORD = 120  # characters without a space that are kept whole: an address, a path
# A full stop after a number, a single letter or before a small one seldom ends a sentence.
_SENTENCE = re.compile(r"""(?:(?<=[^\W\d_]{2})|(?<=[)\]"'”’]))[.!?…]+["'”’)\]]*\s+(?=[^\sa-z])|[。！？｡]+[」』”）]*""")
_BREAK = re.compile(r"\s+")
MARK = Markup("<mark>")
NEAR = Markup('<mark class="near">')  # a sentence that is near in meaning, but has no word of the query
SHAPES = {  # what can be wider than the page is reached by keys, to be scrolled
    "text": Markup("<p>{}</p>"),
    "heading": Markup('<p class="heading">{}</p>'),
    "table": Markup('<div class="rows" tabindex="0"><table>{}</table></div>'),
    "code": Markup('<pre tabindex="0"><code>{}</code></pre>'),
}
ROW, ROW_CELL = Markup("<tr>{}</tr>"), Markup("<td>{}</td>")
CUT = Markup('<span class="cut">…</span>')


def make_snippet(
    text: str,
    highlights: Iterable[Span],
    sentence: Span | None = None,
    *,
    is_code: bool = False,
    size: int = SNIPPET_CHARS,
) -> Markup:
    """Cut about `size` characters around the richest run of matches and mark the matches in it.

    It begins and ends where a sentence, a row or a line of code does; a longer one is cut between words. Where nothing
    matches, `sentence` is marked instead. `is_code` says that the text is of a file of source code.
    """
    text = text.rstrip()
    spans, opening = merge_spans(highlights, len(text)), MARK
    if not spans and sentence:
        spans, opening = merge_spans([sentence], len(text)), NEAR
    text, blocks = _read(text, is_code=is_code)
    start, end = (0, len(text)) if len(text) <= size else _window(text, blocks, spans, size)
    return _render(text, blocks, spans, start, end, opening)


def make_text(text: str, highlights: Iterable[Span] = (), *, is_code: bool = False) -> Markup:
    """Show a text whole, with the spans that match marked."""
    text, blocks = _read(text.rstrip(), is_code=is_code)
    return _render(text, blocks, merge_spans(highlights, len(text)), 0, len(text), MARK)


def make_section(section: str, text: str, highlights: Iterable[Span], *, is_code: bool = False) -> Markup:
    """Show a section whole, its passage `text` set off and marked; without that where it is not in there verbatim."""
    section, text = section.rstrip(), text.rstrip()
    start = section.find(text)
    if start < 0:
        return make_text(section, is_code=is_code)
    passage = make_text(text, highlights, is_code=is_code)
    if len(text) == len(section):
        return passage
    before, after = section[:start], section[start + len(text) :].lstrip("\n")
    around = [make_text(part, is_code=is_code) for part in (before, after)]
    return Markup("").join([around[0], Markup('<div class="passage">'), passage, Markup("</div>"), around[1]])


def merge_spans(spans: Iterable[Span], length: int) -> list[Span]:
    """Sort spans, cut them to the text, drop empty ones and join those that touch."""
    merged: list[Span] = []
    for start, end in sorted((max(0, start), min(end, length)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def mark(text: str, spans: Iterable[Span], start: int, end: int, opening: Markup = MARK) -> Markup:
    """Escape text[start:end] with the parts that lie in sorted, disjoint `spans` inside <mark>."""
    pieces: list[Markup] = []
    position = start
    for span_start, span_end in spans:
        left, right = max(span_start, start), min(span_end, end)
        if left >= right:
            continue
        pieces += [escape(text[position:left]), opening, escape(text[left:right]), Markup("</mark>")]
        position = right
    pieces.append(escape(text[position:end]))
    return Markup("").join(pieces)


def _read(text: str, *, is_code: bool) -> tuple[str, list[TextBlock]]:
    """A text without the breaks that only wrapped its lines, and its blocks."""
    blocks = split_blocks(text, is_code=is_code)
    return unwrap(text, blocks), blocks


def _render(text: str, blocks: Iterable[TextBlock], spans: list[Span], start: int, end: int, opening: Markup) -> Markup:
    """The blocks of text[start:end], each an element; what is cut off at either end is said by an ellipsis."""
    shown = [TextBlock(max(block.start, start), min(block.end, end), block.kind) for block in blocks]
    shown = [block for block in shown if block.start < block.end]
    pieces: list[Markup] = []
    for block in shown:
        if block.kind == "table":
            inner, cut, gap = _rows(text, spans, block, opening), ROW.format(ROW_CELL.format(CUT)), ""
        else:
            inner, cut, gap = mark(text, spans, block.start, block.end, opening), CUT, " "
        gap = "\n" if block.kind == "code" else gap
        if block is shown[0] and text[:start].strip():
            inner = cut + gap + inner
        if block is shown[-1] and text[end:].strip():
            inner = inner + gap + cut
        pieces.append(SHAPES[block.kind].format(inner))
    return Markup("").join(pieces)


def _rows(text: str, spans: list[Span], block: TextBlock, opening: Markup) -> Markup:
    rows = []
    for start, end in lines_of(text, block.start, block.end):
        cells, position = [], start
        for cell in text[start:end].split(CELL):
            cells.append(ROW_CELL.format(mark(text, spans, position, position + len(cell), opening)))
            position += len(cell) + len(CELL)
        rows.append(ROW.format(Markup("").join(cells)))
    return Markup("").join(rows)


def _window(text: str, blocks: list[TextBlock], spans: list[Span], size: int) -> Span:
    units = [unit for block in blocks for unit in _units(text, block, size)]

    def words_from(first: int) -> int:
        limit = units[first][0] + size
        inside = (text[start:end] for start, end in spans if units[first][0] <= start and end <= limit)
        # by their first letters, so that the forms of one word count once
        return len({word[:4].casefold() for word in inside})

    matched = [at for at, unit in enumerate(units) if any(start < unit[1] and unit[0] < end for start, end in spans)]
    # max() keeps the earliest of equals, so the snippet stays near the first match
    first = last = max(matched, key=words_from) if matched else 0
    while last + 1 < len(units) and units[last + 1][1] - units[first][0] <= size:
        last += 1
    in_code = any(block.kind == "code" and block.start <= units[first][0] < block.end for block in blocks)
    for _ in range(LEAD_LINES if in_code else 1):
        if first == 0 or units[last][1] - units[first - 1][0] > size + LEAD_CHARS:
            break
        first -= 1
    while first > 0 and last + 1 == len(units) and units[last][1] - units[first - 1][0] <= size:
        first -= 1
    return units[first][0], units[last][1]


def _units(text: str, block: TextBlock, size: int) -> list[Span]:
    """Lines of code, rows and sentences: what a snippet has whole or not at all; longer ones are cut between words."""
    units: list[Span] = []
    for start, end in lines_of(text, block.start, block.end):
        if block.kind in ("code", "table"):
            pieces = [(start, end)]
        else:
            stops = [found.end() for found in _SENTENCE.finditer(text, start, end)]
            pieces = list(zip([start, *stops], [*stops, end], strict=True))
        for piece in pieces:
            units += _between_words(text, *_stripped(text, *piece, keep_indent=block.kind == "code"), size)
    return [unit for unit in units if unit[0] < unit[1]] or [(block.start, block.end)]


def _stripped(text: str, start: int, end: int, *, keep_indent: bool) -> Span:
    piece = text[start:end]
    return start if keep_indent else start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _between_words(text: str, start: int, end: int, size: int) -> list[Span]:
    """Pieces of at most `size` characters that begin and end between words, where a word is not longer than it may."""
    pieces: list[Span] = []
    most = size // 2
    while end - start > size:
        stops = [found.start() for found in _BREAK.finditer(text, start + 1, start + most)]
        if stops:
            stop = stops[-1]
        else:
            after = _BREAK.search(text, start + most, min(end, start + most + LONGEST_WORD))
            stop = after.start() if after else start + most
        pieces.append((start, stop))
        start = stop + len(text[stop:end]) - len(text[stop:end].lstrip())
    return [*pieces, (start, end)]
