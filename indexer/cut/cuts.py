"""The cuts of a text: chosen together, so that pieces are few, none is short, and structure stays whole.

Breaking paragraphs into lines well is the same problem; see Knuth and Plass, Breaking Paragraphs into Lines, 1981.
"""

import re
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import category

import numpy as np

from embedder.model.tokenizer import TextTokens
from indexer.records import COLUMNS, Whole

_CHARACTERS_PER_TOKEN = 12  # some tokenizers make one token of a word of any length

# What a cut costs. A piece costs _PIECE, and up to _SHORT more the shorter it is than half of what fits.
_PIECE = 0.2
_SHORT = 2.0
_BLOCK = 0.0  # between paragraphs, lists, tables and blocks of code
_ITEM = 0.05  # between list items, table rows, or lines that end a sentence
_LINE = 0.2  # between other lines
_SENTENCE = 0.3  # within a paragraph
_LEAD = 0.5  # more: after "as follows:", a term or table head, a line above indented ones
_WHOLE = 1.0  # more: within a block of code or a table that fits
_CLAUSE = 0.8  # from here on only where a line or sentence alone is too long
_WORD = 2.0
_CHARACTER = 4.0

_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_NEWLINES = re.compile(r"\n(?:[^\S\n]*\n)*")
# Where a sentence may end; `_ends_sentence` says whether it does.
_SENTENCE_END = re.compile(r"""(?<=[.!?؟।…])\s+(?=\S)|(?<=[.!?؟।…][)\]"'”’»])\s+(?=\S)|(?<=[。！？])(?=[^\s」』）])""")
_FINER = (
    (_SENTENCE_END, _SENTENCE),
    (re.compile(r"(?<=[!?;:,،؛])\s+|(?<=[；，、：])(?=\S)"), _CLAUSE),
    (re.compile(r"\s+"), _WORD),
)
_SHORTEST_SENTENCE = 8  # characters
# Abbreviations that a capital letter often follows: titles, references, companies, months, addresses, the commonest of
# those that CLDR's rules for breaking sentences list for several languages. Others are known by what follows them.
_ABBREVIATIONS = frozenset(
    "dr prof mr mrs ms mme mlle sr sra srta st ste jr hr fr frl dipl ing rev hon gen gov capt col lt sgt maj no "
    "nos nr nrn núm art arts abs abb fig figs tab taf kap cap chap ch sec sect pp pag pág vol vols bd bde ed eds "
    "hrsg hg aufl anm eq ref refs cf vgl bsp approx ca etc usw bzw ggf evtl inkl incl zzgl resp vs al ibid engl "
    "lat frz bes sog zit geb jh std tel inc ltd co corp bros dept univ jan feb mar apr jun jul aug sep sept oct "
    "okt nov dec dez str ave blvd rd рис табл стр им ул гл ред напр англ np tzn ul tj např".split()
)
_LAST_WORD = re.compile(r"[\w.]{1,24}\.\Z")
_LONGEST_WORD = 24  # characters of a word before a full stop that are looked at
_ITEM_START = re.compile(r"(?:[-*•]|\d{1,9}[.)])\s")
_EMPTY_ITEM = re.compile(r"[-*•]|\d{1,3}[.)]")  # stays with what follows
_PROMPT = re.compile(r"[^\w\s]{1,4} ")  # what a session shows before a command
_CLOSING = frozenset(")]}")
_LONG = 200  # characters of a line that is prose: it may be cut where a sentence ends
_MANY = 40  # units of a piece, from which numpy is faster than a loop
_MOST_UNITS = 4_000  # of a text among whose ends the cuts are chosen, if each is small
_MOST_ROWS = 1_000  # of a table, likewise
_FEWEST_UNITS = 8  # of a piece
_LEAST_PARTS = 4  # of a passage: the names of a table's columns take one at most


class _Unit(NamedTuple):
    text: str  # with the white space that follows
    cost: float  # of a cut after it
    head: str | None = None  # what a piece repeats that begins with it: the row that names the columns


class Piece(NamedTuple):
    """A part of a text, without the white space around it."""

    start: int
    end: int
    head: str = ""  # of a table, to be shown before a part that does not begin with it


def cut(text: str, size: int, tokenize: Callable[[str], TextTokens], wholes: Sequence[Whole] = ()) -> list[Piece]:
    """Cut a text into pieces of at most `size` tokens, in order. A character that is longer stays.

    Of `wholes`, one that fits is cut only if what stands around it would become too short a piece. Where a table is,
    every piece but the first begins with its head, unless that takes a quarter of what fits.
    """
    tokens, room = tokenize(text), size
    counts = [len(tokens.part(whole.start, whole.end).ids) for whole in wholes]
    shortest = [min_tokens(text[whole.start : whole.end]) for whole in wholes]
    lengths = dict(zip(wholes, map(max, counts, shortest), strict=True))
    heads = {head: max(len(tokenize(head).ids), min_tokens(head)) for head in {whole.head for whole in wholes} if head}
    repeated = {head: length for head, length in heads.items() if length * _LEAST_PARTS <= room}
    room -= max((repeated.get(whole.head or "", 0) for whole, length in lengths.items() if length > room), default=0)
    fitting = {whole for whole, length in lengths.items() if length <= room}
    units: list[_Unit] = []
    for block in _blocks(text, wholes):
        is_code = block.whole is not None and block.whole.head is None
        parts = _statements(block) if is_code else _lines(block, repeated)
        if block.whole in fitting:
            parts[:-1] = [unit._replace(cost=unit.cost + _WHOLE) for unit in parts[:-1]]
        units += parts
    units, counts = _finer(units, tokens, room)
    units, counts = _coarser(units, [max(1, length) for length in counts], room)
    places = [0, *accumulate(len(unit.text) for unit in units)]
    pieces: list[Piece] = []
    for first, stop in pairwise([0, *_ends([unit.cost for unit in units], counts, room)]) if units else ():
        part = text[places[first] : places[stop]]
        start, end = places[stop] - len(part.lstrip("\n")), places[first] + len(part.rstrip())
        if start < end:
            head = units[first].head
            fits = head and head not in part and sum(counts[first:stop]) + repeated[head] <= size
            pieces.append(Piece(start, end, head if head and fits else ""))
    return pieces


def min_tokens(text: str) -> int:
    """Return the least length that a text is taken to have."""
    return len(text.strip()) // _CHARACTERS_PER_TOKEN


def _split(pattern: re.Pattern[str], text: str, most: int = _MOST_UNITS) -> list[str]:
    """Split a text behind every match, or every few where there are very many; the parts together are the text."""
    if pattern is _SENTENCE_END:
        ends = [0]
        for found in pattern.finditer(text):
            if found.end() - ends[-1] >= _SHORTEST_SENTENCE and _ends_sentence(text, found):
                ends.append(found.end())
    else:
        ends = [0, *(found.end() for found in pattern.finditer(text))]
    ends = ends[:: len(ends) // most + 1]
    return [text[start:end] for start, end in pairwise([*ends, len(text)]) if start < end]


def _ends_sentence(text: str, gap: re.Match[str]) -> bool:
    """Return whether a sentence ends before a gap: not before a number, nor after what may be an abbreviation."""
    end, after = gap.start(), text[gap.end()]
    if end == gap.end():  # of scripts without spaces
        return True
    if after.islower() or after.isdigit():
        return False
    found = _LAST_WORD.search(text, max(0, end - _LONGEST_WORD), end)
    if found is None:
        return True
    word = found[0][:-1]  # an initial, an ordinal, with other full stops, or in the list
    is_number = (word.isdigit() and len(word) < 3) or (len(word) < 6 and not word.strip("IVXLC"))
    return not (len(word) == 1 or is_number or "." in word or word.lower() in _ABBREVIATIONS)


class _Block(NamedTuple):
    text: str  # with the white space that follows
    cost: float  # of a cut after it
    whole: Whole | None = None


def _blocks(text: str, wholes: Sequence[Whole]) -> Iterator[_Block]:
    parts: list[tuple[str, Whole | None]] = []
    place = 0
    for whole in wholes:
        parts += [(part, None) for part in _split(_BLANK, text[place : whole.start])]
        gap = _NEWLINES.match(text, whole.end)
        place = gap.end() if gap else whole.end
        parts.append((text[whole.start : place], whole))
    parts += [(part, None) for part in _split(_BLANK, text[place:])]
    for (block, kept), (after, _) in pairwise([*parts, ("", None)]):
        ended = block.rstrip()
        if after and "\n" not in block[len(ended) :].removeprefix("\n"):
            cost = _after_line(ended.rpartition("\n")[2], after)
        else:
            # it ends in the middle of a sentence, like "For example," or names what follows, like "Note"
            is_name = "\n" not in ended and ended[:1].isalnum() and ended[-1:].isalnum()
            leads = kept is None and (ended.endswith((":", ",")) or is_name)
            goes_on = after[:1].isspace()  # indented: the block of code goes on after a blank line
            cost = (_LINE if goes_on else _BLOCK) + _LEAD * leads
        yield _Block(block, cost, kept)


def _lines(block: _Block, repeated: Container[str]) -> list[_Unit]:
    """Return lines of a list or a table, or sentences of prose."""
    whole = block.whole
    if whole is None and _BLANK.search(block.text.rstrip()):  # one of several blocks, where there are very many
        return [_Unit(block.text, block.cost)]
    head = whole.head if whole is not None and whole.head in repeated else None
    most = _MOST_ROWS if COLUMNS in block.text.partition("\n")[0] else _MOST_UNITS
    lines = _split(_NEWLINES, block.text.rstrip(), most) or [""]
    lines[-1] += block.text[len("".join(lines)) :]
    named = head.count("\n") + 1 if head and block.text.startswith(head) else 0
    units: list[_Unit] = []
    for place, (line, after) in enumerate(pairwise([*lines, ""])):
        cost = (_after_line(line, after) + _LEAD * (not units)) if after else block.cost
        own = head if place >= named else None
        is_prose = len(lines) == 1 or (whole is None and len(line) > _LONG)
        if is_prose and len(line) > _SHORTEST_SENTENCE:
            units += _priced(_split(_SENTENCE_END, line), _SENTENCE, cost, own)
        else:
            units.append(_Unit(line, cost, own))
    return units


def _priced(texts: Sequence[str], cost: float, last: float, head: str | None = None) -> list[_Unit]:
    return [_Unit(text, price, head) for text, price in zip(texts, [*[cost] * (len(texts) - 1), last], strict=True)]


def _statements(block: _Block) -> list[_Unit]:
    """Return lines of code; the best cuts are before statements, and of these before one after a blank line."""
    lines = _split(_NEWLINES, block.text)
    least = min(map(_indent, lines))
    prompt = _PROMPT.match(lines[0])
    units: list[_Unit] = []
    for line, after in pairwise([*lines, ""]):
        begins = _indent(after) <= least and after[least : least + 1] not in _CLOSING and any(map(str.isalnum, after))
        if prompt:
            begins = after.startswith(prompt[0])
        cost = (_ITEM if line.count("\n") > 1 else _LINE) + (_LEAD if not begins or line.rstrip().endswith(":") else 0)
        units.append(_Unit(line, cost if after else block.cost))
    return units


def _after_line(line: str, after: str) -> float:
    is_item = _ITEM_START.match(after) or (COLUMNS in line and COLUMNS in after)
    ended = line.rstrip()
    leads = ended.endswith(":") or _EMPTY_ITEM.fullmatch(ended.lstrip()) is not None or _indent(after) > _indent(line)
    return (_ITEM if is_item or ended.endswith((".", "!", "?")) else _LINE) + _LEAD * leads


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _finer(units: list[_Unit], tokens: TextTokens, size: int) -> tuple[list[_Unit], list[int]]:
    """Split what is too long alone into sentences, clauses, words, and parts of words; return units with lengths."""
    finer = iter(_FINER)
    counts = _counts(units, tokens)
    while max((n for unit, n in zip(units, counts, strict=True) if len(unit.text) > 1), default=0) > size:
        pattern, cost = next(finer, (None, _CHARACTER))
        parts: list[_Unit] = []
        for unit, length in zip(units, counts, strict=True):
            texts = [unit.text]
            if length > size:
                texts = _split(pattern, unit.text) if pattern is not None else _halves(unit.text)
            parts += _priced(texts, cost, unit.cost, unit.head)
        units, counts = parts, _counts(parts, tokens)
    return units, counts


def _counts(units: Sequence[_Unit], tokens: TextTokens) -> list[int]:
    """Return the length of each unit of a text in tokens."""
    ends = np.fromiter(accumulate(len(unit.text) for unit in units), np.int64, len(units))
    counts = np.diff(tokens.before(ends), prepend=0)
    return [max(count, min_tokens(unit.text)) for unit, count in zip(units, counts.tolist(), strict=True)]


def _halves(text: str) -> list[str]:
    half = (len(text) + 1) // 2
    places = (at for at in range(half, len(text)) if not category(text[at]).startswith("M"))
    middle = next(places, half)  # a mark belongs to the letter before it
    return [text[:middle], text[middle:]]


def _coarser(units: list[_Unit], counts: list[int], size: int) -> tuple[list[_Unit], list[int]]:
    """Join neighbours that are small parts of a piece where there are too many units to choose among."""
    if len(units) <= _MOST_UNITS:
        return units, counts
    most = min(2 * sum(counts) // _MOST_UNITS, size // _FEWEST_UNITS)
    joined, tokens = units[:1], counts[:1]
    for unit, length in zip(units[1:], counts[1:], strict=True):
        if tokens[-1] + length <= most:
            joined[-1] = _Unit(joined[-1].text + unit.text, unit.cost, joined[-1].head)
            tokens[-1] += length
        else:
            joined.append(unit)
            tokens.append(length)
    return joined, tokens


def _ends(costs: Sequence[float], counts: Sequence[int], size: int) -> list[int]:
    """Return the indexes of units to cut before, and the end: the cheapest way to fill pieces of at most `size`."""
    reach = [0, *accumulate(counts)]  # tokens before each unit
    best = [0.0]
    cut_before = [0]
    first = 0  # of the longest piece that ends with a unit
    for end in range(1, len(reach)):
        while reach[end] - reach[first] > size and first < end - 1:
            first += 1
        if end - first > _MANY:  # as of words without a sentence
            missing = np.maximum(0.0, 1 - 2 * (reach[end] - np.array(reach[first:end])) / size)
            totals = np.array(best[first:end]) + _SHORT * missing * missing
            start = end - 1 - int(totals[::-1].argmin())  # of equals the last
            least = float(totals[start - first])
        else:
            start, least = first, np.inf
            for begin in range(first, end):
                lack = max(0.0, 1 - 2 * (reach[end] - reach[begin]) / size)
                if (total := best[begin] + _SHORT * lack * lack) <= least:
                    start, least = begin, total
        best.append(least + _PIECE + costs[end - 1])
        cut_before.append(start)
    ends = [len(counts)]
    while ends[-1] and cut_before[ends[-1]]:
        ends.append(cut_before[ends[-1]])
    return ends[::-1]
