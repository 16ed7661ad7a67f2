"""Split an answer into sentences while it streams, and find their quotations, code and citations."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from indexer.cut.cuts import ABBREVIATIONS

MAX_PENDING = 8_000
_MAX_QUOTE = 2_000  # characters
_CLOSING = {"„": "“”", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』"}
_QUOTE = "|".join(
    [
        rf"(?<!\w)“(?=\S)(?:[^“”\n]|“[^“”\n]{{1,200}}”){{1,{_MAX_QUOTE}}}(?<=\S)”(?!\w)",
        rf"(?<!\w)\"(?=\S)[^\"\n]{{1,{_MAX_QUOTE}}}(?<=\S)\"(?!\w)",
        rf"(?<!\w)['‘‚](?=\S)(?:[^'‘’\n]|(?<=\w)['’](?=\w)){{1,{_MAX_QUOTE}}}(?<=\S)['’‘](?!\w)",
        *(rf"{mark}[^{mark}{end}\n]{{1,{_MAX_QUOTE}}}[{end}]" for mark, end in _CLOSING.items()),
    ]
)
_PIECE = re.compile(
    r"(?P<fence>^[ \t]*```[^\n]*\n(?:.*?\n)??[ \t]*```[^\n]*$)"
    rf"|(?P<block>^[ \t]*>[^\n]{{1,{_MAX_QUOTE}}}$)"
    rf"|(?P<code>`[^`\n]{{1,{_MAX_QUOTE}}}`)|(?P<quote>{_QUOTE})|(?P<citation>\[\d{{1,3}}\])"
    r"|(?P<unclosed>```|(?<!\w)[\"“„«‹「『](?=\S))"
    r"|(?P<end>(?<![.!?…])[.!?…]++[\"”’»)*_]*+(?:[ \t]{0,8}\[\d{1,3}\])*+(?=\s|$)|[。！？](?:\[\d{1,3}\])*|\n+)",
    re.MULTILINE | re.DOTALL,
)
_CITATION = re.compile(r"\[(\d{1,3})\]")
_MARKS = "\"“”„‟«»‹›‘’‚'`「」『』"
_TITLES = "|".join(map(str.capitalize, ABBREVIATIONS))  # Dr. Meyer, Fig. 3
_ABBREVIATED = re.compile(
    rf"(?:^[ \t]*\d{{1,3}}|(?:^|[\s(])(?:[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_]|{_TITLES}))$", re.MULTILINE
)
_MAX_ABBREVIATION = 8  # characters
_GOES_ON = re.compile(r"[^\S\n]+[a-z0-9]")
_FOLLOWED = re.compile(r"[ \t]*(?:[^\s\[]|\n|\[(?:\D|\d{1,3}[^\d\]]))")


class Excerpt(NamedTuple):
    """A quotation or a piece of code without its marks, and its place in the answer."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The index of the character after the excerpt."""
        return self.start + len(self.text)


class Sentence(NamedTuple):
    """A sentence, or a block of code, with its place in the answer."""

    start: int
    end: int
    prose: str  # spaces replace quotations, code and citations
    quotes: Sequence[Excerpt]
    code: Sequence[Excerpt]
    citations: Sequence[tuple[int, int]]  # position in the answer, and number of the hit


class SentenceSplitter:
    """Splits a text that comes in pieces; at most MAX_PENDING characters are read again with the next piece."""

    def __init__(self, limit: float = math.inf) -> None:
        """Set the number of sentences after which reading stops."""
        self._limit = limit
        self._pending = ""
        self._offset = 0  # characters

    def feed(self, text: str, *, is_last: bool = False) -> list[Sentence]:
        """Take the next piece; return the sentences that are complete now."""
        pending = self._pending = self._pending + text
        sentences: list[Sentence] = []
        pieces: list[re.Match[str]] = []
        start = 0

        def finish(end: int) -> None:
            nonlocal start, pieces
            while start < end:
                stop = end if pieces else min(end, start + MAX_PENDING)
                if (text := pending[start:stop]).strip():
                    sentences.append(_sentence(text, self._offset + start, pieces, start))
                start, pieces = stop, []

        for match in _PIECE.finditer(pending):
            if len(sentences) >= self._limit:
                return sentences
            if match.start() - start > MAX_PENDING:
                finish(match.start())
            is_open = not is_last and len(pending) - start <= MAX_PENDING
            if match["unclosed"]:
                if is_open and (match[0] == "```" or pending.find("\n", match.end()) < 0):
                    break
            elif match["end"]:
                if is_open and not _FOLLOWED.match(pending, match.end()):
                    break
                if match[0][0] == "\n" or not _is_abbreviation(pending, match):
                    finish(match.end())
            elif is_open and match.end() == len(pending) and not match["code"]:
                break
            else:
                if match["fence"] or match["block"]:
                    finish(match.start())
                pieces.append(match)
                if match["fence"]:
                    finish(match.end())
        if is_last or len(pending) - start > MAX_PENDING:
            finish(len(pending))
        self._pending = pending[start:]
        self._offset += start
        return sentences


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Return whether a full stop does not end a sentence: after an abbreviation, a number, or before lower case."""
    if end[0][0] not in ".…" or text[end.start() - 1] == "]":  # a citation precedes it
        return False
    return (end[0] == "." and is_abbreviated(text, end.start())) or _GOES_ON.match(text, end.end()) is not None


def is_abbreviated(text: str, stop: int) -> bool:
    """Return whether the character at `stop` is the full stop of an abbreviation or of a list number."""
    return text[stop] == "." and _ABBREVIATED.search(text, max(0, stop - _MAX_ABBREVIATION), stop) is not None


def _sentence(text: str, offset: int, matches: Sequence[re.Match[str]], start: int) -> Sentence:
    """Return a sentence with its excerpts and citations.

    Args:
        text: the sentence.
        offset: its place in the answer.
        matches: its quotations, code and citations.
        start: its place in the text in which these were found.
    """
    lead = len(text) - len(text.lstrip())
    prose, quotes, code = list[str](), list[Excerpt](), list[Excerpt]()
    last = 0
    for match in matches:
        at = match.start() - start
        prose += [text[last:at], " " * len(match[0])]
        last, body = match.end() - start, match[0]
        if match["fence"]:
            for line in body.splitlines(keepends=True)[:-1]:
                code.append(Excerpt(line.strip(), offset + at + len(line) - len(line.lstrip())))
                at += len(line)
            code.pop(0)
        elif not match["citation"]:
            inner = _CITATION.split(body)[0].strip(f" \t>{_MARKS}")
            (code if match["code"] else quotes).append(Excerpt(inner, offset + at + body.index(inner)))
    citations = [(offset + match.start(), int(match[1])) for match in _CITATION.finditer(text)]
    prose_text = _CITATION.sub(lambda match: " " * len(match[0]), "".join([*prose, text[last:]]))[lead:].rstrip()
    return Sentence(offset + lead, offset + len(text.rstrip()), prose_text, quotes, code, citations)
