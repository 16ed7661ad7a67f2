"""Check the facts of a sentence (numbers, names, code and addresses) and its other words against passages."""

import re
from calendar import month_name
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice, pairwise
from math import isfinite, log
from operator import itemgetter

from indexer.generation.lexical.analysis import STEMMERS, STOP_WORDS, is_stop_word
from rag.answer.evidence import (
    CAPITALISING,
    RARE_WORD_WEIGHT,
    STEM_CHARS,
    Evidence,
    Term,
    is_derived,
    is_unit_of_measure,
    read_terms,
    value_of,
)
from rag.answer.sentences import Sentence

FACT_WEIGHT = 2 * RARE_WORD_WEIGHT
_MIN_CLAIM_WORDS = 6  # a sentence with fewer words is never unrelated
_MIN_COVERAGE = 0.45  # share of a sentence's words that its passages must have; otherwise it is unrelated
_MIN_REPEATED_WORDS = 4  # shorter sentences are not searched for an altered fact
_MIN_REPEATED = 0.9  # share of the words around an altered fact that must be in the passage's sentence
_MAX_NUMBERS_TO_DERIVE = 20  # numbers per sentence; the time grows with their square
_CODE = re.compile(
    r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w.])(?!\d+(?:\.\d{3})+\b)v?\d{1,3}(?:\.\d{1,3}){2,3}(?!\w|\.\w)"  # versions and IP addresses
    r"|(?<![\w/.])[~.]?/[\w.][\w./+-]*\w|(?<!\w)--?[A-Za-z][\w-]*+|(?<!\w)%\w++"  # paths, options and formats
    r"|(?<![\w.])[A-Za-z_]{2,64}+[.=][A-Za-z_]{2}\w{0,62}"  # attributes and assignments
)
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_WORD = re.compile(r"\w+")
_NUMERIC_MONTH = re.compile(r"(?<=\d)[./](?:0?[1-9]|1[012])[./](?=[12]\d{3}\b)")  # the passage may spell out the month
_SENTENCE_OPENERS = '\n!?:;…(•|#>-–—"“„«'  # characters before the first word of a sentence
_HYPHENATED = re.compile(r"(?<=\w[-‐‑])\w")  # the second part of T-Systems
_LIST_NUMBER = re.compile(r"\s*\d{1,3}[.)]\s*")


class PassageWords:
    """The words of passages, weighted by rarity. A word that occurs in only one sentence weighs RARE_WORD_WEIGHT."""

    def __init__(self, passages: Sequence[Evidence]) -> None:
        counts, total = Counter[str](), 1 + sum(len(each.sentences) for each in passages)
        for each in passages:
            counts.update({key: len(places) for key, places in each.places.items()})
        self._weights = {key: log(total / count, total) for key, count in counts.items()}

    def weight(self, keys: Iterable[str], *, is_fact: bool) -> float:
        """Return the weight of a word: FACT_WEIGHT for part of a fact, and 0 for a word that no passage has."""
        rarity = max(self._weights.get(key, 0.0) for key in keys)
        return FACT_WEIGHT if rarity and is_fact else rarity


class Claim:
    """A sentence of an answer, compared with the facts and words of passages."""

    def __init__(
        self, sentence: Sentence, passages: Sequence[Evidence], exempt: Collection[str], words: PassageWords
    ) -> None:
        """Find the facts of a sentence, except numbers that need no proof. Then find the facts that no passage has.

        Args:
            sentence: the sentence.
            passages: the passages that the sentence cites, or all passages if it cites none.
            exempt: keys of facts that need no check, such as those of the question.
            words: the words of all passages.
        """
        language = passages[0].hit.language if passages else None
        prose, start = sentence.prose, sentence.start
        self._is_translated = not _is_in_language(_WORD.findall(prose.lower()), language)
        has_names = not self._is_translated and language not in CAPITALISING
        code = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
        ends = {piece.end + 1 - start for piece in (*sentence.code, *sentence.quotes)}  # not "-call" in `fetch()`-call
        code += [
            Term(match[0], start + match.start(), "") for match in _CODE.finditer(prose) if match.start() not in ends
        ]
        prose = _CODE.sub(lambda match: " " * len(match[0]), prose)
        prose = _NUMERIC_MONTH.sub(lambda match: " " * len(match[0]), prose)
        content = [term for term in read_terms(prose, language) if not term.is_stop]
        facts = [term for term in content if _is_fact(term, prose, has_names) and term.key not in exempt]
        settled = _need_no_proof(content, facts, passages, exempt)
        facts = [term._replace(start=start + term.start) for term in facts if term.start not in settled]
        words_of_code = [_terms(each.text, language) for each in code]
        unknown_code = [
            each
            for each, terms in zip(code, words_of_code, strict=True)
            if not all(term.key in exempt for term in terms)
        ]
        self.facts = [*unknown_code, *facts]
        self.missing = [fact for fact in self.facts if not any(each.has(fact) for each in passages)]
        self._passages, self._exempt, self._has_quotes = passages, exempt, bool(sentence.quotes)

        quoted = [_terms(each.text, language) for each in sentence.quotes]
        self._words = [frozenset(term.keys) for term in chain(content, *words_of_code, *quoted)]
        fact_keys = {key for term in chain(facts, *words_of_code) for key in term.keys}
        self._weights = [words.weight(keys, is_fact=not keys.isdisjoint(fact_keys)) for keys in self._words]

    @property
    def present(self) -> list[Term]:
        """The facts that the passages have."""
        missing = {fact.start for fact in self.missing}
        return [fact for fact in self.facts if fact.start not in missing]

    def is_unrelated(self) -> bool:
        """Return whether the passages have less than _MIN_COVERAGE of the words of a sentence without quotations."""
        if self._has_quotes or len(self._words) < _MIN_CLAIM_WORDS or self._is_translated:
            return False
        stems = frozenset(key[:STEM_CHARS] for key in self._exempt).union(*(each.stems for each in self._passages))
        shared = sum(any(key[:STEM_CHARS] in stems for key in keys) for keys in self._words)
        return shared < _MIN_COVERAGE * len(self._words)

    def find_altered_fact(self) -> tuple[Term, Evidence, Sequence[Term]] | None:
        """Find the only fact that differs, if the other words nearly all repeat one sentence of a passage.

        Returns:
            The fact, the passage, and the words of the repeated sentence. None if no fact was altered in this way.
        """
        if self._has_quotes or len(self._words) < _MIN_REPEATED_WORDS:
            return None
        nearest = ((passage, *passage.nearest_sentence(self._words)) for passage in self._passages)
        passage, count, sentence = max(nearest, key=itemgetter(1))
        keys = passage.heading.union(*(term.keys for term in sentence))
        altered = [fact for fact in self.present if fact.key and fact.key not in keys]
        if len(altered) != 1 or altered[0].text in month_name or count < _MIN_REPEATED * (len(self._words) - 1):
            return None
        kind = "number" if altered[0].is_number else "name"
        claimed = frozenset[str]().union(*self._words)
        has_other = any(term.shape == kind and claimed.isdisjoint(term.keys) for term in sentence)
        return (altered[0], passage, sentence) if has_other else None

    def missing_weight(self, passage: Evidence) -> float:
        """Return the total weight of the words that this passage lacks and another passage has."""
        words = zip(self._words, self._weights, strict=True)
        return sum(weight for keys, weight in words if keys.isdisjoint(passage.keys))

    def shares_words(self, passage: Evidence) -> bool:
        """Return whether the passage has a word of the sentence."""
        return not all(map(passage.keys.isdisjoint, self._words))


def _need_no_proof(
    content: Sequence[Term], facts: Sequence[Term], passages: Sequence[Evidence], exempt: Collection[str]
) -> set[int]:
    """Return the positions of numbers that need no proof.

    These are numbers that can be computed (see `is_derived`), and counts in words such as "two reasons", if no passage
    counts these things.
    """
    numbers = [fact for fact in facts if fact.is_number][:_MAX_NUMBERS_TO_DERIVE]
    if not numbers:
        return set()
    spelled = {number.start for number in numbers if not number.text[0].isdigit()}
    counted = frozenset[str]().union(*(each.counted for each in passages))
    after = {first.start: second.key for first, second in pairwise(content)}
    counts = {place for place in spelled if after.get(place) not in counted}
    missing = {number.start for number in numbers if not any(each.has(number) for each in passages)}
    addends = {value_of(number.key) for number in numbers if number.start not in missing | counts}
    addends.update(islice(filter(isfinite, map(value_of, exempt)), _MAX_NUMBERS_TO_DERIVE))
    factors = addends | {value_of(number.key) for number in numbers if number.start in spelled}
    sources = frozenset(chain.from_iterable(each.quantities for each in passages))
    derived = {
        number.start
        for number in numbers
        if number.start in missing and is_derived(value_of(number.key), sources, addends, factors)
    }
    return counts | derived


def _terms(text: str, language: str | None) -> list[Term]:
    return [term for term in read_terms(" ".join(_WORD.findall(text)), language) if not term.is_stop]


@lru_cache(1 << 14)
def _languages_with_stop_word(word: str) -> Sequence[str]:
    return [language for language in STEMMERS if is_stop_word(word, language)]


def _is_in_language(words: Iterable[str], language: str | None) -> bool:
    """Return whether words are in a language, because no other language has more of them as stop words."""
    counts = Counter(chain.from_iterable(map(_languages_with_stop_word, words)))
    return counts[language or "en"] == max(counts.values(), default=0)


def _is_fact(term: Term, prose: str, has_names: bool) -> bool:
    """Return whether a term is a number, an identifier, a function call or, if `has_names`, a capitalised word."""
    has_digit = any(map(str.isdecimal, term.text))
    if not has_digit and is_unit_of_measure(prose, term):  # a passage may convert the unit or spell it out
        return False
    is_function = prose.startswith("()", term.end)
    is_sure = term.is_number or is_function or has_digit or bool(_NAME.search(term.text))
    if not (is_sure or term.text[0].isupper()) or term.text.lower() in STOP_WORDS:
        return False
    before = prose.rfind(" ", 0, term.start) + 1 if _HYPHENATED.match(prose, term.start) else term.start
    while before and prose[before - 1] in " \t*_":
        before -= 1
    is_first = not before or prose[before - 1] in _SENTENCE_OPENERS or bool(_LIST_NUMBER.fullmatch(prose, 0, before))
    is_item = is_first and term.text.isdecimal() and prose[term.end : term.end + 1] in (".", ")")
    is_possessive = prose[term.end : term.end + 2] in ("'s", "’s")
    is_name = has_names and (is_possessive or not is_first)
    return (is_sure or is_name) and not is_item
