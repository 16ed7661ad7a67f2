"""Split an answer into sentences while it streams, and find their quotations, code and citations."""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from indexer.cut.cuts import ABBREVIATIONS

MAX_PENDING = 8_000  # characters of an incomplete sentence
_MAX_QUOTE_CHARS = 2_000
_CLOSING_QUOTES = {"„": "“”", "«": "»", "»": "«", "‹": "›", "「": "」", "『": "』"}
_QUOTE = "|".join(
    [
        rf"(?<!\w)“(?=\S)(?:[^“”\n]|“[^“”\n]{{1,200}}”){{1,{_MAX_QUOTE_CHARS}}}(?<=\S)”(?!\w)",
        rf"(?<!\w)\"(?=\S)[^\"\n]{{1,{_MAX_QUOTE_CHARS}}}(?<=\S)\"(?!\w)",
        rf"(?<!\w)['‘‚](?=\S)(?:[^'‘’\n]|(?<=\w)['’](?=\w)){{1,{_MAX_QUOTE_CHARS}}}(?<=\S)['’‘](?!\w)",
        *(rf"{mark}[^{mark}{end}\n]{{1,{_MAX_QUOTE_CHARS}}}[{end}]" for mark, end in _CLOSING_QUOTES.items()),
    ]
)
_MARKUP_OR_END = re.compile(
    r"(?P<fence>^[ \t]*```[^\n]*\n(?:.*?\n)??[ \t]*```[^\n]*$)"
    rf"|(?P<block>^[ \t]*>[^\n]{{1,{_MAX_QUOTE_CHARS}}}$)"
    rf"|(?P<code>`[^`\n]{{1,{_MAX_QUOTE_CHARS}}}`)|(?P<quote>{_QUOTE})|(?P<citation>\[\d{{1,3}}\])"
    r"|(?P<unclosed>```|(?<!\w)[\"“„«‹「『](?=\S))"
    r"|(?P<end>(?<![.!?…])[.!?…]++[\"”’»)*_]*+(?:[ \t]{0,8}\[\d{1,3}\])*+(?=\s|$)|[。！？](?:\[\d{1,3}\])*|\n+)",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)(?:#|//)\s.*|^\s*--\s.*", re.DOTALL)
_CITATION = re.compile(r"\[(\d{1,3})\]")
_QUOTE_CHARS = "\"“”„‟«»‹›‘’‚'`「」『』"
_CAPITALISED_ABBREVIATIONS = "|".join(map(str.capitalize, ABBREVIATIONS))  # Dr. Meyer, Fig. 3
_ABBREVIATION = re.compile(
    rf"(?:^[ \t]*\d{{1,3}}|(?:^|[\s(])(?:[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_]|{_CAPITALISED_ABBREVIATIONS}))$", re.MULTILINE
)
_MAX_ABBREVIATION_CHARS = 8
_CONTINUATION = re.compile(r"[^\S\n]+[a-z0-9]")  # text after a full stop that does not end the sentence
_NO_CITATION = re.compile(r"[ \t]*(?:[^\s\[]|\n|\[(?:\D|\d{1,3}[^\d\]]))")  # text that does not begin a citation


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
    """Splits streamed text into sentences. A piece of text is scanned with up to MAX_PENDING characters before it."""

    def __init__(self, limit: float = math.inf) -> None:
        """Set the number of sentences after which splitting stops."""
        self._limit = limit
        self._pending = ""
        self._offset = 0  # characters before the pending ones

    def feed(self, text: str, *, is_last: bool = False) -> list[Sentence]:
        """Take the next piece; return the sentences that are complete now."""
        pending = self._pending = self._pending + text
        sentences: list[Sentence] = []
        markup: list[re.Match[str]] = []
        start = 0

        def finish(end: int) -> None:
            nonlocal start, markup
            while start < end:
                stop = end if markup else min(end, start + MAX_PENDING)
                if (text := pending[start:stop]).strip():
                    sentences.append(_sentence(text, self._offset + start, markup, start))
                start, markup = stop, []

        for match in _MARKUP_OR_END.finditer(pending):
            if len(sentences) >= self._limit:
                return sentences
            if match.start() - start > MAX_PENDING:
                finish(match.start())
            is_open = not is_last and len(pending) - start <= MAX_PENDING
            if match["unclosed"]:
                if is_open and (match[0] == "```" or pending.find("\n", match.end()) < 0):
                    break
            elif match["end"]:
                if is_open and not _NO_CITATION.match(pending, match.end()):
                    break
                if match[0][0] == "\n" or not _is_inside_sentence(pending, match):
                    finish(match.end())
            elif is_open and match.end() == len(pending) and not match["code"]:
                break
            else:
                if match["fence"] or match["block"]:
                    finish(match.start())
                markup.append(match)
                if match["fence"]:
                    finish(match.end())
        if is_last or len(pending) - start > MAX_PENDING:
            finish(len(pending))
        self._pending = pending[start:]
        self._offset += start
        return sentences


def _is_inside_sentence(text: str, end: re.Match[str]) -> bool:
    """Return whether a full stop is inside a sentence: after an abbreviation or list number, or before lower case."""
    if end[0][0] not in ".…" or text[end.start() - 1] == "]":  # a citation precedes the full stop
        return False
    return (end[0] == "." and is_abbreviated(text, end.start())) or _CONTINUATION.match(text, end.end()) is not None


def is_abbreviated(text: str, stop: int) -> bool:
    """Return whether the character at `stop` is the full stop of an abbreviation or of a list number."""
    return text[stop] == "." and _ABBREVIATION.search(text, max(0, stop - _MAX_ABBREVIATION_CHARS), stop) is not None


def _sentence(text: str, offset: int, matches: Sequence[re.Match[str]], start: int) -> Sentence:
    """Return a sentence with its excerpts and citations.

    Args:
        text: the sentence.
        offset: the position of the sentence in the answer.
        matches: the matches of its quotations, code and citations.
        start: the position of the sentence in the text that was searched for the matches.
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
                code.append(Excerpt(_COMMENT.sub("", line).strip(), offset + at + len(line) - len(line.lstrip())))
                at += len(line)
            code.pop(0)
        elif not match["citation"]:
            inner = body.strip("` \t") if match["code"] else _CITATION.split(body)[0].strip(f" \t>{_QUOTE_CHARS}")
            (code if match["code"] else quotes).append(Excerpt(inner, offset + at + body.index(inner)))
    uncoded = _CODE.sub(lambda match: " " * len(match[0]), text)  # [1] is an index in code
    citations = [(offset + match.start(), int(match[1])) for match in _CITATION.finditer(uncoded)]
    prose_text = _CITATION.sub(lambda match: " " * len(match[0]), "".join([*prose, text[last:]]))[lead:].rstrip()
    return Sentence(offset + lead, offset + len(text.rstrip()), prose_text, quotes, code, citations)
