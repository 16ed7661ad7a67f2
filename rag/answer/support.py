"""The citations of an answer, and whether passages support its statements: by meaning, words, numbers and names.

A passage and its negation are alike in all of these, so this does not say whether they state the same. Text of a model
is read in linear time: each statement, of at most LONGEST characters, is looked for once.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedder.errors import PilotlightError
from indexer.generation.lexical.analysis import STEMMERS, fold, is_spaceless, is_stop_word, terms_in, words
from rag import deadline
from rag.query.results import Hit, split_sentences

Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]  # unit vectors, float32 (n, dim)

LONGEST = 1_000  # characters; there a sentence is cut
_SHORTEST, _SHORTEST_SPACELESS = 12, 4  # characters; less goes on, as the number of a list does, or says nothing
_CLOSING = 200  # characters of citations behind a full stop
_PATIENCE_S = 5.0  # that the model may take to embed something, behind all queries; then words alone are compared
_BY_MEANING = 2 / 3  # weight of the cosine beside the share of words
_WORDS_ALONE = 0.8  # of the threshold, where there are no vectors
_FOREIGN = 3  # words of another language, beyond those of the passages', after which an answer is taken for that
# An end of a line, or a full stop with what closes around it and the citations behind it, once something follows.
# What goes on in lower case or with a digit was an abbreviation.
_END = re.compile(
    r"""\n+|(?<![.!?…])[.!?…]++["'”’»)*_`]*+(?:\s?\[\d+\])*+[ \t]++(?=[^\s\[\d])|"""
    r"""(?<![。！？｡])[。！？｡]++[」』”）]*+(?:\s?\[\d+\])*+(?=[^\s\[」』”）])"""
)
_MARKER = re.compile(r"[ \t]*+(?:>[ \t]*+)*+(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+)?")  # of a quotation or a list
_CITATION = re.compile(r"\s?\[(\d{1,9})\]")
_EMPHASIS = re.compile(r"[*`]+|(?<!\w)_++|(?<!_)_++(?!\w)")
_FENCE = "```"
_NO_STATEMENT = (":", "：", "?", "？")  # announces something, or asks
_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f]\d+)*")
_GROUPED = re.compile(r"[.,'’\u00a0\u202f](?=\d{3}(?!\d))")  # 1,000 and 1.000 are one number here
_NAME = re.compile(r"(?<![\w-])(?:--?[A-Za-z][\w-]*+|[A-Z]\d++|[^\W_]++_\w++|[A-Z]?[a-z]++[A-Z]\w*+|[A-Z]{3,}+(?!\w))")

_INSIDE = re.compile(r"[\d^,;–\- \t]{0,120}+")
_BLANKS = 8  # before a citation, that go with it where it is taken out
_TOKEN = re.compile(rf"```|`|\n|[ \t]{{0,{_BLANKS}}}\[({_INSIDE.pattern})\]")
_LONGEST_TOKEN = _BLANKS + 122
_CITED = re.compile(r"(\d++)(?:[ \t]*+[-–][ \t]*+(\d++))?")

log = logging.getLogger("pilotlight")


class Statement(NamedTuple):
    """A statement: its place in the whole text, [start, end) in characters, and what it says."""

    start: int
    end: int
    text: str  # without marks of lists, emphasis and citations
    cited: tuple[int, ...]


class CitationFilter:
    """Passes text on with every citation written [n], for n from 1 to count; others are taken out.

    Brackets in code are left alone: there, `[0]` is an index. `cited` has the numbers in the order of their first use.
    Each piece is read once, with what was held back of those before: less than a token.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = ""  # what may still become a token
        self._fenced = False  # inside a block of code
        self._inline = False  # inside code within a line
        self.cited: list[int] = []

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """Take the next piece of text; return what can be shown now."""
        text = self._held + text
        cut = len(text)
        if not is_last:
            least = max(0, cut - _LONGEST_TOKEN)
            bracket = text.rfind("[", least)
            if bracket >= 0 and _INSIDE.fullmatch(text, bracket + 1):
                cut = bracket
            elif text.endswith("`"):
                cut -= (len(text) - len(text.rstrip("`"))) % 3
            least = max(0, cut - _BLANKS)
            while cut > least and text[cut - 1] in " \t":
                cut -= 1
        self._held = text[cut:]
        return _TOKEN.sub(self._replace, text[:cut])

    def _replace(self, found: re.Match[str]) -> str:
        mark = found[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            ranges = [(int(first), int(last or first)) for first, last in _CITED.findall(found[1])]
            numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
            self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
            space = mark[: mark.index("[")] if numbers else ""
            return space + "".join(f"[{number}]" for number in numbers) if ranges else mark  # a box to tick, say
        return mark


class StatementReader:
    """Finds the statements of a text that comes in pieces; headings, tables, questions and code are none."""

    def __init__(self) -> None:
        self._text = ""  # what has not been read
        self._looked = 0  # characters of that in which no end was found
        self._offset = 0  # of that, in the whole text
        self._fenced = False

    def feed(self, text: str, *, is_last: bool = False) -> Iterator[Statement]:
        """Take the next piece; yield the statements that are whole now."""
        self._text += text
        begin = 0
        while begin < len(self._text) and (end := self._end(begin, is_last=is_last)):
            yield from self._statement(self._text[begin:end], self._offset + begin)
            begin, self._looked = end, 0
        self._text, self._offset = self._text[begin:], self._offset + begin

    def _end(self, begin: int, *, is_last: bool) -> int | None:
        """Return where the text that begins at a place ends, None where that cannot be told yet."""
        most = begin + LONGEST
        for found in _END.finditer(self._text, begin + self._looked, most + 1):
            end = found.end()
            if "\n" in found[0] or not (_is_short(self._text[begin:end].strip()) or self._text[end].islower()):
                return end
        if len(self._text) > most:
            cut = self._text.rfind(" ", begin + _SHORTEST, most)
            return cut if cut > 0 else most
        self._looked = max(0, len(self._text) - begin - _CLOSING)
        return len(self._text) if is_last else None

    def _statement(self, piece: str, begin: int) -> Iterator[Statement]:
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
    return len(text) < _SHORTEST and (len(text) < _SHORTEST_SPACELESS or not is_spaceless(text))


class Support(NamedTuple):
    """Whether a statement, at [start, end) of the text of an answer, is supported by a passage."""

    start: int
    end: int
    supported: bool
    hit: int | None  # number of the passage that supports it best
    score: float  # up to 1


class Evidence:
    """The passages that an answer is written from, with which its statements are compared."""

    def __init__(self, hits: Sequence[Hit], texts: Sequence[str], embed: Embed | None, threshold: float) -> None:
        """Take the texts of the hits as far as the writer has seen them; without `embed`, words alone are compared."""
        self._embed = embed
        self._vectors: Vectors | None = None  # of all sentences, once there is a statement to compare
        self._threshold = threshold
        self._languages = [hit.language or "" for hit in hits]
        self._stop_words = dict.fromkeys(STEMMERS, 0)  # of each language, in what was judged so far
        self._sentences = [[text[a:b] for a, b in split_sentences(text)] or [text] for text in texts]
        whole = [
            "\n".join(filter(None, (h.title, h.section, h.date, text))) for h, text in zip(hits, texts, strict=True)
        ]
        self._terms = [_content(text, hit.language) for text, hit in zip(whole, hits, strict=True)]
        self._numbers = [set(_numbers(text)) for text in whole]
        self._folded = list(map(fold, whole))

    def judge(self, statement: Statement) -> Support | None:
        """Return whether a passage supports a statement; None where its language is not that of any passage."""
        if self._is_foreign(statement.text):
            return None
        likeness = self._likeness(statement.text)
        threshold = self._threshold * (1 if likeness else _WORDS_ALONE)
        best = Support(statement.start, statement.end, False, None, 0.0)
        # passages may support a statement alone, and those that it cites together
        count = len(self._sentences)
        cited = [number - 1 for number in statement.cited if 0 < number <= count]
        for places in [*([place] for place in range(count)), *([cited] if len(cited) > 1 else [])]:
            share, is_complete = self._words_in(statement.text, places)
            nearest = max(places, key=lambda place: likeness[place]) if likeness else places[0]
            score = _BY_MEANING * likeness[nearest] + (1 - _BY_MEANING) * share if likeness else share
            supported = is_complete and score >= threshold
            if (supported, score) > (best.supported, best.score):
                best = Support(statement.start, statement.end, supported, nearest + 1 if supported else None, score)
        return best

    def _likeness(self, text: str) -> list[float]:
        """Return the cosine of a text and the nearest sentence of each passage; nothing where the model is too busy."""
        if self._embed is None:
            return []
        deadline.begin(_PATIENCE_S)
        try:
            if self._vectors is None:
                self._vectors = self._embed(list(chain(*self._sentences)))
            [vector] = self._embed([text])
        except PilotlightError as error:
            log.debug("statements of an answer are judged by words alone: %s", error)
            self._embed = None
            return []
        finally:
            deadline.lift()
        parts = np.split(self._vectors @ vector, np.cumsum(list(map(len, self._sentences)))[:-1])
        return [float(part.max(initial=0.0)) for part in parts]

    def _words_in(self, text: str, places: Sequence[int]) -> tuple[float, bool]:
        """Return the share of the words of a text that are in passages, and whether all its numbers and names are."""
        wanted = _content(text, self._languages[places[0]])
        shared = wanted.intersection(chain(*(self._terms[place] for place in places)))
        numbers = set(chain(*(self._numbers[place] for place in places)))
        has_numbers = all(
            number in numbers or any(known.startswith(f"{number}.") for known in numbers) for number in _numbers(text)
        )
        has_names = all(any(fold(name) in self._folded[place] for place in places) for name in _NAME.findall(text))
        return len(shared) / max(1, len(wanted)), has_numbers and has_names

    def _is_foreign(self, text: str) -> bool:
        """Return whether the answer is in a language that no passage is in, as far as its most common words tell."""
        spoken = [word.lower() for word in words(text).findall(text)]
        for language in self._stop_words:
            self._stop_words[language] += sum(is_stop_word(word, language) for word in spoken)
        most, known = max(self._stop_words.values()), max(self._stop_words.get(each, 0) for each in self._languages)
        return "" not in self._languages and most >= known + _FOREIGN and known * 2 < most


def _content(text: str, language: str | None) -> set[str]:
    """Return the terms of a text without the words that every text has."""
    rules = language if language in STEMMERS else "en"
    return set(terms_in(" ".join(w for w in words(text).findall(text) if not is_stop_word(w.lower(), rules)), language))


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers of a text, each as it is written most simply; not digits alone, which may be spelled out."""
    for found in _NUMBER.findall(text):
        if len(plain := _GROUPED.sub("", found).replace(",", ".").lstrip("0")) > 1:
            yield plain
