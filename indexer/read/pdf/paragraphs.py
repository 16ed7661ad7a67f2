"""Group the lines of a page into paragraphs, list items, headings, code and tables, in reading order."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from indexer.read.pdf.layout import in_order, typical_pitch
from indexer.read.pdf.lines import HYPHEN, Line, joint
from indexer.read.pdf.page import Page
from indexer.read.pdf.tables import Table, boxed, ruled, unruled

HYPHENS = ("-", "\u2010")
_PARTED = re.compile(rf"(?<![^\W\d_])([^\W\d_]++)([-\u2010]){HYPHEN}([^\W\d_]+)")
_FIRST = re.compile(r"[^\W\d_]{1,60}")
_INSIDE = re.compile(r"[^\W\d_]\u2010[^\W\d_]")
_SPELLING = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_LONGEST_END = 64  # characters at the end of a text in which its last word is looked for
_ITEM = re.compile(r"[•◦▪‣∙●○■□◆◇►▶✓➢–—*·-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|\[\d{1,3}\]")
_INDENT = 0.6  # of the size: a first line that begins further in than this


class Hyphens:
    """Which hyphens at line ends stay, by the spellings in a document."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the spellings of the words that are parted in these texts, with and without a hyphen."""
        texts = list(texts)
        parted = [match.groups() for text in texts if HYPHEN in text for match in _PARTED.finditer(text)]
        for text, after in pairwise(texts):
            if text.endswith(HYPHENS) and (match := _PARTED.search(_ends(text, after))):
                parted.append(match.groups())
        wanted = {(a + hyphen + b).casefold() for a, _, b in parted for hyphen in ("", "-")}
        self._counts: Counter[str] = Counter()
        if wanted:
            words = (word for text in texts for word in _SPELLING.findall(text.casefold().replace("\u2010", "-")))
            self._counts.update(word for word in words if word in wanted)

        # programs that part words by U+2010 leave the hyphens that an author wrote as they are
        self._has_own = any(sign == "\u2010" for _, sign, _ in parted) and not any(map(_INSIDE.search, texts))

    def resolved(self, text: str) -> str:
        """Return a text with the words whole that were parted at the ends of its lines."""
        return _PARTED.sub(self._whole, text).replace(HYPHEN, "") if HYPHEN in text else text

    def goes_on(self, text: str, after: str) -> str:
        """Return a text that another page goes on with, without the hyphen at its end if the word has none."""
        whole = self.resolved(_ends(text, after))
        first = _FIRST.match(after)
        return text[:-_LONGEST_END] + whole[: len(whole) - len(first[0])] if first else text

    def _whole(self, match: re.Match[str]) -> str:
        first, sign, second = match.groups()
        with_hyphen, without = (self._counts[(first + hyphen + second).casefold()] for hyphen in ("-", ""))
        around = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
        is_own = second[0].isupper() or "-" in around or (sign == "-" and self._has_own)
        stays = is_own if with_hyphen == without else with_hyphen > without
        return f"{first}-{second}" if stays else first + second


def _ends(text: str, after: str) -> str:
    first = _FIRST.match(after)
    return f"{text[-_LONGEST_END:]}{HYPHEN}{first[0] if first else ''}"


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, an item of a list, a table, or the text of a page whose layout is not followed."""

    kind: str  # "text", "item", "code", "table", "page"
    text: str
    size: float = 0.0
    is_bold: bool = False
    is_short: bool = False  # it may be a heading by its length
    head: str = ""  # of a table
    is_bullet: bool = False  # an item without number or letter
    goes_on: bool = False  # it ends where its column does, in the middle of a sentence


def laid_out(page: Page, heads: Collection[int]) -> list[Block]:
    """Return the blocks of a page in reading order, without the lines of these identities."""
    blocks = [Block("page", page.text)] if page.text.strip() else []
    if page.lines:
        own = [line for line in page.lines if id(line) not in heads] or page.lines  # all of a page is no head of it
        in_boxes, own, rules = boxed(own, page.drawn)
        tables, own = ruled(own, rules)
        for column in in_order([*in_boxes, *tables, *own]):
            blocks += _blocks_of(unruled(column))
        for turned in page.turned:
            blocks += laid_out(turned, ())
    return blocks + [Block("text", note) for note in page.notes]


def _blocks_of(column: Sequence[Line | Table]) -> Iterator[Block]:
    """Yield the blocks of a column, from the top down."""
    pitch = typical_pitch(column)
    lines = [unit for unit in column if isinstance(unit, Line)]
    ends = sorted(line.right for line in lines)
    right = ends[len(ends) * 9 // 10] if ends else 0.0
    code: set[int] = set()  # lines in type of one width that follow each other, unless all of the column is set in it
    if not all(line.is_fixed for line in lines):
        for is_fixed, found in groupby(column, key=lambda unit: isinstance(unit, Line) and unit.is_fixed):
            fixed = list(map(id, found))
            code.update(fixed if is_fixed and len(fixed) > 1 else ())
    run: list[Line] = []
    for unit in column:
        if isinstance(unit, Table):
            yield from _block(run, right)
            run = []
            yield Block("table", unit.text, unit.size, head=unit.head)
            continue
        is_other = False
        if run and id(unit) in code and id(run[-1]) in code:
            is_other = abs(unit.size - run[-1].size) > 0.1 or run[-1].base - unit.base > 3.2 * unit.size
        elif run:
            is_other = id(unit) in code or id(run[-1]) in code or _opens(unit, run, pitch, right)
        if is_other:
            yield from _block(run, right)
            run = []
        run.append(unit)
    yield from _block(run, right)


def _is_item(text: str) -> bool:
    """Return whether a line begins with the mark of an item."""
    mark, _, rest = text.partition(" ")
    return bool(rest) and bool(_ITEM.fullmatch(mark))


def _opens(line: Line, run: Sequence[Line], pitch: float, right: float) -> bool:
    """Return whether a line begins another paragraph than the one before it belongs to."""
    last = run[-1]
    step = last.base - line.base
    if step > 1.25 * max(pitch, 1.05 * line.size) or step < -line.size:
        return True
    if abs(line.size - last.size) > 0.08 * max(line.size, last.size) and not (
        any(abs(word.size - b.size) <= 0.1 for a, b in ((line, last), (last, line)) for word in a.words)
        and _is_wrapped(last, line, right)
    ):
        return True
    if line.is_bold != last.is_bold and (last.is_bold or _is_stop(last)):
        return True
    is_list = _is_item(run[0].text)
    if _is_item(line.text) and (is_list or _is_stop(last) or line.left > last.left - 1):
        return True
    if is_list:
        hangs = _is_stop(last) if len(run) == 1 else line.left < last.left - _INDENT * line.size
        return line.left <= run[0].left + 1 and hangs
    if line.left > last.left + _INDENT * line.size:
        return _is_stop(last) or last.right < right - 2 * line.size
    return False


def _is_stop(line: Line) -> bool:
    return line.words[-1].text.rstrip("”\"')]»").endswith((".", ":", "!", "?", "。"))


def _is_wrapped(line: Line, after: Line, right: float) -> bool:
    """Return whether a line goes on in the next because its first word would not have fitted."""
    word = after.words[0]
    return line.right + 0.25 * line.size + (word.right - word.left) > right - 2.0 * line.size or (
        not _is_stop(line) and word.text[0].islower()
    )


def _block(run: Sequence[Line], right: float) -> Iterator[Block]:
    if not run:
        return
    if len(run) > 1 and all(line.is_fixed for line in run):
        yield Block("code", _code(run), run[0].size)
        return
    texts = [line.text for line in run]
    parts = texts[:1]
    for (before, line), (above, text) in zip(pairwise(run), pairwise(texts), strict=True):
        parts += joint(above, text) if _is_wrapped(before, line, right) else "\n", text
    first = run[0]
    is_item = _is_item(first.text)
    yield Block(
        "item" if is_item and len(first.words) > 1 else "text",
        "".join(parts),
        round(max(line.size for line in run) * 2) / 2,
        all(line.is_bold for line in run),
        is_short=len(run) <= 4,
        is_bullet=is_item and not first.text[0].isalnum() and first.text[0] not in "([",
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
        if number and run[number - 1].base - line.base > 1.6 * pitch:
            texts.append("")
        text = ""
        for word in line.words:
            text = text.ljust(min(round((word.left - left) / width), 200))
            text += word.text if not text or text.endswith(" ") else f" {word.text}"
        texts.append(text)
    return "\n".join(texts)
