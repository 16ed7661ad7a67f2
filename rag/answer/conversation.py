"""What was asked and answered before a question: what is searched for the two together."""

from collections.abc import Sequence
from typing import NamedTuple

from indexer.generation.lexical.analysis import STEMMERS, is_spaceless, is_stop_word, words

_ENOUGH = 4  # words that tell something, with which a question is understood without those before it
_ENOUGH_SPACELESS = 10  # characters, in scripts without spaces
_MOST_QUESTIONS = 8  # that are looked at, the last ones


class Exchange(NamedTuple):
    """A question, and what was answered."""

    question: str
    answer: str


def search_text(question: str, history: Sequence[Exchange], most: int) -> str:
    """Return what is searched for a question, of `most` characters at most.

    A short question, such as "and on Windows?", is about what was asked before: the last question that stands alone is
    put before it. A longer one begins another subject, or names its own.
    """
    if stands_alone(question):
        return question
    asked = [each.question for each in history[-_MOST_QUESTIONS:]]
    topic = next((each for each in reversed(asked) if stands_alone(each)), asked[0] if asked else "")
    room = most - len(question) - 1
    return f"{topic[:room]} {question}".strip() if room > 0 else question


def stands_alone(question: str) -> bool:
    """Return whether a question has so many words that it is understood by itself."""
    if is_spaceless(question):
        return len(question) >= _ENOUGH_SPACELESS
    spoken = [word.lower() for word in words(question).findall(question)]
    telling = {language: sum(not is_stop_word(word, language) for word in spoken) for language in STEMMERS}
    return min(telling.values(), default=0) >= _ENOUGH
