"""Hyphens at the ends of lines: whether they belong to the word is told by how the document itself writes it."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from indexer.read.pdf.lines import HYPHEN

_PARTED = re.compile(rf"([^\W\d_]+){HYPHEN}([-\u2010])([^\W\d_]+)")
_FIRST = re.compile(r"[^\W\d_]{1,60}")
HYPHENS = ("-", "\u2010")
_SPELLING = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_INSIDE = re.compile(r"[^\W\d_]\u2010[^\W\d_]")
_LONGEST_END = 64  # characters at the end of a text in which its last word is looked for
_AND = frozenset("and or nor und oder bzw sowie et ou e o y en of og och".split())  # as in "pre- and postwar"


class Hyphens:
    """Which hyphens at line ends stay, by the spellings in a document."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Count the spellings of the words that are parted in these texts, with and without a hyphen."""
        texts = list(texts)
        parted = [match.groups() for text in texts if HYPHEN in text for match in _PARTED.finditer(text)]
        for text, after in pairwise(texts):
            if text.endswith(HYPHENS) and (match := _PARTED.search(_ends(text, after))):
                parted.append(match.groups())
        wanted = {(a + hyphen + b).casefold() for a, _, b in parted for hyphen in ("", "-")}
        self._counts: Counter[str] = Counter()
        if wanted:
            words = (word for text in texts for word in _SPELLING.findall(text.casefold().replace("\u2010", "-")))
            self._counts.update(word for word in words if word in wanted)
        # programs that part words by U+2010 leave the hyphens that an author wrote as they are
        self._has_own = any(sign == "\u2010" for _, sign, _ in parted) and not any(map(_INSIDE.search, texts))

    def resolved(self, text: str) -> str:
        """Return a text with the words whole that were parted at the ends of its lines."""
        return _PARTED.sub(self._whole, text).replace(HYPHEN, "") if HYPHEN in text else text

    def goes_on(self, text: str, after: str) -> str:
        """Return a text that another page goes on with, without the hyphen at its end if the word has none."""
        whole = self.resolved(_ends(text, after))
        first = _FIRST.match(after)
        return text[:-_LONGEST_END] + whole[: len(whole) - len(first[0])] if first else text

    def _whole(self, match: re.Match[str]) -> str:
        first, sign, second = match.groups()
        with_hyphen, without = (self._counts[(first + hyphen + second).casefold()] for hyphen in ("-", ""))
        around = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
        if with_hyphen == without:
            if second in _AND:
                return f"{first}- {second}"
            is_own = second[0].isupper() or "-" in around or (sign == "-" and self._has_own)
            return f"{first}-{second}" if is_own else first + second
        return f"{first}-{second}" if with_hyphen > without else first + second


def _ends(text: str, after: str) -> str:
    """Return the end of a text, at a hyphen that may part a word, with the beginning of what comes after it."""
    first = _FIRST.match(after)
    return f"{text[-_LONGEST_END:-1]}{HYPHEN}{text[-1:]}{first[0] if first else ''}"
