"""Words whose letters are set apart, or printed twice for a shadow or bold type."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_TOKEN = 2  # characters between two spaces that may be part of a spaced word
# letters apart, or a word of which each letter is printed twice
APART = re.compile(r"(?<!\S)(?:[^\W\d_] [^\W\d_] [^\W\d_]{1,2}(?!\S)|([^\W\d_])\1(?!\1)([^\W\d_])\2)")
_LEAST = 3  # pieces of a spaced word
_LEAST_ALONE = 5  # pieces of one on a line of its own, next to which nothing shows how wide a space is
_SPACE = (0.2, 0.7)  # of the size: gaps as wide as an ordinary space
_WIDEST = 2.0  # of the size: gap between spaced words
_JUMP = 0.12  # of the size: gaps between words are wider by this than those between letters
_RATIO = 1.4  # and by this factor
_EVEN = 0.25  # of the size: difference between gaps inside a word
_VOWELS = frozenset("aeiouy")
_SHORT = re.compile(f"s{{{_LEAST},}}")
_SYMBOL = re.compile("[+=<>|~^*\u00b7\u00d7\u00f7\u2200-\u22ff]")  # of formulas


class Word(NamedTuple):
    """A run of characters without a space; points, from the lower left of the page as it is read."""

    text: str
    left: float
    right: float
    base: float  # of the line it stands on
    size: float
    is_bold: bool = False
    is_fixed: bool = False  # in type of which every letter is as wide as another


def spaced_words(words: Sequence[Word]) -> list[Word]:
    """Return words in which letters that are set apart (`H A R B O U R`) are joined."""
    found: list[Word] = []
    done = 0
    for run in _SHORT.finditer("".join("s" if len(word[0]) <= _TOKEN else "l" for word in words)):
        first = run.start()
        while first < run.end():
            end = first + 1
            while end < run.end() and _gap(words[end - 1], words[end]) is not None:
                end += 1
            if end - first >= _LEAST:
                found += [*words[done:first], *_joined(words, first, end)]
                done = end
            first = end
    return [*found, *words[done:]]


def _gap(word: Word, after: Word) -> float | None:
    """Return the distance to the next word on a line, in points; None where it is far away or on another line."""
    size = max(word.size, after.size)
    gap = after.left - word.right
    is_near = abs(after.base - word.base) <= 0.1 * size and -0.2 * size < gap <= _WIDEST * size
    return gap if is_near else None


def _joined(words: Sequence[Word], first: int, end: int) -> Sequence[Word]:
    """Return a run of short words, joined where the gaps between them show that they are letters of longer ones."""
    run = words[first:end]
    size = max(word.size for word in run)
    if 2 * sum(len(word.text) == 1 for word in run) < len(run) or any(_SYMBOL.search(word.text) for word in run):
        return run
    gaps = [after.left - word.right for word, after in pairwise(run)]
    ordered = sorted(gaps)
    jumps = [(b - a, a, (a + b) / 2) for a, b in pairwise(ordered) if b - a >= _JUMP * size and b >= _RATIO * a]
    _, widest, limit = max(jumps, default=(0.0, ordered[-1], ordered[-1] + _JUMP * size))
    if ordered[0] < 0.02 * size or widest - ordered[0] > _EVEN * size:
        return run
    # letter spacing comes after each letter, so the space after the last one is the wider one
    after = _gap(words[end - 1], words[end]) if end < len(words) else None
    before = _gap(words[first - 1], words[first]) if first else None
    if (before is not None and before < ordered[0]) or ((before if after is None else after) or limit) < limit:
        return run
    groups = [[run[0]]]
    for gap, word in zip(gaps, run[1:], strict=True):
        if gap > widest:
            groups.append([])
        groups[-1].append(word)
    texts = ["".join(word.text for word in group) for group in groups]
    is_alone = not jumps and before is None and after is None
    has_usual_gaps = _SPACE[0] * size <= ordered[len(ordered) // 2] <= _SPACE[1] * size
    least = _LEAST_ALONE if is_alone and has_usual_gaps else _LEAST
    if not any(len(group) >= least and _is_like_a_word(text) for group, text in zip(groups, texts, strict=True)):
        return run
    return [
        group[0]._replace(text=text, right=group[-1].right, size=max(word.size for word in group))
        for group, text in zip(groups, texts, strict=True)
    ]


def _is_like_a_word(text: str) -> bool:
    """Return whether letters are no list of letters, of marks in a table, or of names of variables."""
    letters = [letter.lower() for letter in text if letter.isalpha()]
    is_cased = text.upper() == text or text[1:].lower() == text[1:]
    is_list = all(a < b for a, b in pairwise(letters))
    has_vowel = not text.isascii() or not _VOWELS.isdisjoint(letters)
    return 3 * len(letters) >= 2 * len(text) and len(set(letters)) >= _LEAST and is_cased and not is_list and has_vowel


def is_printed_twice(words: Sequence[Word]) -> bool:
    """Return whether words, or parts of them, are printed on top of each other."""
    ends: dict[int, float] = {}  # by base line
    for _, left, right, base, size, *_ in words:
        line = round(base)
        if left < ends.get(line, left) - 0.3 * size:
            break
        ends[line] = right
    else:  # all lines go on to the right
        return False
    ordered = sorted((round(word.base), word.left, word.right, word.size, word.text) for word in words)
    return any(
        left < end - 0.3 * size and base == line and (before in text or text in before)
        for (line, _, end, size, before), (base, left, _, _, text) in pairwise(ordered)
    )
