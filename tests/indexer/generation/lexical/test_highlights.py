"""Where a passage has the words of a query: the fast way for ASCII text finds what looking at every word finds."""

import pydoc_data.topics
import re

import pytest

from indexer.generation.lexical.analysis import has_sign, terms_of_word, words
from indexer.generation.lexical.highlights import spans
from indexer.generation.lexical.lexical_query import read_query

TEXTS = [text for name, text in sorted(pydoc_data.topics.topics.items()) if text.isascii()][:30]
IRREGULAR = (
    "dying lying tying skies skis idly gently ugly early only singly using hoping flies happily relational ability "
    "reliability max_connections Max_Connections _under_ x1 try tries trying class's"
)


def word_by_word(query: str, text: str) -> list[tuple[int, int]]:
    marked = read_query(query).marked
    found = []
    for match in words(text).finditer(text):
        if not marked.isdisjoint(terms_of_word(match[0])):
            parts = [match] if not has_sign(match[0]) else re.finditer(r"\w+", match[0], re.ASCII)
            at = match.start() if has_sign(match[0]) else 0
            found += [(at + part.start(), at + part.end()) for part in parts if marked & {*terms_of_word(part[0])}]
    return found


@pytest.mark.parametrize(
    "query",
    [
        "how do I catch several exceptions in a single except clause of a try",
        "is it a",
        "names of attributes, classes' methods and __init__",
        '"context manager" yielding generators',
        "use",
    ],
)
def test_the_words_a_reader_would_find(query):
    for text in TEXTS:
        assert spans(read_query(query).marked, text) == word_by_word(query, text)


@pytest.mark.parametrize("word", IRREGULAR.split())
def test_every_form_of_a_word_is_found(word):
    text = f"{IRREGULAR} a_{word} {word}, ({word.upper()})"
    found = spans(read_query(word).marked, text)
    assert found == word_by_word(word, text)
    assert len(found) >= 3


def test_nothing_to_mark():
    assert spans(read_query("zebra").marked, TEXTS[0]) == []
    assert spans(frozenset(), "any text") == []
