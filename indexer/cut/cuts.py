"""Cut a text into a few pieces of similar length, between paragraphs or statements of code where possible.

All cuts of a text are optimized together, as in Knuth and Plass, Breaking Paragraphs into Lines, 1981.
"""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import category

import numpy as np

from embedder.model.tokenizer import TextTokens
from indexer.records import COLUMNS, SectionBlock

_MAX_CHARACTERS_PER_TOKEN = 12

# `_cheapest_ends` minimizes the sum of these costs. A piece shorter than half the maximum costs up to _SHORT_COST more.
_PIECE_COST = 0.2
_SHORT_COST = 2.0
# Costs of a cut after a block, list item, line, sentence, clause, word or character. _ITEM_COST is also the cost after
# a table row, and after a line that ends with a sentence.
_BLOCK_COST = 0.0
_ITEM_COST = 0.05
_LINE_COST = 0.2
_SENTENCE_COST = 0.3
_CLAUSE_COST, _WORD_COST, _CHARACTER_COST = 0.8, 2.0, 4.0
# _LEAD_COST is added for a cut after a lead-in: "as follows:", a term, a table head, or a line above indented lines.
# _INTACT_BLOCK_COST is added for a cut within code or a table that would fit into one piece.
_LEAD_COST, _INTACT_BLOCK_COST = 0.5, 1.0

_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_NEWLINES = re.compile(r"\n(?:[^\S\n]*\n)*")
# Matches the white space after a possible end of a sentence. `_ends_sentence` checks each match.
_SENTENCE_END = re.compile(r"""(?<=[.!?؟।…])\s+(?=\S)|(?<=[.!?؟।…][)\]"'”’»])\s+(?=\S)|(?<=[。！？])(?=[^\s」』）])""")
_FINER_SPLITS = (
    (_SENTENCE_END, _SENTENCE_COST),
    (re.compile(r"(?<=[!?;:,،؛])\s+|(?<=[；，、：])(?=\S)"), _CLAUSE_COST),
    (re.compile(r"\s+"), _WORD_COST),
)
_MIN_SENTENCE_CHARACTERS = 8
# Abbreviations from CLDR's rules for sentence breaks. A capital letter often follows them within a sentence.
ABBREVIATIONS = frozenset(
    "dr prof mr mrs ms mme mlle sr sra srta st ste jr hr fr frl dipl ing rev hon gen gov capt col lt sgt maj no "
    "nos nr nrn núm art arts abs abb fig figs tab taf kap cap chap ch sec sect pp pag pág vol vols bd bde ed eds "
    "hrsg hg aufl anm eq ref refs cf vgl bsp approx ca etc usw bzw ggf evtl inkl incl zzgl resp vs al ibid engl "
    "lat frz bes sog zit geb jh std tel inc ltd co corp bros dept univ jan feb mar apr jun jul aug sep sept oct "
    "okt nov dec dez str ave blvd rd рис табл стр им ул гл ред напр англ np tzn ul tj např".split()
)
_LAST_WORD = re.compile(r"[\w.]{1,24}\.\Z")
_MAX_WORD_CHARACTERS = 24
_ITEM_START = re.compile(r"(?:[-*•]|\d{1,9}[.)])\s")
_EMPTY_ITEM = re.compile(r"[-*•]|\d{1,3}[.)]")
_PROMPT = re.compile(r"[^\w\s]{1,4} ")
_CLOSING = frozenset(")]}")
_MIN_PROSE_LINE_CHARACTERS = 200
_MAX_UNITS, _MAX_ROWS = 4_000, 1_000
_MIN_UNITS_PER_PIECE = 8
_MAX_HEAD_SHARE = 0.25


class _Unit(NamedTuple):
    """A line, row or sentence that should not be cut, including the white space after it.

    `cost_after` is the cost of a cut at its end. `head` is the table head to repeat if a passage begins with this row.
    """

    text: str
    cost_after: float
    head: str | None = None


class Piece(NamedTuple):
    """A part of a text, from character `start` to `end`. If it continues a table, `head` repeats the table's head."""

    start: int
    end: int
    head: str = ""


def cut(
    text: str, size: int, tokenize: Callable[[str], TextTokens], blocks: Sequence[SectionBlock] = ()
) -> list[Piece]:
    """Cut a text into pieces of at most `size` tokens.

    Code or a table that fits into a piece is rarely cut. If a table is cut, each piece repeats the table's head if the
    head is short.

    Args:
        text: text of a section.
        size: maximum number of tokens of a piece. Only a piece of one character may have more.
        tokenize: returns the tokens of a text; called for the text and for table heads.
        blocks: positions of code and tables in the text.
    """
    tokens, room = tokenize(text), size
    counts = [len(tokens.between(block.start, block.end).ids) for block in blocks]
    shortest = [min_tokens(text[block.start : block.end]) for block in blocks]
    lengths = dict(zip(blocks, map(max, counts, shortest), strict=True))
    heads = {head: max(len(tokenize(head).ids), min_tokens(head)) for head in {block.head for block in blocks} if head}
    repeated = {head: length for head, length in heads.items() if length <= room * _MAX_HEAD_SHARE}
    room -= max((repeated.get(block.head or "", 0) for block, length in lengths.items() if length > room), default=0)
    fitting = {block for block, length in lengths.items() if length <= room}
    units: list[_Unit] = []
    for paragraph in _paragraphs(text, blocks):
        is_code = paragraph.block is not None and paragraph.block.head is None
        lines = _code_units(paragraph) if is_code else _line_units(paragraph, repeated)
        if paragraph.block in fitting:
            lines[:-1] = [unit._replace(cost_after=unit.cost_after + _INTACT_BLOCK_COST) for unit in lines[:-1]]
        units += lines
    units, counts = _split_long_units(units, tokens, room)
    units, counts = _join_small_units(units, [max(1, length) for length in counts], room)
    places = [0, *accumulate(len(unit.text) for unit in units)]
    pieces: list[Piece] = []
    ends = _cheapest_ends([unit.cost_after for unit in units], counts, room) if units else []
    for first, stop in pairwise([0, *ends]):
        piece = text[places[first] : places[stop]]
        start, end = places[stop] - len(piece.lstrip("\n")), places[first] + len(piece.rstrip())
        if start < end:
            head = units[first].head
            fits = head and head not in piece and sum(counts[first:stop]) + repeated[head] <= size
            pieces.append(Piece(start, end, head if head and fits else ""))
    return pieces


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences. Each sentence includes the white space after it."""
    return [sentence for paragraph in _split(_BLANK, text) for sentence in _split(_SENTENCE_END, paragraph)]


def min_tokens(text: str) -> int:
    """Return a lower limit for the token count of a text, because some tokenizers turn any long word into one token."""
    return len(text.strip()) // _MAX_CHARACTERS_PER_TOKEN


def _split(pattern: re.Pattern[str], text: str, limit: int = _MAX_UNITS) -> list[str]:
    """Split a text after each match. If there are more than `limit` matches, split after every n-th match."""
    if pattern is _SENTENCE_END:
        ends = [0]
        for gap in pattern.finditer(text):
            if gap.end() - ends[-1] >= _MIN_SENTENCE_CHARACTERS and _ends_sentence(text, gap):
                ends.append(gap.end())
    else:
        ends = [0, *(match.end() for match in pattern.finditer(text))]
    ends = ends[:: len(ends) // limit + 1]
    return [text[start:end] for start, end in pairwise([*ends, len(text)]) if start < end]


def _ends_sentence(text: str, gap: re.Match[str]) -> bool:
    """Return whether a sentence ends at this white space, and not just an abbreviation or a number such as "3."."""
    end, after = gap.start(), text[gap.end()]
    if end == gap.end():  # scripts such as Chinese have no space after a sentence
        return True
    if after.islower() or after.isdigit():
        return False
    match = _LAST_WORD.search(text, max(0, end - _MAX_WORD_CHARACTERS), end)
    if match is None:
        return True
    word = match[0][:-1]
    is_number = (word.isdigit() and len(word) < 3) or (len(word) < 6 and not word.strip("IVXLC"))
    return not (len(word) == 1 or is_number or "." in word or word.lower() in ABBREVIATIONS)


class _Paragraph(NamedTuple):
    text: str
    cost_after: float
    block: SectionBlock | None = None


def _paragraphs(text: str, blocks: Sequence[SectionBlock]) -> Iterator[_Paragraph]:
    texts: list[tuple[str, SectionBlock | None]] = []
    place = 0
    for block in blocks:
        texts += [(paragraph, None) for paragraph in _split(_BLANK, text[place : block.start])]
        gap = _NEWLINES.match(text, block.end)
        place = gap.end() if gap else block.end
        texts.append((text[block.start : place], block))
    texts += [(paragraph, None) for paragraph in _split(_BLANK, text[place:])]
    for (paragraph, text_block), (following, _) in pairwise([*texts, ("", None)]):
        stripped = paragraph.rstrip()
        if following and "\n" not in paragraph[len(stripped) :].removeprefix("\n"):
            cost = _cost_after_line(stripped.rpartition("\n")[2], following)
        else:
            is_name = "\n" not in stripped and stripped[:1].isalnum() and stripped[-1:].isalnum()
            # a paragraph such as "For example," or "Note" introduces the next paragraph
            is_lead = text_block is None and (stripped.endswith((":", ",")) or is_name)
            cost = (_LINE_COST if following[:1].isspace() else _BLOCK_COST) + _LEAD_COST * is_lead
        yield _Paragraph(paragraph, cost, text_block)


def _line_units(paragraph: _Paragraph, repeated: Container[str]) -> list[_Unit]:
    """Split a paragraph into sentences, or a list or table into lines. `repeated` contains table heads to repeat."""
    text, cost_after, block = paragraph
    if block is None and _BLANK.search(text.rstrip()):
        return [_Unit(text, cost_after)]
    table_head = block.head if block is not None and block.head in repeated else None
    limit = _MAX_ROWS if COLUMNS in text.partition("\n")[0] else _MAX_UNITS
    lines = _split(_NEWLINES, text.rstrip(), limit) or [""]
    lines[-1] += text[len("".join(lines)) :]
    head_lines = table_head.count("\n") + 1 if table_head and text.startswith(table_head) else 0
    units: list[_Unit] = []
    for number, (line, following) in enumerate(pairwise([*lines, ""])):
        cost = (_cost_after_line(line, following) + _LEAD_COST * (not units)) if following else cost_after
        head = table_head if number >= head_lines else None
        is_prose = len(lines) == 1 or (block is None and len(line) > _MIN_PROSE_LINE_CHARACTERS)
        if is_prose and len(line) > _MIN_SENTENCE_CHARACTERS:
            units += _to_units(_split(_SENTENCE_END, line), _SENTENCE_COST, cost, head)
        else:
            units.append(_Unit(line, cost, head))
    return units


def _to_units(texts: Sequence[str], cost: float, last_cost: float, head: str | None = None) -> list[_Unit]:
    costs = [*[cost] * (len(texts) - 1), last_cost]
    return [_Unit(text, cost_after, head) for text, cost_after in zip(texts, costs, strict=True)]


def _code_units(code: _Paragraph) -> list[_Unit]:
    """Split code into lines. A cut between two statements costs little, and even less at a blank line."""
    lines = _split(_NEWLINES, code.text)
    indent = min(map(_indent, lines))
    prompt = _PROMPT.match(lines[0])
    units: list[_Unit] = []
    for line, after in pairwise([*lines, ""]):
        begins = _indent(after) <= indent and after[indent : indent + 1] not in _CLOSING
        begins = after.startswith(prompt[0]) if prompt else begins and any(map(str.isalnum, after))
        cost = _ITEM_COST if line.count("\n") > 1 else _LINE_COST
        cost += _LEAD_COST if not begins or line.rstrip().endswith(":") else 0
        units.append(_Unit(line, cost if after else code.cost_after))
    return units


def _cost_after_line(line: str, following: str) -> float:
    is_item = _ITEM_START.match(following) or (COLUMNS in line and COLUMNS in following)
    stripped = line.rstrip()
    is_lead = stripped.endswith(":") or _EMPTY_ITEM.fullmatch(stripped.lstrip()) or _indent(following) > _indent(line)
    cost = _ITEM_COST if is_item or stripped.endswith((".", "!", "?")) else _LINE_COST
    return cost + _LEAD_COST if is_lead else cost


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _split_long_units(units: list[_Unit], tokens: TextTokens, size: int) -> tuple[list[_Unit], list[int]]:
    """Split units of over `size` tokens (lines or sentences) into smaller ones. Return all units and token counts."""
    splits = iter(_FINER_SPLITS)
    counts = _count_tokens(units, tokens)
    while max((n for unit, n in zip(units, counts, strict=True) if len(unit.text) > 1), default=0) > size:
        pattern, cost = next(splits, (None, _CHARACTER_COST))
        shorter: list[_Unit] = []
        for unit, length in zip(units, counts, strict=True):
            texts = [unit.text]
            if length > size:
                texts = _split(pattern, unit.text) if pattern is not None else _halves(unit.text)
            shorter += _to_units(texts, cost, unit.cost_after, unit.head)
        units, counts = shorter, _count_tokens(shorter, tokens)
    return units, counts


def _count_tokens(units: Sequence[_Unit], tokens: TextTokens) -> list[int]:
    ends = np.fromiter(accumulate(len(unit.text) for unit in units), np.int64, len(units))
    counts = np.diff(tokens.before(ends), prepend=0).tolist()
    return [max(count, min_tokens(unit.text)) for unit, count in zip(units, counts, strict=True)]


def _halves(text: str) -> list[str]:
    half = (len(text) + 1) // 2
    letters = (at for at in range(half, len(text)) if not category(text[at]).startswith("M"))
    middle = next(letters, half)  # combining marks stay with their letter
    return [text[:middle], text[middle:]]


def _join_small_units(units: list[_Unit], counts: list[int], size: int) -> tuple[list[_Unit], list[int]]:
    """Join short lines and sentences if there are over `_MAX_UNITS`, because `_cheapest_ends` would take too long."""
    if len(units) <= _MAX_UNITS:
        return units, counts
    limit = min(2 * sum(counts) // _MAX_UNITS, size // _MIN_UNITS_PER_PIECE)
    joined, tokens = units[:1], counts[:1]
    for unit, length in zip(units[1:], counts[1:], strict=True):
        if tokens[-1] + length <= limit:
            joined[-1] = _Unit(joined[-1].text + unit.text, unit.cost_after, joined[-1].head)
            tokens[-1] += length
        else:
            joined.append(unit)
            tokens.append(length)
    return joined, tokens


def _cheapest_ends(costs: Sequence[float], counts: Sequence[int], size: int) -> list[int]:
    """Divide units into pieces with the lowest total cost. Return, for each piece, the index after its last unit."""
    tokens_before = [0, *accumulate(counts)]
    best_cost = [0.0]
    best_start = [0]
    first = 0
    for end in range(1, len(tokens_before)):
        while tokens_before[end] - tokens_before[first] > size and first < end - 1:
            first += 1
        start, lowest = first, np.inf
        for begin in range(first, end):
            lack = max(0.0, 1 - 2 * (tokens_before[end] - tokens_before[begin]) / size)
            if (total := best_cost[begin] + _SHORT_COST * lack * lack) <= lowest:
                start, lowest = begin, total
        best_cost.append(lowest + _PIECE_COST + costs[end - 1])
        best_start.append(start)
    ends = [len(counts)]
    while ends[-1] and best_start[ends[-1]]:
        ends.append(best_start[ends[-1]])
    return ends[::-1]
