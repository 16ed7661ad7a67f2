"""The statements of an answer, found while it streams by: its sentences, list entries and lines."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from indexer.generation.lexical.analysis import is_spaceless

SHORTEST = 12  # characters; less goes on, as the number of a list does, or says nothing
SHORTEST_SPACELESS = 4  # in scripts of which a character says more
LONGEST = 1_000  # characters; there a sentence is cut
# An end of a line, or a full stop with what closes around it and the citations behind it, once something follows.
# What goes on in lower case or with a digit was an abbreviation. A row of full stops is looked at once: models that are
# stuck write thousands.
_END = re.compile(
    r"""\n+|(?<![.!?…])[.!?…]++["'”’»)*_`]*+(?:\s*\[\d+\])*[ \t]+(?=[^\s\[\d])|"""
    r"""(?<![。！？｡])[。！？｡]++[」』”）]*+(?:\s*\[\d+\])*(?=[^\s\[」』”）])"""
)
_MARKER = re.compile(r"[ \t]*(?:>[ \t]*)*(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+)?")  # of a quotation or a list
_CITATION = re.compile(r"\s*\[(\d+)\]")
_EMPHASIS = re.compile(r"[*`]+|(?<!\w)_+|_+(?!\w)")
_FENCE = "```"
_NO_STATEMENT = (":", "：", "?", "？")  # announces something, or asks


class Statement(NamedTuple):
    """A statement: its place in the whole text, [start, end) in characters, and what it says."""

    start: int
    end: int
    text: str  # without marks of lists, emphasis and citations
    cited: tuple[int, ...]


class StatementReader:
    """Finds the statements of a text that comes in pieces; headings, tables, questions and code are none."""

    def __init__(self) -> None:
        self._text = ""  # what has not been read
        self._offset = 0  # of that, in the whole text
        self._fenced = False

    def feed(self, text: str) -> Iterator[Statement]:
        """Take the next piece; give the statements that are whole now."""
        self._text += text
        looked = 0
        while found := _END.search(self._text, looked):
            begun = self._text[: found.end()].strip()
            if "\n" not in found[0] and (_is_short(begun) or self._text[found.end()].islower()):
                looked = found.end()
                continue
            yield from self._take(found.end())
            looked = 0
        while len(self._text) > LONGEST:
            cut = self._text.rfind(" ", SHORTEST, LONGEST)
            yield from self._take(cut if cut > 0 else LONGEST)

    def end(self) -> Iterator[Statement]:
        """Give what is left."""
        yield from self._take(len(self._text))

    def _take(self, length: int) -> Iterator[Statement]:
        piece, begin = self._text[:length], self._offset
        self._text, self._offset = self._text[length:], begin + length
        line = piece.strip()
        if line.startswith(_FENCE):
            self._fenced = not self._fenced
        elif not self._fenced and line and line[0] not in "#|":
            marker = _MARKER.match(piece)
            start = marker.end() if marker else 0
            said = _EMPHASIS.sub("", _CITATION.sub("", piece[start:])).strip()
            cited = tuple(dict.fromkeys(map(int, _CITATION.findall(piece))))
            if not _is_short(said) and not said.endswith(_NO_STATEMENT):
                yield Statement(begin + start, begin + len(piece.rstrip()), said, cited)


def _is_short(text: str) -> bool:
    return len(text) < (SHORTEST_SPACELESS if is_spaceless(text) else SHORTEST)
