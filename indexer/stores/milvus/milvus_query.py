"""Words and filters as Milvus gets them: our own terms, in a form that its standard tokenizer leaves as it is."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from indexer.filter import Filter
from indexer.generation.lexical.lexical_index import terms_of_chunk
from indexer.generation.lexical.lexical_query import read_query

_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_LONGEST = 65_535  # bytes of a text in Milvus, all of which are ASCII here


def words_of(title: str, section: str, text: str) -> str:
    """Return the terms by which a chunk is found, with spaces between; what is too long for Milvus is left out."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text)))
    return words if len(words) <= _LONGEST else words[: _LONGEST + 1].rpartition(" ")[0]


def number_of(term: str) -> int:
    """Return a number, 63 bits, in place of a term of a filter: none of its characters can mean anything to Milvus."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(only: Filter) -> str:
    """Return the expression that is true of the passages of the documents that a filter allows."""
    tests = [f"array_contains_any(terms, [{', '.join(str(number_of(term)) for term in g)}])" for g in only.terms()]
    if only.date_from or only.date_to:  # which are days, checked when the filter was read
        tests.append(f'date >= "{only.date_from or "0000-00-00"}"')
        tests += [f'date <= "{only.date_to}"'] if only.date_to else []
    return " and ".join(tests)


@dataclass(frozen=True, slots=True)
class MilvusQuery:
    """A query as Milvus is asked for it."""

    text: str  # any of these words
    phrases: tuple[str, ...]  # and every one of these, word after word

    @classmethod
    def read(cls, query: str) -> "MilvusQuery":
        """Read a query as the embedded store does."""
        wanted = read_query(query)
        phrases = tuple(" ".join(map(_token, phrase)) for phrase in wanted.phrases)
        words = dict.fromkeys(word for text in (*map(_token, wanted.words), *phrases) for word in text.split())
        return cls(" ".join(words), phrases)

    def tests(self) -> Iterable[str]:
        """Yield expressions that are true wherever all phrases are."""
        for word in dict.fromkeys(" ".join(self.phrases).split()):
            yield f"text_match(words, '{word}')"

    def matches(self, words: str) -> bool:
        """Return whether what `words_of` gave holds all phrases."""
        return all(f" {phrase} " in f" {words} " for phrase in self.phrases)


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"
