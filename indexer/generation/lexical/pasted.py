"""Find the question in a pasted text: the error in a traceback or log, or the sentences of an email like a passage."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress, pairwise
from operator import not_

import numpy as np
import numpy.typing as npt

from indexer.cut.cuts import split_sentences

_MIN_LINES, _MIN_WORDS = 3, 20
MIN_PASTED_CHARS = 4 * _MIN_WORDS
_MAX_TELLING_WORDS = 64
# A one-line field removes line ends, but keeps the tabs and indents after them.
_REMOVED_LINE_END = re.compile(
    r"(?=\t)|(?<!:)(?=  \S)| (?=at [\w.$<>/]+\()| (?=Caused by: |---> )"
    r"|(?<=[)\]])(?=Caused by: |[\w.]+(?:Error|Exception): )"
)
# A line of detail is indented or numbered, or names a place in a program.
_DETAIL = re.compile(r"[ \t]|#\d+\s|\d+:\s|at\s+\S+[(:]|from\s+\S+:\d")
_CAUSE = re.compile(r"\W*+(?:Caused by\b|[\w.]*(?:Error|Exception)(?=[:)]| \[|$))")
_FAULT = re.compile(
    r"\b(?:error|exception|fatal|panic(?:ked)?|fail(?:ed|ure)?|abort(?:ed)?|critical|denied|refused|rejected|killed|cannot"
    r"|unable|undefined|unsupported|timed out)\b(?!\W{0,3}(?:none|false|0)\b)|(?<=[a-z])(?:Error|Exception|Fault)\b",
    re.IGNORECASE,
)
_DIAGNOSTIC = re.compile(r"\s*(?=[^\s:(]*[^\W\d_])\S+?[:(]\d+(?:[:,]\d+)?\)?:?(?: -)? (?:fatal )?error\b")  # file, line
_CODE = re.compile(r"\b[A-Z]{1,5}-?\d{3,6}\b")
_NUMBER = re.compile(r"\d+")
_PLAIN_WORD = re.compile(r"[^\w\s]*[^\W\d_]+(?:['\u2019-][^\W\d_]+)*[^\w\s]*")
_MIN_MACHINE_WORDS = 0.25  # share of all words
_MIN_SENTENCE_BYTES = 20  # UTF-8, because a Chinese character says as much as three English letters
_MIN_NEARNESS_SHARE = 0.9


def error_lines(text: str) -> str:
    """Return the lines that name errors in a pasted traceback or log; return any other text unchanged.

    If lines name causes, return only the last of them. Otherwise return diagnostics of compilers in order, or else
    lines with error codes or all lines that name errors, the last first. Lines that differ only in numbers count once.
    """
    split = text.splitlines() if "\n" in text else _REMOVED_LINE_END.split(text)
    lines = [line.rstrip() for line in split if line.strip()]
    if len(lines) < _MIN_LINES or len(text.split()) < _MIN_WORDS:
        return text
    is_detail = [bool(_DETAIL.match(line)) and not (_CAUSE.match(line) or _DIAGNOSTIC.match(line)) for line in lines]
    has_frames = sum(is_detail) >= max(_MIN_LINES, len(lines) / 3)
    faults: list[str] = []
    for before, line in pairwise(["", *compress(lines, map(not_, is_detail))]):
        if faults[-1:] == [before] and before.endswith(":"):
            faults[-1] += f" {line}"  # the message is on the next line
        elif _FAULT.search(line) or _CODE.search(line):
            faults.append(line)
    if not faults or not (has_frames or _is_log(lines)):
        return text
    coded = [line for line in faults if _CODE.search(line) and _FAULT.search(line)]
    telling: dict[str, str] = {}
    causes, diagnostics = (list(filter(pattern.match, faults)) for pattern in (_CAUSE, _DIAGNOSTIC))
    for line in causes[-1:] or diagnostics or reversed(coded or faults):
        if sum(len(each.split()) for each in telling.values()) < _MAX_TELLING_WORDS:
            telling.setdefault(_NUMBER.sub("0", line), line)
    return "\n".join(telling.values())


def nearest_sentences(text: str, measure: Callable[[Sequence[str]], npt.NDArray[np.float32]]) -> str:
    """Return, in order, the sentences of a long text that are nearly as close to a passage as the closest of them.

    In a mail, greetings and background outweigh the question. `measure` returns how near each sentence is to its
    nearest passage, (n,).
    """
    sentences = [each.strip() for each in split_sentences(text) if len(each.encode()) >= _MIN_SENTENCE_BYTES]
    if len(sentences) < 2:
        return text
    nearness = measure(sentences)
    highest = float(nearness.max())
    return " ".join(compress(sentences, nearness >= min(highest, _MIN_NEARNESS_SHARE * highest)))


def _is_log(lines: list[str]) -> bool:
    """Return whether lines are not prose: many words have digits or signs, or most lines begin with the same word."""
    words = " ".join(lines).split()
    if sum(_PLAIN_WORD.fullmatch(word) is None for word in words) >= _MIN_MACHINE_WORDS * len(words):
        return True
    beginnings = Counter(_NUMBER.sub("0", line.split(maxsplit=1)[0]) for line in lines)
    return beginnings.most_common(1)[0][1] > len(lines) / 2
