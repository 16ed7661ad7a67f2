"""Where the words of a query stand in a passage."""

import re
from functools import lru_cache

# Words too common to tell one passage from another; marking them would bury the rest.
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "shall",
        "should",
        "so",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_WORD = re.compile(r"\w+")


def highlights(query: str, text: str) -> list[tuple[int, int]]:
    """Return the character spans [start, end) of words in `text` that are words of `query`, in any inflection of -s.

    A query of stop words alone marks them.
    """
    wanted = _wanted(query)
    return [match.span() for match in _WORD.finditer(text) if _stem(match.group()) in wanted]


@lru_cache(maxsize=64)
def _wanted(query: str) -> frozenset[str]:
    words = {_stem(word) for word in _WORD.findall(query)}
    return frozenset(words - STOP_WORDS or words)


@lru_cache(maxsize=16_384)  # an answer has hundreds of words, and mostly the same ones as the answer before
def _stem(word: str) -> str:
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
