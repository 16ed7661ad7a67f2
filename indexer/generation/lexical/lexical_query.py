"""Parse the syntax of a query, and replace its words by search terms, with corrections and synonyms.

Parsing never fails, because any text is a valid query.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise, zip_longest
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct

from indexer.generation.lexical import analysis
from indexer.generation.lexical.analysis import ENGLISH, TERMS, Cache, Passages, has_symbol, symbol_term, words
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.pasted import MIN_PASTED_CHARS, error_lines
from indexer.text.cleaning import visible, without_joiners

_MAX_CLAUSES = 8
_QUOTES = '"“”„«»'
_PHRASE = f"[{_QUOTES}][^{_QUOTES}]+[{_QUOTES}]"
_QUOTED = re.compile(f"({_PHRASE})")
_SYNTAX = re.compile(rf"[{_QUOTES}]|(?<!\S)-")
# An excluded word has at least three letters, and a vowel if it is ASCII. Other words after a dash are options (-xzf).
_EXCLUDED = re.compile(rf"(?<!\S)-({_PHRASE}|(?=[a-z]*[aeiouy]|[^a-z])[^\W\d_]\w{{2,}}(?:-\w+)*)(?!\S)", re.IGNORECASE)
# Matches code and commands: brackets, operators, calls, options, and isolated symbols except dashes and ampersands.
_CODE = re.compile(
    r"[{}=;<>|\\$`]|\w\(|::|(?<!\S)--\w|(?<!\S)-\w{1,2}(?!\S)|(?<!\S)-\w++(?<=[A-Za-z]\d)(?!\S)|"
    r"(?<!\S)[()\[\].*/+~^%#@]+(?!\S)"
)
_NAME = re.compile(r"(?<![\w-])\w++(?:(?:[.-]|::|->)\w++)+")


class ParsedQuery(NamedTuple):
    """Optional words, required phrases and excluded texts of a query. `meaning` is the query without excluded texts."""

    words: str
    required: tuple[str, ...]
    excluded: tuple[str, ...]
    meaning: str


def parse_query(text: str, is_option: Callable[[str], bool] | None = None) -> ParsedQuery:
    """Split a query into optional, required and excluded parts. If all words are excluded, treat them as optional.

    Args:
        text: the typed or pasted text. In a traceback or log, only the lines that name errors are used.
        is_option: returns whether a word after a dash is a command-line option. A query with options excludes no words.
    """
    is_plain = text.isascii() and text.isprintable()
    typed = text if is_plain else visible(text)
    text = error_lines(typed) if len(typed) >= MIN_PASTED_CHARS else typed
    plain = ParsedQuery(text, (), (), text if is_plain else without_joiners(text))
    if text is not typed or "\n" in text.strip() or not _SYNTAX.search(text):
        return plain
    options = [word for word in _EXCLUDED.findall(text) if word[0] not in _QUOTES]
    has_options = is_option is not None and any(map(is_option, options))

    def take(into: list[str], match: re.Match[str]) -> str:
        if len(into) == _MAX_CLAUSES or (has_options and match[1] in options):
            return match[0]
        into.append(match[1].strip(_QUOTES))
        return " "

    phrases: list[str] = []
    excluded: list[str] = []
    meaning = _EXCLUDED.sub(partial(take, excluded), text)
    words = _QUOTED.sub(partial(take, phrases), meaning)
    if _CODE.search(words) or (excluded and not (phrases or words.strip())):
        return plain
    meaning = " ".join(meaning.split()) if excluded else text
    return ParsedQuery(words, tuple(phrases), tuple(excluded), without_joiners(meaning or text))


# Maps folded words to the texts to search for instead. To search for the words too, include them in the texts.
Synonyms = Mapping[tuple[str, ...], Sequence[str]]
# Maps a term to the languages whose stemming rules produce it. Terms that all languages produce are omitted.
Rules = Mapping[str, frozenset[str]]
MAX_SYNONYM_WORDS = 8
_MAX_PHRASE_WORDS = 32
_MAX_CORRECTED_WORDS = 4
_MAX_LOOKED_UP_WORDS = 128
_MIN_HALF_LETTERS, _MAX_COMPOUND_LETTERS = 3, 32

Languages = tuple[str, ...]
Terms = tuple[str, ...]
Readings = tuple[Terms, ...]  # the terms of a phrase in each language, without duplicates


class Clause(NamedTuple):
    """A required or excluded word or phrase. `readings` has its terms in each language. A phrase has no `rules`."""

    readings: Readings
    text: str
    rules: tuple[tuple[str, frozenset[str]], ...] = ()

    def __str__(self) -> str:
        """Return the clause in query syntax: in quotation marks."""
        return f'"{self.text}"'


class QueryExpansion(NamedTuple):
    """A word or phrase of a query, and the texts that were added or substituted for it."""

    typed: str
    searched: tuple[str, ...]
    reason: Literal["correction", "synonym", "compound"]


class Lookups(NamedTuple):
    """Functions that look words up in an index.

    `is_known` returns whether any passage has a term. For an unknown word, `is_word` returns whether its spelling is
    correct, `corrections` returns similar words, likeliest first, and `compounds` words that begin or end with it.
    `has_phrase` returns whether any passage contains these words as a phrase.
    """

    is_known: Callable[[str], int]
    is_word: Callable[[str], bool]
    corrections: Callable[[str], Sequence[str]]
    compounds: Callable[[str], Sequence[str]]
    has_phrase: Callable[[Sequence[str]], bool]


class LexicalQuery(Struct, frozen=True):
    """A parsed query, with the search terms of `analysis.terms_in`.

    `words` are optional words, each with alternative terms. `synonyms` are optional phrases. `pairs` are optional
    phrases that are not highlighted: names, and stop words with their neighbours. `query_words` has `words`
    and the distinctive words of `required`. Terms in `marked` are highlighted. `also` lists corrections and synonyms.
    `meaning` is the text for the vector search, without excluded texts. `did_you_mean` is the query with corrections,
    or None without corrections.
    """

    words: tuple[Terms, ...]
    required: tuple[Clause, ...]
    excluded: tuple[Clause, ...]
    synonyms: tuple[Readings, ...]
    pairs: tuple[Readings, ...]
    query_words: tuple[Terms, ...]
    marked: frozenset[str]
    rules: Rules
    also: tuple[QueryExpansion, ...]
    meaning: str
    did_you_mean: str | None = None

    @property
    def is_bounded(self) -> bool:
        """Return whether the query has required or excluded clauses."""
        return bool(self.required or self.excluded)

    def marked_in(self, language: str | None) -> frozenset[str]:
        """Return the terms to highlight in a document in this language."""
        rules = analysis.rules_for(language)
        wrong = [term for term, languages in self.rules.items() if rules not in languages]
        return self.marked.difference(wrong) if wrong else self.marked


def read_query(
    text: str,
    passages: Passages = MappingProxyType({ENGLISH: 1}),
    lookups: Lookups | None = None,
    synonyms: Synonyms = MappingProxyType({}),
) -> LexicalQuery:
    """Parse the query of a user. Outside phrases, stop words are ignored unless the query has no other words.

    Args:
        passages: number of passages in the index by language, never empty.
        lookups: functions that look up words in the index; without them, no word is corrected.
    """
    languages = analysis.all_rules(passages)
    parsed = parse_query(text, partial(_is_option, lookups, languages) if lookups else None)
    forms_of, readings = _FORMS[languages], partial(readings_of, languages=languages)
    required = _clauses(parsed.required, languages) if parsed.required else ()
    expanded = _expand(analysis.find_words(parsed.words), synonyms)
    distinctive, pairs = _distinctive_words(expanded.words, passages, parsed.words, or_stop_words=not required)
    also = expanded.also
    corrector = _Corrector(lookups, languages) if lookups else None
    optional: dict[Terms, None] = {}
    searched = list(distinctive)
    compounds: list[Sequence[str]] = []
    for word, may_be_mistaken in distinctive.items():
        forms = forms_of[word]
        if synonyms_of_word := expanded.alternatives.get(word):
            forms = (tuple(dict.fromkeys(chain(*forms, *chain(*map(forms_of.__getitem__, synonyms_of_word))))),)
            searched += synonyms_of_word
        elif corrector is not None and may_be_mistaken and (substitute := corrector[word]) is not None:
            texts = (" ".join(substitute.words),) if substitute.is_split else substitute.words
            also.append(QueryExpansion(word, texts, substitute.reason))
            searched += substitute.words
            each = [tuple(dict.fromkeys(chain(*forms_of[other]))) for other in substitute.words]
            forms = tuple(each) if substitute.is_split else (tuple(dict.fromkeys(chain(*each))),)
            compounds += [substitute.words] if substitute.is_split else []
        optional |= dict.fromkeys(forms)
    if lookups is not None and len(expanded.words) > 1 and not analysis.is_spaceless(parsed.words):
        for first, second in _joined_neighbours(expanded.words, distinctive, lookups, languages):
            joined = (first + second).lower()
            if joined not in searched:
                also.append(QueryExpansion(f"{first} {second}", (joined,), "compound"))
                compounds.append((joined,))
    expanded.phrases.extend(map(" ".join, compounds))
    if _NAME.search(parsed.words):
        pairs += _names(parsed.words)
    phrases = tuple(filter(None, map(readings, map(analysis.find_words, expanded.phrases))))
    query_words = tuple(optional)
    if required:
        within = [word for phrase in parsed.required for word in analysis.find_words(phrase)]
        quoted, _ = _distinctive_words(within, passages, parsed.words, or_stop_words=not optional)
        searched += quoted
        query_words = tuple(dict.fromkeys([*optional, *chain(*map(forms_of.__getitem__, quoted))]))
    query_terms = frozenset(chain(*query_words))
    proposal = None
    if corrector is not None and (required or any(corrector.values())):
        proposal = corrector.proposal(text, parsed, set(expanded.alternatives))
    return LexicalQuery(
        words=tuple(optional),
        required=required,
        excluded=tuple(
            clause
            for clause in (_clauses(parsed.excluded, languages) if parsed.excluded else ())
            if not any(len(reading) == 1 and query_terms.issuperset(reading) for reading in clause.readings)
        ),
        synonyms=phrases,
        pairs=tuple(dict.fromkeys(map(readings, pairs))),
        query_words=query_words,
        marked=query_terms.union(*chain(*phrases)),
        rules=_rules_of(searched, languages),
        also=tuple(also),
        meaning=parsed.meaning,
        did_you_mean=proposal,
    )


def _is_option(lookups: Lookups, languages: Languages, word: str) -> bool:
    """Return whether a word after a dash is an option: the index has the word with a dash, or lacks the bare word."""
    if lookups.is_known(symbol_term(f"-{word}")):
        return True
    return not any(_has_word(lookups, languages, each) for each in analysis.find_words(word))


def _has_word(lookups: Lookups, languages: Languages, word: str) -> bool:
    return any(map(lookups.is_known, chain(*_FORMS[languages][word])))


def _names(text: str) -> list[list[str]]:
    """Return the words of each compound name, such as os.path or apt-get."""
    return [analysis.find_words(name[0])[:_MAX_PHRASE_WORDS] for name in islice(_NAME.finditer(text), _MAX_CLAUSES)]


def _joined_neighbours(
    typed: Sequence[str], distinctive: Mapping[str, bool], lookups: Lookups, languages: Languages
) -> list[tuple[str, str]]:
    """Return pairs of neighbouring words that the index has as one word, such as (web, hook) or (log, in)."""
    neighbours = []
    for first, second in islice(pairwise(typed), _MAX_LOOKED_UP_WORDS):
        joined = (first + second).lower()  # lower case, because `TERMS` would split WebHook
        may_join = joined.isalpha() and len(first) > 1 < len(second) and (first in distinctive or second in distinctive)
        if may_join and _has_word(lookups, languages, joined):
            neighbours.append((first, second))
    return neighbours


class _Expanded(NamedTuple):
    """The words of a query after synonym rules have been applied.

    `alternatives` maps a word to its one-word synonyms. `phrases` has all longer synonyms. `also` has each text that
    matched a rule, with all its synonyms.
    """

    words: list[str]
    alternatives: dict[str, tuple[str, ...]]
    phrases: list[str]
    also: list[QueryExpansion]


def _expand(typed: list[str], synonyms: Synonyms) -> _Expanded:
    """Apply synonym rules to the words of a query. If several rules match at the same word, apply the longest rule."""
    if not synonyms:
        return _Expanded(typed, {}, [], [])
    expanded = _Expanded([], {}, [], [])
    folded = list(map(fold, typed))
    place = 0
    while place < len(typed):
        sizes = range(min(MAX_SYNONYM_WORDS, len(folded) - place), 0, -1)
        size = next((size for size in sizes if tuple(folded[place : place + size]) in synonyms), 0)
        if not size:
            expanded.words.append(typed[place])
            place += 1
            continue
        matched, key = typed[place : place + size], tuple(folded[place : place + size])
        place += size
        alternatives = [other for other in synonyms[key] if folded_words(other) != key]
        single = tuple(other for other in alternatives if len(folded_words(other)) == 1)
        expanded.phrases.extend(other for other in alternatives if len(folded_words(other)) > 1)
        if len(alternatives) < len(synonyms[key]):  # the words are also their own synonym, so search for them too
            expanded.words.extend(matched if size == 1 else (*matched, *single))
            if size == 1:
                expanded.alternatives[matched[0]] = single
        elif single:
            expanded.words.append(single[0])
            expanded.alternatives[single[0]] = single[1:]
        if alternatives:
            expanded.also.append(QueryExpansion(" ".join(matched), tuple(alternatives), "synonym"))
    return expanded


def folded_words(text: str) -> tuple[str, ...]:
    """Return the folded words of a text."""
    return tuple(map(fold, analysis.find_words(text)))


class _Substitute(NamedTuple):
    """Words to search for instead of a word that the index lacks: alternatives, or if `is_split`, its two halves."""

    words: tuple[str, ...]
    reason: Literal["correction", "compound"]
    is_split: bool = False


class _Corrector(dict[str, _Substitute | None]):
    """A dict that finds substitutes for unknown words of a query. Known words and words over the limits map to None."""

    def __init__(self, lookups: Lookups, languages: Languages) -> None:
        self._lookups = lookups
        self._is_known = partial(_has_word, lookups, languages)
        self._corrected = 0

    def __missing__(self, word: str) -> _Substitute | None:
        substitute = None
        if self._corrected < _MAX_CORRECTED_WORDS and len(self) < _MAX_LOOKED_UP_WORDS and not self._is_known(word):
            substitute = self._substitute(word)
        self[word] = substitute
        self._corrected += substitute is not None
        return substitute

    def _substitute(self, word: str) -> _Substitute | None:
        """Return the best substitute for an unknown word, or None.

        In order of preference: halves that occur side by side, compounds, corrections, and halves that occur apart.
        """
        if not word.isalpha() or not word[1:].islower() or analysis.is_spaceless(word):
            return None
        splits = self._splits(word)
        for halves in splits:
            if self._lookups.has_phrase(halves):
                return _Substitute(halves, "compound", is_split=True)
        if compounds := self._lookups.compounds(word):
            return _Substitute(tuple(compounds), "compound")
        if not self._lookups.is_word(word) and (corrections := self._lookups.corrections(word)):
            return _Substitute(tuple(corrections), "correction")
        long_enough = [halves for halves in splits if min(map(len, halves)) >= _MIN_HALF_LETTERS]
        return _Substitute(long_enough[0], "compound", is_split=True) if long_enough else None

    def _splits(self, word: str) -> list[tuple[str, str]]:
        """Return the splits of a word into two known words, sorted by the length of the shorter half, longest first."""
        if len(word) > _MAX_COMPOUND_LETTERS:
            return []
        pairs = [(word[:place], word[place:]) for place in range(1, len(word))]
        known_pairs = [pair for pair in pairs if all(map(self._is_known, pair))]
        return sorted(known_pairs, key=lambda pair: -min(map(len, pair)))

    def proposal(self, text: str, parsed: ParsedQuery, fixed: set[str]) -> str | None:
        """Return the query with corrected words, or None if no word is misspelled. Words in `fixed` are not corrected.

        Words in quotation marks are corrected too, because a misspelled phrase matches nothing.
        """
        fixed = fixed.union(*map(analysis.find_words, parsed.excluded))
        typed = [word for word in analysis.find_words(text) if word not in fixed]
        substitutes = ((word, self[word]) for word in typed)
        corrections = {word: each.words[0] for word, each in substitutes if each and each.reason == "correction"}
        if not corrections:
            return None

        def correct(match: re.Match[str]) -> str:
            correction = corrections.get(match[0], match[0])
            return correction.capitalize() if match[0][:1].isupper() and match[0] in corrections else correction

        return words(text).sub(correct, text)


def readings_of(phrase: Sequence[str], languages: Languages) -> Readings:
    """Return the terms of a phrase for each language, stemmed by its rules. Equal results are returned once."""
    readings = (tuple(chain(*map(TERMS[language].__getitem__, phrase))) for language in languages)
    return tuple(filter(None, dict.fromkeys(readings)))


def _clauses(texts: Sequence[str], languages: Languages) -> tuple[Clause, ...]:
    """Return a clause for each distinct word or phrase. Skip texts that contain no word."""
    clauses: dict[Readings, Clause] = {}
    for text in texts:
        typed = analysis.find_words(text)[:_MAX_PHRASE_WORDS]
        if readings := readings_of(typed, languages):
            rules = tuple(_rules_of(typed, languages).items()) if len(typed) == 1 else ()
            clauses.setdefault(readings, Clause(readings, text, rules))
    return tuple(clauses.values())


def _rules_of(words: Iterable[str], languages: Languages) -> Rules:
    if len(languages) == 1:
        return {}
    rules: dict[str, set[str]] = {}
    for language in languages:
        for term in chain(*map(TERMS[language].__getitem__, words)):
            rules.setdefault(term, set()).add(language)
    return {term: frozenset(spoken) for term, spoken in rules.items() if len(spoken) < len(languages)}


def _distinctive_words(
    typed: Sequence[str], passages: Passages, text: str, *, or_stop_words: bool
) -> tuple[dict[str, bool], list[Sequence[str]]]:
    """Return a dict of the distinctive words (True if a word may be corrected), and a list of distinctive pairs.

    If no word is distinctive and `or_stop_words` is true, all words count as distinctive.
    """
    # The words in names such as --no-cache may be distinctive, but their spelling is not corrected.
    names = [word for word in filter(has_symbol, typed) if not analysis.is_grouped(word)]
    name_words = [inner for name in names for inner in analysis.words_within(name)]
    distinctive = analysis.are_distinctive([*typed, *name_words], passages, text)
    all_count = or_stop_words and not any(distinctive)
    counting = dict(zip([*typed, *name_words], distinctive, strict=True))
    correctable = {word: word not in name_words for word, counts in counting.items() if counts or all_count}
    return correctable, [*analysis.distinctive_pairs(typed, distinctive[: len(typed)])]


def _forms(word: str, languages: Languages) -> tuple[Terms, ...]:
    """Split a word into terms. Return for each term its forms by the stemming rules of these languages."""
    if has_symbol(word):
        return ((symbol_term(word),),)
    if analysis.is_spaceless(word):  # prefer pairs of characters, which are more distinctive
        terms = TERMS[ENGLISH][word]
        return tuple((term,) for term in terms if analysis.is_pair(term)) or tuple((term,) for term in terms)
    forms = zip_longest(*(TERMS[each][word] for each in languages), fillvalue="")
    variants = tuple(filter(None, (tuple(filter(None, dict.fromkeys(different))) for different in forms)))
    return tuple(form for form in variants if not analysis.STOP_WORDS.issuperset(form)) or variants


_FORMS: Cache[Languages, Cache[str, tuple[Terms, ...]]] = Cache(
    8, lambda languages: Cache(1 << 13, partial(_forms, languages=languages))
)
