"""Plain text as blocks: paragraphs and headings, and code or tables whose lines and columns mean something.

What was code on its page is plain text in the index, with its lines. It is recognised by how its lines are built: by
the signs they end in and hold, by indentation and columns, and by what prose has and code has not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

Kind = Literal["text", "heading", "table", "code"]
Span = tuple[int, int]  # characters [start, end)

_BLANK = re.compile(r"\n(?:[^\S\n]*\n)+")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)[^`\n]*")
_ITEM = re.compile(r"\s*(?:[-*•–]|\d+[.)]|[a-z]\))\s+\S")
_ENDS = re.compile(r"(?:[;{}\\\[]|[({,=|]|\)\s*[:,;]?|=>|->|&&|\|\|)\s*\Z|\A\s*[\])}]+[;,]?\s*\Z")
_SIGNS = re.compile(
    r"[$\w\])]\s*(?:[=!<>+*/%&|^-]?=)\s*\S|\w\(.*\)|::|->|=>|&&|\|\||\$\w|\$\{|</?\w[^>]*>|\w\.\w+\(|[{}]|(?:^|\s)--?\w[\w-]*"
)
_PROMPT = re.compile(r"\s*(?:\$|#|>>>|\.\.\.|%|In \[\d*\]:|\w[\w@:~/.-]*[$#>])\s+\S|\s*(?:#!|//|/\*|<!--|--\s)")
_RULE, _DASHES = frozenset("-=+:| "), re.compile("[-=]{3}")
_LOOKED_AT = 200  # characters at either end of a line
_COLUMNS = re.compile(r"\S(?: {3,}|\t+)\S")
_SENTENCE = re.compile(r"(?<!\w)[^\W\d_]{2,}[,;]?(?: [^\W\d_]+(?:'[^\W\d_]+)?[,;:]?){3,}[^;{}=]*[.!?:]['\")”’]*\Z")
_CALL = re.compile(r"\w\(")
_PAIR = re.compile(r"\s*(?:- )?[\w.\"'-]+:(?:\s|\Z)")
_PATH = re.compile(r"(?:^|\s)(?:~|\.{1,2})?/\w")
CELL = " | "  # between the cells of a row
_UNFINISHED = re.compile(r"[^\W_].*[^.,;:!…]", re.DOTALL)  # a line that is no sentence, or a question
_LONGEST_HEADING = 80  # characters
_WRAPPED = range(50, 121)  # characters of the longest line of a text that was wrapped by hand or by a mailer
_WORDS = re.compile(r"(?<!\w)(?:[^\W\d_]+(?:['’][^\W\d_]+)?[,;:.]?(?:\s+|\Z)){6}")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A stretch of a text, without the blank lines around it."""

    start: int
    end: int
    kind: Kind


def split_blocks(text: str, *, is_code: bool = False) -> list[TextBlock]:
    """Return the blocks of a text in order; code goes on over blank lines, and has no fence around it any more.

    Args:
        text: a passage, or passages of a section.
        is_code: the text is of a file of source code, and so nothing else.
    """
    if is_code:
        return list(_code(text, 0, len(text)))
    blocks: list[TextBlock] = []
    for block in _blocks(text):
        last = blocks[-1] if blocks else None
        goes_on = block.kind == "code" or _is_indented(text[block.start : block.end].split("\n"))
        if last and last.kind == "code" and goes_on and not text[last.end : block.start].strip():
            blocks[-1] = TextBlock(last.start, block.end, "code")
        else:
            blocks.append(block)
    short = [block.kind == "text" and _is_short(text[block.start : block.end]) for block in blocks]
    for place in range(len(blocks) - 1):
        if short[place] and not short[place + 1]:
            blocks[place] = replace(blocks[place], kind="heading")
    return blocks


def unwrap(text: str, blocks: list[TextBlock]) -> str:
    """Return a text of the same length in which a break that only wrapped a line is a space.

    Such a break stands where the next word would not have fitted into the longest line.
    """
    pieces, position = [], 0
    for block in blocks:
        lines = lines_of(text, block.start, block.end) if block.kind == "text" else []
        width = max((end - start for start, end in lines), default=0)
        if len(lines) < 2 or width not in _WRAPPED:
            continue
        for (start, end), following in pairwise(lines):
            after = text[slice(*following)]
            first = after.split(None, 1)[0] if after.strip() else ""
            if first and end - start + 1 + len(first) > width and not _ITEM.match(after):
                pieces += [text[position:end], " "]
                position = end + 1
    return "".join([*pieces, text[position:]])


def lines_of(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of a stretch, with their indentation and without their ends; empty ones too."""
    spans, position = [], start
    for line in text[start:end].split("\n"):
        spans.append((position, position + len(line)))
        position += len(line) + 1
    return spans


def _blocks(text: str) -> Iterator[TextBlock]:
    fence, opened, position = "", 0, 0
    for start, end in lines_of(text, 0, len(text)):
        found = _FENCE.fullmatch(text, start, end)
        if not found or (fence and not found[1].startswith(fence)):
            continue
        if fence:
            yield from _code(text, opened, start)
            fence = ""
        else:
            yield from _apart(text, position, start)
            fence, opened = found[1], end + 1
        position = end + 1
    yield from _code(text, opened, len(text)) if fence else _apart(text, position, len(text))


def _code(text: str, start: int, end: int) -> Iterator[TextBlock]:
    left, right = _bounds(text, start, end)
    if left < right:
        yield TextBlock(left, right, "code")


def _apart(text: str, start: int, end: int) -> Iterator[TextBlock]:
    """Blocks with blank lines between; lead-in lines of prose are set apart from the code that follows them."""
    position = start
    for stop in [*(match.span() for match in _BLANK.finditer(text, start, end)), (end, end)]:
        left, right = _bounds(text, position, stop[0])
        position = stop[1]
        if left >= right:
            continue
        kinds = [(line, _is_prose(text[slice(*line)])) for line in lines_of(text, left, right)]
        lead = next((at for at, (_, is_prose) in enumerate(kinds) if not is_prose), len(kinds))
        rest = [line for line, _ in kinds[lead:]]
        if lead > 0 and rest and _is_code([text[slice(*line)] for line in rest]):
            yield TextBlock(left, kinds[lead - 1][0][1], "text")
            yield TextBlock(rest[0][0], right, "code")
        else:
            yield TextBlock(left, right, _kind([text[slice(*line)] for line, _ in kinds]))


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


def _is_short(text: str) -> bool:
    """Whether a paragraph is one line that ends as headings do."""
    line = text.strip()
    return (
        len(line) <= _LONGEST_HEADING
        and "\n" not in line
        and not line[:1].islower()
        and bool(_UNFINISHED.fullmatch(line))
        and not _ITEM.match(line)
    )


def _kind(lines: list[str]) -> Kind:
    if _is_table(lines):
        return "table"
    return "code" if _is_code(lines) else "text"


def _is_table(lines: list[str]) -> bool:
    """Whether lines are rows of a table, as readers write them: as many cells each, but for empty ones at the end."""
    if len(lines) < 3 or any(line[:1].isspace() or _ENDS.search(_ends_of(line)) for line in lines):
        return False
    cells = [line.count(CELL) for line in lines]
    return max(cells) > 0 and cells.count(max(cells)) * 4 >= len(lines) * 3 and not _has_rule(lines)


def _has_rule(lines: list[str]) -> bool:
    """Whether there is a line as below the head of a table."""
    return len(lines) > 1 and any(set(line) <= _RULE and _DASHES.search(line) for line in map(_ends_of, lines))


def _is_indented(lines: list[str]) -> bool:
    """Whether lines may stand within the code before them, whatever they are built like."""
    return not any(_is_prose(line) or _ITEM.match(line) for line in lines) and all(
        line.startswith(("  ", "\t")) for line in lines if line.strip()
    )


def _is_code(lines: list[str]) -> bool:
    lines = [_ends_of(line) for line in lines if line.strip()]
    if _has_rule(lines):
        return True
    indented = sum(line.startswith(("  ", "\t")) for line in lines)
    if indented and sum(bool(_PAIR.match(line)) for line in lines) * 3 >= len(lines) * 2:
        return True
    if sum(bool(_COLUMNS.search(line)) for line in lines) * 2 > len(lines) > 1:
        return True
    if any(_is_prose(line) or _ITEM.match(line) for line in lines[:1]) or sum(map(_is_prose, lines)) * 3 > len(lines):
        return False
    signs = sum(bool(_ENDS.search(line)) + bool(_SIGNS.search(line)) + 2 * bool(_PROMPT.match(line)) for line in lines)
    signs += sum(bool(_PATH.search(line)) and not _SIGNS.search(line) for line in lines)
    if len(lines) == 1:
        return signs + lines[0].rstrip().endswith(";") >= 2
    return signs + indented >= len(lines)
