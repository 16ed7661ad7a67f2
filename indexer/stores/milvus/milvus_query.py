"""Words and filters as Milvus gets them: our own terms, in a form that its standard tokenizer leaves as it is."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from indexer.filter import AnyOf, Condition, Dated, Filter, HasTerm, LacksTerm
from indexer.generation.lexical.lexical_query import Clause, LexicalQuery
from indexer.generation.lexical.lexical_writer import terms_of_chunk

_PLAIN = re.compile(r"(?!0x)[a-z0-9]+")
_ALL, _NONE = "row >= 0", "row < 0"  # expressions that are true of every passage, and of none
_LONGEST = 65_535  # bytes of a text in Milvus, all of which are ASCII here


def words_of(title: str, section: str, text: str, language: str | None = None) -> str:
    """Return the terms by which a chunk is found, with spaces between; what is too long for Milvus is left out."""
    words = " ".join(map(_token, terms_of_chunk(title, section, text, language).split()))
    return words if len(words) <= _LONGEST else words[: _LONGEST + 1].rpartition(" ")[0]


def number_of(term: str) -> int:
    """Return a number, 63 bits, in place of a term of a filter: none of its characters can mean anything to Milvus."""
    return int.from_bytes(hashlib.sha256(term.encode("utf-8", "replace")).digest()[:8], "big") >> 1


def expression(only: Filter) -> str:
    """Return the expression that is true of the passages of the documents that a filter allows."""
    return _all_of(only.conditions())


def _all_of(conditions: Sequence[Condition]) -> str:
    return " and ".join(map(_test, conditions)) or _ALL


def _test(condition: Condition) -> str:
    match condition:
        case HasTerm(terms):
            return f"array_contains_any(terms, [{', '.join(str(number_of(term)) for term in terms)}])"
        case LacksTerm(term):
            return f"not ({_test(HasTerm((term,)))})"
        case Dated(first, last):  # which are days, checked when the filter was read
            since = f'date >= "{first or "0000-00-00"}"'
            return f'{since} and date <= "{last}"' if last else since
        case AnyOf(alternatives):
            return f"({' or '.join(f'({_all_of(each)})' for each in alternatives) or _NONE})"


@dataclass(frozen=True, slots=True)
class MilvusQuery:
    """A query as Milvus is asked for it."""

    text: str  # any of these words
    phrases: tuple[tuple[str, ...], ...]  # and one reading of each of these, word after word
    excluded: tuple[tuple[str, ...], ...]  # and no reading of any of these

    @classmethod
    def of(cls, wanted: LexicalQuery) -> "MilvusQuery":
        """Put a query in the terms of Milvus, which has all fields of a passage in one."""
        phrases, excluded = (tuple(map(_phrases, clauses)) for clauses in (wanted.required, wanted.excluded))
        synonyms = (" ".join(map(_token, terms)) for readings in wanted.synonyms for terms in readings)
        texts = (*(_token(term) for forms in wanted.words for term in forms), *synonyms, *chain(*phrases))
        return cls(" ".join(dict.fromkeys(word for text in texts for word in text.split())), phrases, excluded)

    def tests(self) -> Iterable[str]:
        """Yield expressions that are true wherever all phrases are, and false wherever an excluded one is."""
        for readings in self.phrases:
            yield _either(readings)
        for readings in self.excluded:
            yield f"not ({_either(readings)})"

    def matches(self, words: str) -> bool:
        """Return whether what `words_of` gave holds all phrases."""
        return all(any(f" {phrase} " in f" {words} " for phrase in readings) for readings in self.phrases)


def _phrases(clause: Clause) -> tuple[str, ...]:
    return tuple(" ".join(map(_token, terms)) for terms in clause.readings)


def _either(readings: Sequence[str]) -> str:
    """The expression that is true where all words of one of these are."""
    tests = [" and ".join(f"text_match(words, '{word}')" for word in dict.fromkeys(one.split())) for one in readings]
    return tests[0] if len(tests) == 1 else f"({' or '.join(f'({test})' for test in tests)})"


def _token(term: str) -> str:
    return term if _PLAIN.fullmatch(term) else f"0x{term.encode('utf-8', 'replace').hex()}"
