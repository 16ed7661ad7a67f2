"""Turns a passage and the spans that match into safe HTML: a piece around the matches, or all of it.

What was code on its page is plain text in the index. It is recognised by how its lines are built: by the signs they end
in and hold, by indentation and columns, and by what prose has and code has not.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

from markupsafe import Markup, escape

Span = tuple[int, int]  # characters [start, end)

SNIPPET_CHARS = 320
LEAD_CHARS = 110  # above that, shown before the first match
LONGEST_WORD = 120  # characters without a space that are kept whole: an address, a path
CELL = " | "  # between the cells of a row
MARK = Markup("<mark>")
SHAPES = {  # what can be wider than the page is reached by keys, to be scrolled
    "text": Markup("<p>{}</p>"),
    "table": Markup('<div class="rows" tabindex="0"><table>{}</table></div>'),
    "code": Markup('<pre tabindex="0"><code>{}</code></pre>'),
}
ROW, ROW_CELL = Markup("<tr>{}</tr>"), Markup("<td>{}</td>")
CUT = Markup('<span class="cut">…</span>')
_LOOKED_AT = 200  # characters at either end of a line

_BREAK = re.compile(r"\s+")
# A full stop after a number, a single letter or before a small one seldom ends a sentence.
_STOP = re.compile(r"""(?:(?<=[^\W\d_]{2})|(?<=[)\]"'”’]))[.!?…]+["'”’)\]]*\s+(?=[^\sa-z])|[。！？｡]+[」』”）]*""")
_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_ITEM = re.compile(r"\s*(?:[-*•–]|\d+[.)]|[a-z]\))\s+\S")
_ENDS = re.compile(r"(?:[;{}\\\[]|[({,=|]|\)\s*[:,;]?|=>|->|&&|\|\|)\s*\Z|\A\s*[\])}]+[;,]?\s*\Z")
_SIGNS = re.compile(
    r"[$\w\])]\s*(?:[=!<>+*/%&|^-]?=)\s*\S|\w\(.*\)|::|->|=>|&&|\|\||\$\w|\$\{|</?\w[^>]*>|\w\.\w+\(|[{}]|(?:^|\s)(?:--?\w|(?:~|\.{1,2})?/\w)"
)
_PROMPT = re.compile(r"\s*(?:\$|#|>>>|\.\.\.|%|In \[\d*\]:|\w[\w@:~/.-]*[$#>])\s+\S|\s*(?:#!|//|/\*|<!--|--\s)")
_RULE = re.compile(r"(?=.*[-=]{3})[-=+:| ]+")
_COLUMNS = re.compile(r"\S(?: {3,}|\t+)\S")
_PAIR = re.compile(r"\s*(?:- )?[\w.\"'-]+:(?:\s|\Z)")
_CALL = re.compile(r"\w\(")
_WORDS = re.compile(r"(?<!\w)(?:[^\W\d_]+(?:['’][^\W\d_]+)?[,;:.]?(?:\s+|\Z)){6}")
_SENTENCE = re.compile(r"(?<!\w)[^\W\d_]{2,}[,;]?(?: [^\W\d_]+(?:'[^\W\d_]+)?[,;:]?){3,}[^;{}=]*[.!?:]['\")”’]*\Z")


class TextBlock(NamedTuple):
    """A stretch of a text, without the blank lines around it."""

    start: int
    end: int
    kind: Literal["text", "table", "code"]


def make_snippet(text: str, highlights: Iterable[Span], *, is_code: bool = False, size: int = SNIPPET_CHARS) -> Markup:
    """Cut about `size` characters around the richest run of matches and mark the matches in it.

    It begins and ends where a sentence, a row or a line of code does; a longer one is cut between words. `is_code`
    says that the text is of a file of source code.
    """
    text = text.rstrip()
    spans = merge_spans(highlights, len(text))
    blocks = split_blocks(text, is_code=is_code)
    start, end = (0, len(text)) if len(text) <= size else _window(text, blocks, spans, size)
    return _render(text, blocks, spans, (start, end))


def make_text(text: str, highlights: Iterable[Span] = (), *, is_code: bool = False) -> Markup:
    """Show a text whole, with the spans that match marked."""
    text = text.rstrip()
    spans = merge_spans(highlights, len(text))
    return _render(text, split_blocks(text, is_code=is_code), spans, (0, len(text)))


def make_section(section: str, text: str, highlights: Iterable[Span], *, is_code: bool = False) -> Markup:
    """Show a section whole, its passage `text` set off and marked; without that where it is not in there verbatim."""
    section, text = section.rstrip(), text.rstrip()
    start = section.find(text)
    if start < 0:
        return make_text(section, is_code=is_code)
    passage = make_text(text, highlights, is_code=is_code)
    if len(text) == len(section):
        return passage
    before = make_text(section[:start], is_code=is_code)
    after = make_text(section[start + len(text) :].lstrip("\n"), is_code=is_code)
    return before + Markup('<div class="passage">{}</div>').format(passage) + after


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


def mark(text: str, spans: Iterable[Span], start: int, end: int) -> Markup:
    """Escape text[start:end] with the parts that lie in sorted, disjoint `spans` inside <mark>."""
    pieces: list[Markup] = []
    position = start
    for span_start, span_end in spans:
        left, right = max(span_start, start), min(span_end, end)
        if left < right:
            pieces += [escape(text[position:left]), MARK, escape(text[left:right]), Markup("</mark>")]
            position = right
    pieces.append(escape(text[position:end]))
    return Markup("").join(pieces)


def _render(text: str, blocks: Iterable[TextBlock], spans: list[Span], shown: Span) -> Markup:
    """Return the blocks of a stretch, each an element; what is cut off at either end is said by an ellipsis."""
    start, end = shown
    parts = [TextBlock(max(block.start, start), min(block.end, end), block.kind) for block in blocks]
    parts = [part for part in parts if part.start < part.end]
    pieces: list[Markup] = []
    for part in parts:
        if part.kind == "table":
            inner, cut = Markup(""), ROW.format(ROW_CELL.format(CUT))
            for line_start, line_end in _lines(text, part.start, part.end):
                row, position = Markup(""), line_start
                for cell in text[line_start:line_end].split(CELL):
                    row += ROW_CELL.format(mark(text, spans, position, position + len(cell)))
                    position += len(cell) + len(CELL)
                inner += ROW.format(row)
        else:
            inner, cut = mark(text, spans, part.start, part.end), CUT
        gap = {"code": "\n", "table": ""}.get(part.kind, " ")
        if part is parts[0] and text[:start].strip():
            inner = cut + gap + inner
        if part is parts[-1] and text[end:].strip():
            inner = inner + gap + cut
        pieces.append(SHAPES[part.kind].format(inner))
    return Markup("").join(pieces)


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
    while first > 0 and units[last][1] - units[first - 1][0] <= size + LEAD_CHARS:
        first -= 1
    return units[first][0], units[last][1]


def _units(text: str, block: TextBlock, size: int) -> list[Span]:
    """Return lines of code, rows and sentences, which a snippet has whole or not at all; longer ones cut by words."""
    units: list[Span] = []
    for line_start, line_end in _lines(text, block.start, block.end):
        is_prose = block.kind not in ("code", "table")
        stops = [found.end() for found in _STOP.finditer(text, line_start, line_end)] if is_prose else []
        for start, end in pairwise([line_start, *stops, line_end]):
            piece = text[start:end]
            start += 0 if block.kind == "code" else len(piece) - len(piece.lstrip())
            end -= len(piece) - len(piece.rstrip())
            while end - start > size:
                spaces = [found.start() for found in _BREAK.finditer(text, start + 1, start + size // 2)]
                after = _BREAK.search(text, start + size // 2, min(end, start + size // 2 + LONGEST_WORD))
                stop = spaces[-1] if spaces else after.start() if after else start + size // 2
                units.append((start, stop))
                start = stop + len(text[stop:end]) - len(text[stop:end].lstrip())
            if start < end:
                units.append((start, end))
    return units or [(block.start, block.end)]


def split_blocks(text: str, *, is_code: bool = False) -> list[TextBlock]:
    """Return the blocks of a text, which blank lines part; code goes on over those, as far as it looks like code."""
    if is_code:
        return [TextBlock(*_bounds(text, 0, len(text)), "code")] if text.strip() else []
    blocks: list[TextBlock] = []
    position = 0
    for stop, following in [*(gap.span() for gap in _BLANK.finditer(text)), (len(text), len(text))]:
        start, end = _bounds(text, position, stop)
        position = following
        if start >= end:
            continue
        lines = text[start:end].split("\n")
        block = TextBlock(start, end, "table" if _is_table(lines) else "code" if _is_code(lines) else "text")
        goes_on = block.kind == "code" or all(line.startswith(("  ", "\t")) for line in lines)
        is_words = any(_is_prose(line) or _ITEM.match(line) for line in lines)
        if goes_on and not is_words and blocks and blocks[-1].kind == "code":
            block = TextBlock(blocks.pop().start, end, "code")
        blocks.append(block)
    return blocks


def _lines(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of a stretch, with their indentation and without their ends; empty ones too."""
    spans, position = [], start
    for line in text[start:end].split("\n"):
        spans.append((position, position + len(line)))
        position += len(line) + 1
    return spans


def _bounds(text: str, start: int, end: int) -> Span:
    """Cut off empty lines and white space around, but not the indentation of the first line."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + piece.rfind("\n", 0, left) + 1, start + len(piece.rstrip())


def _ends_of(line: str) -> str:
    """Return the part of a line that is looked at: it is bounded, however long the line is."""
    line = line.rstrip()
    return line if len(line) <= 2 * _LOOKED_AT else line[:_LOOKED_AT] + line[-_LOOKED_AT:]


def _is_prose(line: str) -> bool:
    line = _ends_of(line)
    if line.startswith(("    ", "\t")):
        return False
    return bool(_WORDS.search(line) or (_SENTENCE.search(line) and not _CALL.search(line)))


def _is_table(lines: list[str]) -> bool:
    """Whether lines are rows of a table, as readers write them: as many cells each, but for empty ones at the end."""
    if len(lines) < 3 or any(line[:1].isspace() or _ENDS.search(_ends_of(line)) for line in lines):
        return False
    cells = [line.count(CELL) for line in lines]
    return max(cells) > 0 and cells.count(max(cells)) * 4 >= len(lines) * 3


def _is_code(lines: list[str]) -> bool:
    lines = [_ends_of(line) for line in lines]
    indented = sum(line.startswith(("  ", "\t")) for line in lines)
    pairs = sum(bool(_PAIR.match(line)) for line in lines)
    columns = sum(bool(_COLUMNS.search(line)) for line in lines)
    has_rule = len(lines) > 1 and any(_RULE.fullmatch(line) for line in lines)  # as below the head of a table
    if has_rule or (indented and pairs * 3 >= len(lines) * 2) or columns * 2 > len(lines) > 1:
        return True
    if _is_prose(lines[0]) or _ITEM.match(lines[0]) or sum(map(_is_prose, lines)) * 3 > len(lines):
        return False
    signs = sum(bool(_ENDS.search(line)) + bool(_SIGNS.search(line)) + 2 * bool(_PROMPT.match(line)) for line in lines)
    if len(lines) == 1:
        return signs + lines[0].endswith(";") >= 2
    return signs + indented >= len(lines)
