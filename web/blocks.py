"""Plain text as blocks: paragraphs, and code or tables whose lines and columns mean something.

What was code on its page is plain text in the index, with its lines. It is recognised by how its lines are built: by
the signs they end in and hold, by indentation and columns, and by what prose has and code has not.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

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
_WORDS = re.compile(r"(?<!\w)(?:[^\W\d_]+(?:['’][^\W\d_]+)?[,;:.]?(?:\s+|\Z)){6}")


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of a text, without the blank lines around it."""

    start: int
    end: int
    is_code: bool


def split_blocks(text: str) -> list[Block]:
    """Return the blocks of a text in order; code goes on over blank lines, and has no fence around it any more."""
    blocks: list[Block] = []
    for block in _blocks(text):
        last = blocks[-1] if blocks else None
        goes_on = block.is_code or _is_indented(text[block.start : block.end].split("\n"))
        if last and last.is_code and goes_on and not text[last.end : block.start].strip():
            blocks[-1] = Block(last.start, block.end, is_code=True)
        else:
            blocks.append(block)
    return blocks


def lines_of(text: str, start: int, end: int) -> list[Span]:
    """Return the lines of a stretch, with their indentation and without their ends; empty ones too."""
    spans, position = [], start
    for line in text[start:end].split("\n"):
        spans.append((position, position + len(line)))
        position += len(line) + 1
    return spans


def _blocks(text: str) -> Iterator[Block]:
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


def _code(text: str, start: int, end: int) -> Iterator[Block]:
    left, right = _bounds(text, start, end)
    if left < right:
        yield Block(left, right, is_code=True)


def _apart(text: str, start: int, end: int) -> Iterator[Block]:
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
            yield Block(left, kinds[lead - 1][0][1], is_code=False)
            yield Block(rest[0][0], right, is_code=True)
        else:
            yield Block(left, right, is_code=_is_code([text[slice(*line)] for line, _ in kinds]))


def _bounds(text: str, start: int, end: int) -> Span:
    """Without empty lines and white space around, but with the indentation of the first line."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    return start + piece.rfind("\n", 0, left) + 1, start + len(piece.rstrip())


def _ends_of(line: str) -> str:
    """What of a line is looked at, whatever its length: the time for that has a bound."""
    line = line.rstrip()
    return line if len(line) <= 2 * _LOOKED_AT else line[:_LOOKED_AT] + line[-_LOOKED_AT:]


def _is_prose(line: str) -> bool:
    line = _ends_of(line)
    if line.startswith(("    ", "\t")):
        return False
    return bool(_WORDS.search(line) or (_SENTENCE.search(line) and not _CALL.search(line)))


def _is_indented(lines: list[str]) -> bool:
    """Whether lines may stand within the code before them, whatever they are built like."""
    return not any(_is_prose(line) or _ITEM.match(line) for line in lines) and all(
        line.startswith(("  ", "\t")) for line in lines if line.strip()
    )


def _is_code(lines: list[str]) -> bool:
    lines = [_ends_of(line) for line in lines if line.strip()]
    if len(lines) > 1 and any(
        set(line) <= _RULE and _DASHES.search(line) for line in lines
    ):  # the line below the head of a table
        return True
    if sum(bool(_COLUMNS.search(line)) for line in lines) * 2 > len(lines) > 1:
        return True
    if any(_is_prose(line) or _ITEM.match(line) for line in lines[:1]) or sum(map(_is_prose, lines)) * 3 > len(lines):
        return False
    signs = sum(bool(_ENDS.search(line)) + bool(_SIGNS.search(line)) + 2 * bool(_PROMPT.match(line)) for line in lines)
    indented = sum(line.startswith(("  ", "\t")) for line in lines)
    if len(lines) == 1:
        return signs + lines[0].rstrip().endswith(";") >= 2
    return signs + indented >= len(lines)
