"""Whether passages support the statements of an answer: by likeness in meaning, by words, and by numbers and names.

A passage and its negation are alike in all of these, so this does not say whether they state the same.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from embedder.errors import PilotlightError
from indexer.generation.lexical.analysis import STEMMERS, fold, is_spaceless, is_stop_word, terms_in, words
from rag import deadline
from rag.query.results import Hit, split_sentences

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

    def feed(self, text: str, *, is_last: bool = False) -> Iterator[Statement]:
        """Take the next piece; yield the statements that are whole now."""
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
        if is_last:
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


Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]  # unit vectors, float32 (n, dim)

SUPPORTED = 0.5  # the usual threshold
_BY_MEANING = 2 / 3  # weight of the cosine beside the share of words
_WORDS_ALONE = 0.8  # of the threshold, where there are no vectors
_FOREIGN = 3  # words of another language, beyond those of the passages', after which an answer is taken for that
_NUMBER = re.compile(r"\d+(?:[.,'’\u00a0\u202f]\d+)*")
_GROUPED = re.compile(r"[.,'’\u00a0\u202f](?=\d{3}(?!\d))")  # 1,000 and 1.000 are one number here
_SPELLED = {
    name: str(number)
    for row in (
        "two three four five six seven eight nine ten eleven twelve",
        "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
        "deux trois quatre cinq six sept huit neuf dix onze douze",
        "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    )
    for number, name in enumerate(row.split(), 2)
} | dict.fromkeys(("one", "ein", "eine", "einen", "einem", "einer", "eins", "un", "une", "uno", "una"), "1")
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"(?<![\w-])(?:--?[A-Za-z][\w-]*|\w+_\w+|\w*[a-z][A-Z]\w*|[A-Z]{3,}(?!\w))")


class Support(NamedTuple):
    """Whether a statement, at [start, end) of the text of an answer, is supported by a passage."""

    start: int
    end: int
    supported: bool
    hit: int | None  # number of the passage that supports it best
    score: float  # up to 1

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON-ready form."""
        return self._asdict() | {"score": round(self.score, 4)}


class Evidence:
    """The passages that an answer is written from, ready to be compared with its statements."""

    def __init__(self, hits: Sequence[Hit], texts: Sequence[str], threshold: float = SUPPORTED) -> None:
        """`texts` are those of the hits, as far as the writer has seen them."""
        self._threshold = threshold
        self._passages = [_Passage(hit, text) for hit, text in zip(hits, texts, strict=True)]
        self._languages = {hit.language or "" for hit in hits}
        self._stop_words = dict.fromkeys(STEMMERS, 0)  # of each language, in what was judged so far

    def sentences(self) -> list[str]:
        """Return what is to be embedded once, for `judge` to have the vectors."""
        return [sentence for passage in self._passages for sentence in passage.sentences]

    def judge(self, statement: Statement, vector: Vectors | None, sentences: Vectors | None) -> Support | None:
        """Return whether a passage supports a statement; None where its language is not that of any passage.

        `vector`, float32 (dim,), is the statement's, and `sentences`, float32 (n, dim), are those of `sentences()`;
        without them it is judged by words alone.
        """
        if self._is_foreign(statement.text):
            return None
        count = len(self._passages)
        likeness = [0.0] * count  # of the nearest sentence of each passage
        if by_meaning := vector is not None and sentences is not None:
            ends = np.cumsum([len(passage.sentences) for passage in self._passages])
            parts = np.split(sentences @ vector, ends[:-1])
            likeness = [float(part.max(initial=0.0)) for part in parts]
        threshold = self._threshold * (1 if by_meaning else _WORDS_ALONE)
        cited = [number - 1 for number in statement.cited if number <= count]
        best = Support(statement.start, statement.end, False, None, 0.0)
        # passages may support a statement alone, and those that it cites together
        for places in [*([place] for place in range(count)), *([cited] if len(cited) > 1 else [])]:
            share, is_complete = self._words_in(statement.text, [self._passages[place] for place in places])
            nearest = max(places, key=lambda place: likeness[place])
            score = _BY_MEANING * likeness[nearest] + (1 - _BY_MEANING) * share if by_meaning else share
            supported = is_complete and score >= threshold
            if (supported, score) > (best.supported, best.score):
                best = Support(statement.start, statement.end, supported, nearest + 1 if supported else None, score)
        return best

    def _words_in(self, text: str, passages: Sequence["_Passage"]) -> tuple[float, bool]:
        """Return the share of the words of a text that are in passages, and whether all its numbers and names are."""
        language = passages[0].language
        wanted = _content(text, language)
        found = set().union(*(passage.terms for passage in passages))
        numbers = set().union(*(passage.numbers for passage in passages))
        whole = "\n".join(passage.folded for passage in passages)
        is_complete = all(
            number in numbers or any(known.startswith(f"{number}.") for known in numbers) for number in _numbers(text)
        ) and all(fold(name) in whole for name in _NAME.findall(text))
        return (len(wanted & found) / len(wanted) if wanted else 0.0), is_complete

    def _is_foreign(self, text: str) -> bool:
        """Return whether the answer is in a language that no passage is in, as far as its most common words tell."""
        spoken = [word.lower() for word in words(text).findall(text)]
        for language in self._stop_words:
            self._stop_words[language] += sum(is_stop_word(word, language) for word in spoken)
        if "" in self._languages:
            return False
        known = max(self._stop_words.get(language, 0) for language in self._languages)
        return max(self._stop_words.values()) >= known + _FOREIGN and known * 2 < max(self._stop_words.values())


class _Passage:
    """A passage with its title and headings, in the forms in which it is compared."""

    def __init__(self, hit: Hit, text: str) -> None:
        whole = "\n".join(filter(None, (hit.title, hit.section, hit.date, text)))
        self.language = hit.language
        self.sentences = [text[start:end] for start, end in split_sentences(text)] or [text]
        self.terms = _content(whole, hit.language)
        spelled = {_SPELLED[word] for word in _WORD.findall(whole.lower()) if word in _SPELLED}
        self.numbers = spelled | set(_numbers(whole))
        self.folded = fold(whole)


def _content(text: str, language: str | None) -> set[str]:
    """Return the terms of a text without the words that every text has."""
    rules = language if language in STEMMERS else "en"
    kept = (word for word in words(text).findall(text) if not is_stop_word(word.lower(), rules))
    return set(terms_in(" ".join(kept), language))


def _numbers(text: str) -> Iterable[str]:
    """Yield the numbers of a text, each as it is written most simply."""
    for found in _NUMBER.findall(text):
        plain = _GROUPED.sub("", found).replace(",", ".")
        yield plain.lstrip("0") or "0"


PATIENCE_S = 10.0  # that the model may take to embed something, behind all queries; then words alone are compared
MOST = 500  # statements of an answer that are judged

log = logging.getLogger("pilotlight")


class Judging:
    """The statements of one answer; a context manager, whose end gives up what is not judged yet."""

    def __init__(self, hits: Sequence[Hit], texts: Sequence[str], embed: Embed | None, threshold: float) -> None:
        """Embed the passages at once, while nothing is written yet.

        Without `embed`, words alone are compared; with a threshold of 0, nothing is judged.
        """
        self._reader = StatementReader() if threshold and hits else None
        self._evidence = Evidence(hits, texts, threshold)
        self._embed = embed
        self._left = MOST
        self._context = copy_context()  # which says who asks, and so whose turn it is
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judging")
        self._judged: deque[Future[Support | None]] = deque()  # in order, as one thread makes them
        if self._reader:
            sentences = self._evidence.sentences()
            self._sentences = self._thread.submit(self._context.run, self._embedded, sentences)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def read(self, text: str, *, is_last: bool = False) -> None:
        """Take the next piece of the answer."""
        if self._reader is None:
            return
        for statement in self._reader.feed(text, is_last=is_last):
            if self._left:
                self._left -= 1
                self._judged.append(self._thread.submit(self._context.run, self._judge, statement))

    def ready(self) -> Iterator[Support]:
        """Yield what has been judged since."""
        while self._judged and self._judged[0].done():
            if found := self._judged.popleft().result():
                yield found

    def rest(self, beat: float) -> Iterator[Support | None]:
        """End the answer; yield what is still to be judged, and None whenever nothing has been for `beat` seconds."""
        self.read("", is_last=True)
        while self._judged:
            if wait(list(self._judged)[:1], timeout=beat).done:
                yield from self.ready()
            else:
                yield None

    def _judge(self, statement: Statement) -> Support | None:
        sentences = self._sentences.result()
        vectors = None if sentences is None else self._embedded([statement.text])
        return self._evidence.judge(statement, None if vectors is None else vectors[0], sentences)

    def _embedded(self, texts: Sequence[str]) -> Vectors | None:
        if self._embed is None:
            return None
        deadline.begin(PATIENCE_S)
        try:
            return self._embed(texts)
        except PilotlightError as error:
            log.debug("statements of an answer are judged by words alone: %s", error)
            return None
