"""Find the telling lines of a pasted traceback or log: the error, not the frames above it."""

import re
from collections import Counter

_MIN_LINES, _MIN_WORDS = 3, 40  # shorter texts are read whole
MIN_PASTED_CHARS = 4 * _MIN_WORDS
_MAX_TELLING_WORDS = 64  # one embedding
# Where lines end, also in a text field of one line, which takes out line ends but keeps tabs and indents.
_LINE = re.compile(
    r"(?<!\s)\s*\n|(?=\t)|(?=  \S)| (?=at [\w.$<>/]+\()| (?=Caused by: )"
    r"|(?<=[)\]])(?=Caused by: |[\w.]+(?:Error|Exception): )"
)
# A line of detail: indented, numbered, or a place in a program.
_DETAIL = re.compile(r"[ \t]|#\d+\s|\d+:\s|at\s+\S+[(:]|from\s+\S+:\d")
_FEWEST_DETAILS = 3
_CAUSE = re.compile(r"caused by\b|\w+(?:\.\w+)*(?:Error|Exception)\b", re.IGNORECASE)
_FAULT = re.compile(
    r"\b(?:error|exception|fatal|panic(?:ked)?|fail(?:ed|ure)?|abort(?:ed)?|critical|denied|cannot|unable|undefined)\b"
    r"|\b[EW]?[A-Z]{1,4}-?\d{3,5}\b|(?<=[a-z])(?:Error|Exception|Fault)\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")


def telling_lines(text: str) -> str:
    """Return the lines of a pasted traceback or log that name the error, the innermost cause first; else the text.

    A line says something where it is not indented and is no numbered frame or place in a program. Of these, the lines
    that name an error or a cause go before the others, and later ones before earlier ones.
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


def _is_log(lines: list[str]) -> bool:
    """Return whether most lines begin alike but for their digits, as with a time or the name of a program."""
    beginnings = Counter(_DIGIT.sub("0", line.split(maxsplit=1)[0]) for line in lines)
    return beginnings.most_common(1)[0][1] > len(lines) / 2
