"""Find the question in a pasted text: the errors in a traceback or log, or the main sentences of an email."""

import re
from collections.abc import Callable, Sequence
from itertools import compress, pairwise
from operator import not_

import numpy as np
import numpy.typing as npt

from indexer.cut.cuts import split_sentences

_MIN_LINES, _MIN_WORDS = 3, 20
MIN_PASTED_CHARS = 4 * _MIN_WORDS
_MAX_ERROR_WORDS = 64
# A one-line input field removes line ends, but not tabs and indents. This pattern matches at the removed line ends.
_REMOVED_LINE_END = re.compile(
    r"(?=\t)|(?<!:)(?=  \S)| (?=at [\w.$<>/]+\()| (?=Caused by: |---> )"
    r"|(?<=[)\]])(?=Caused by: |[\w.]+(?:Error|Exception): )"
)
# A line with details, such as a stack frame, is indented or numbered, or names a location in a program.
_DETAIL = re.compile(r"[ \t]|#\d+\s|\d+:\s|at\s+\S+[(:]|from\s+\S+:\d")
_CAUSE = re.compile(r"\W*+(?:Caused by\b|[\w.]*(?:Error|Exception)(?=[:)]| \[|$))")
_FAULT = re.compile(
    r"\b(?:error|exception|fatal|panic(?:ked)?|fail(?:ed|ure)?|abort(?:ed)?|critical|denied|refused|rejected|killed|cannot"
    r"|unable|undefined|unsupported|timed out)\b(?!\W{0,3}(?:none|false|0)\b)|(?<=[a-z])(?:Error|Exception|Fault)\b",
    re.IGNORECASE,
)
_DIAGNOSTIC = re.compile(r"\s*(?=[^\s:(]*[^\W\d_])\S+?[:(]\d+(?:[:,]\d+)?\)?:?(?: -)? (?:fatal )?error\b")  # file:line
_CODE = re.compile(r"\b[A-Z]{1,5}-?\d{3,6}\b")
_NUMBER = re.compile(r"\d+")
_PLAIN_WORD = re.compile(r"[^\w\s]*[^\W\d_]+(?:['\u2019-][^\W\d_]+)*[^\w\s]*")
_MIN_NON_WORD_SHARE = 0.25
_MIN_SENTENCE_BYTES = 20  # a Chinese character has three bytes, and says as much as three Latin letters
_MIN_NEARNESS_SHARE = 0.9


def error_lines(text: str) -> str:
    """Return the most important error lines of a pasted traceback or log. Return any other text unchanged.

    If lines name causes, such as "Caused by: …", return only the last cause. Otherwise return the lines with error
    codes or, without codes, all lines that name errors, starting with the last line and without repetitions.
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
            faults[-1] += f" {line}"  # the next line has the message
        elif _FAULT.search(line):
            faults.append(line)
    if not faults or not (has_frames or _is_log(lines)):
        return text
    coded = [line for line in faults if _CODE.search(line)]
    distinct: dict[str, str] = {}
    causes = list(filter(_CAUSE.match, faults))
    for line in causes[-1:] or reversed(coded or faults):
        if sum(len(each.split()) for each in distinct.values()) < _MAX_ERROR_WORDS:
            distinct.setdefault(_NUMBER.sub("0", line), line)
    return "\n".join(distinct.values())


def nearest_sentences(text: str, measure: Callable[[Sequence[str]], npt.NDArray[np.float32]]) -> str:
    """Shorten a text to the sentences that are most similar to passages of the index, in their original order.

    For example, the question of an email is kept, and the greeting is dropped. A sentence is kept if its similarity is
    at least 90 % of the highest similarity.

    Args:
        measure: returns, for each sentence, the similarity of the most similar passage, float32 (n,).
    """
    sentences = [each.strip() for each in split_sentences(text) if len(each.encode()) >= _MIN_SENTENCE_BYTES]
    if len(sentences) < 2:
        return text
    nearness = measure(sentences)
    highest = float(nearness.max())
    return " ".join(compress(sentences, nearness >= min(highest, _MIN_NEARNESS_SHARE * highest)))


def _is_log(lines: list[str]) -> bool:
    """Return whether lines are a log: many words have digits or symbols."""
    words = " ".join(lines).split()
    return sum(_PLAIN_WORD.fullmatch(word) is None for word in words) >= _MIN_NON_WORD_SHARE * len(words)
