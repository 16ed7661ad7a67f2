"""Lines of a column to paragraphs, items of lists, headings and tables."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from indexer.read.pdf.columns import typical_pitch
from indexer.read.pdf.lines import Line, joined
from indexer.read.pdf.tables import Table

_ITEM = re.compile(r"[•◦▪‣∙●○■□◆◇►▶✓➢–—*·-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|\[\d{1,3}\]")
_FAR = 1.25  # of the usual step between lines: a greater one opens a paragraph
_OTHER_SIZE = 0.08  # share by which sizes of one paragraph may differ
_INDENT = 0.6  # of the size: a first line that begins further in than this
_FAR_CODE = 3.2  # of the size: lines of code that are further from each other are two blocks
_BLANK = 1.6  # of the usual step: a greater one is an empty line of code
_WIDEST = 200  # characters of a line of code before its last word
_MOST_LINES = 4  # of a heading


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, an item of a list, a table, or the text of a page whose layout is not followed."""

    kind: str  # "text", "item", "code", "table", "page"
    text: str
    size: float = 0.0
    is_bold: bool = False
    is_short: bool = False  # it may be a heading by its length
    head: str = ""  # of a table
    top: float = 0.0
    is_bullet: bool = False  # an item without number or letter
    goes_on: bool = False  # it ends where its column does, in the middle of a sentence


def blocks_of(column: Sequence[Line | Table]) -> Iterator[Block]:
    """Yield the blocks of a column, from the top down."""
    pitch = typical_pitch(column)
    right = _right(column)
    code = set(map(id, _code_lines(column)))
    run: list[Line] = []
    for unit in column:
        if isinstance(unit, Table):
            yield from _block(run, right)
            run = []
            yield Block("table", unit.text, unit.size, head=unit.head, top=unit.top)
            continue
        if run and id(unit) in code and id(run[-1]) in code:
            is_other = abs(unit.size - run[-1].size) > 0.1 or run[-1].base - unit.base > _FAR_CODE * unit.size
        else:
            is_other = bool(run) and (bool({id(unit), id(run[-1])} & code) or _opens(unit, run, pitch, right))
        if is_other:
            yield from _block(run, right)
            run = []
        run.append(unit)
    yield from _block(run, right)


def _code_lines(column: Sequence[Line | Table]) -> Iterator[Line]:
    """Yield lines in type of one width that follow each other, unless all of the column is set in it."""
    lines = [unit for unit in column if isinstance(unit, Line)]
    if not all(line.is_fixed for line in lines):
        for is_fixed, found in groupby(column, key=lambda unit: isinstance(unit, Line) and unit.is_fixed):
            run = [unit for unit in found if isinstance(unit, Line)]
            if is_fixed and len(run) > 1:
                yield from run


def _right(column: Iterable[Line | Table]) -> float:
    """Where full lines of a column end."""
    ends = sorted(unit.right for unit in column if isinstance(unit, Line))
    return ends[len(ends) * 9 // 10] if ends else 0.0


def is_item(text: str) -> bool:
    """Return whether a line begins with the mark of an item."""
    mark, _, rest = text.partition(" ")
    return bool(rest) and bool(_ITEM.fullmatch(mark))


def _opens(line: Line, run: Sequence[Line], pitch: float, right: float) -> bool:
    """Whether a line begins another paragraph than the one before it belongs to."""
    last = run[-1]
    step = last.base - line.base
    usual = max(pitch, 1.05 * line.size)
    if step > _FAR * usual or step < -line.size:
        return True
    if abs(line.size - last.size) > _OTHER_SIZE * max(line.size, last.size) and not (
        _share_a_size(line, last) and _is_wrapped(last, line, right)
    ):
        return True
    if line.is_bold != last.is_bold and (last.is_bold or _is_stop(last)):
        return True
    if is_item(line.text) and (is_item(run[0].text) or _is_stop(last) or line.left > last.left - 1):
        return True
    hangs = len(run) > 1 and abs(run[-1].left - line.left) > _INDENT * line.size and line.left < run[-1].left
    if is_item(run[0].text):
        return line.left <= run[0].left + 1 and len(run) >= 1 and (hangs or (len(run) == 1 and _is_stop(last)))
    left = min(one.left for one in run[-3:])
    if line.left > left + _INDENT * line.size and line.left > last.left + _INDENT * line.size:
        return _is_stop(last) or last.right < right - 2 * line.size
    return False


def _share_a_size(one: Line, two: Line) -> bool:
    return any(abs(word.size - b.size) <= 0.1 for a, b in ((one, two), (two, one)) for word in a.words)


def _is_stop(line: Line) -> bool:
    return line.words[-1].text.rstrip("”\"')]»").endswith((".", ":", "!", "?", "。"))


def _block(run: Sequence[Line], right: float) -> Iterator[Block]:
    if not run:
        return
    if len(run) > 1 and all(line.is_fixed for line in run):
        yield Block("code", _code(run), run[0].size, top=run[0].top)
        return
    text = run[0].text
    for before, line in pairwise(run):
        text = joined(text, line.text, is_wrapped=_is_wrapped(before, line, right))
    first = run[0]
    yield Block(
        "item" if is_item(first.text) and len(first.words) > 1 else "text",
        text,
        round(max(line.size for line in run) * 2) / 2,
        all(line.is_bold for line in run),
        len(run) <= _MOST_LINES,
        top=first.top,
        is_bullet=is_item(first.text) and not first.text[0].isalnum() and first.text[0] not in "([",
        goes_on=not _is_stop(run[-1]) and run[-1].right > right - 4 * first.size,
    )


def _code(run: Sequence[Line]) -> str:
    """Return lines of code with their spaces, as far as places tell them."""
    widths = sorted((word.right - word.left) / len(word.text) for line in run for word in line.words)
    width = max(widths[len(widths) * 3 // 4], 0.2 * run[0].size)
    left = min(line.left for line in run)
    pitch = typical_pitch(run)
    texts: list[str] = []
    for number, line in enumerate(run):
        if number and run[number - 1].base - line.base > _BLANK * pitch:
            texts.append("")
        text = ""
        for word in line.words:
            text = text.ljust(min(round((word.left - left) / width), _WIDEST))
            text += word.text if not text or text.endswith(" ") else f" {word.text}"
        texts.append(text)
    return "\n".join(texts)


def _is_wrapped(line: Line, after: Line, right: float) -> bool:
    """Whether a line goes on in the next because there was no more room: its first word would not have fitted."""
    word = after.words[0]
    return line.right + 0.25 * line.size + (word.right - word.left) > right - 2.0 * line.size or (
        not _is_stop(line) and after.words[0].text[0].islower()
    )
