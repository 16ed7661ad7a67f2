"""Find the question in a pasted text: the error of a traceback or log, or the sentences of a mail near a passage."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from indexer.cut.cuts import split_sentences

_MIN_LINES, _MIN_WORDS = 3, 40
MIN_PASTED_CHARS = 4 * _MIN_WORDS
_MAX_TELLING_WORDS = 64
# Ends of lines. A one-line field removes line ends, but keeps the tabs and indents after them.
_LINE = re.compile(
    r"(?<!\s)\s*\n|(?=\t)|(?=  \S)| (?=at [\w.$<>/]+\()| (?=Caused by: )"
    r"|(?<=[)\]])(?=Caused by: |[\w.]+(?:Error|Exception): )"
)
# A line of detail is indented or numbered, or names a place in a program.
_DETAIL = re.compile(r"[ \t]|#\d+\s|\d+:\s|at\s+\S+[(:]|from\s+\S+:\d")
_FEWEST_DETAILS = 3
_CAUSE = re.compile(r"caused by\b|\w+(?:\.\w+)*(?:Error|Exception)\b", re.IGNORECASE)
_FAULT = re.compile(
    r"\b(?:error|exception|fatal|panic(?:ked)?|fail(?:ed|ure)?|abort(?:ed)?|critical|denied|cannot|unable|undefined)\b"
    r"|\b[EW]?[A-Z]{1,4}-?\d{3,5}\b|(?<=[a-z])(?:Error|Exception|Fault)\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_MIN_SENTENCE_BYTES = 20  # UTF-8, because a Chinese character says as much as three English letters
_MIN_NEARNESS_SHARE = 0.9


def telling_lines(text: str) -> str:
    """Return the lines of a pasted traceback or log that name errors, or the text if it is neither of these.

    Lines of detail are left out. Causes come first, then other errors, and in both groups the last line is first.
    """
    if len(text.split()) < _MIN_WORDS:
        return text
    lines = [line.rstrip() for line in _LINE.split(text) if line.strip()]
    if len(lines) < _MIN_LINES:
        return text
    outer = [line for line in lines if not _DETAIL.match(line)]
    has_frames = len(lines) - len(outer) >= max(_FEWEST_DETAILS, len(lines) / 3)
    faults = [line for line in outer if _FAULT.search(line)]
    if not faults or not (has_frames or _is_log(lines)):
        return text
    causes = [line for line in faults if _CAUSE.match(line)]
    telling: list[str] = []
    for line in [*reversed(causes), *reversed(faults)]:
        if line not in telling and sum(len(each.split()) for each in telling) < _MAX_TELLING_WORDS:
            telling.append(line)
    return "\n".join(telling)


def telling_sentences(text: str, measure: Callable[[Sequence[str]], npt.NDArray[np.float32]]) -> str:
    """Return, in order, the sentences of a long text that are nearly as close to a passage as the closest of them.

    In a mail, greetings and background outweigh the question. `measure` returns the nearness of each sentence to the
    passage nearest to it, (n,).
    """
    sentences = [each.strip() for each in split_sentences(text) if len(each.encode()) >= _MIN_SENTENCE_BYTES]
    if len(sentences) < 2:
        return text
    nearness = measure(sentences)
    highest = float(nearness.max())
    return " ".join(compress(sentences, nearness >= min(highest, _MIN_NEARNESS_SHARE * highest)))


def _is_log(lines: list[str]) -> bool:
    """Return whether most lines have the same first word except for digits, such as a time or a program's name."""
    beginnings = Counter(_DIGIT.sub("0", line.split(maxsplit=1)[0]) for line in lines)
    return beginnings.most_common(1)[0][1] > len(lines) / 2
