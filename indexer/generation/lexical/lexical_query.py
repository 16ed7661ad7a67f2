"""What a query asks for, in terms: its syntax, the words that tell passages apart, corrections and synonyms.

A query is text, never a language: reading it never fails.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise, zip_longest
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from indexer.generation.lexical import analysis
from indexer.generation.lexical.analysis import ENGLISH, TERMS, Cache, Passages, has_sign, sign_name, words
from indexer.generation.lexical.letters import fold
from indexer.generation.lexical.pasted import SHORTEST_PASTED, telling_lines
from indexer.text.cleaning import visible, without_joiners

_MOST_PARTS = 8  # of each kind
_QUOTES = '"“”„«»'
_PHRASE = f"[{_QUOTES}][^{_QUOTES}]+[{_QUOTES}]"
_QUOTED = re.compile(f"({_PHRASE})")
_SYNTAX = re.compile(rf"[{_QUOTES}]|(?<!\S)-")
# Excluded words have three letters at least, and a vowel if they are ASCII: others are options, such as -v and -xzf.
_EXCLUDED = re.compile(rf"(?<!\S)-({_PHRASE}|(?=[a-z]*[aeiouy]|[^a-z])[^\W\d_]\w{{2,}}(?:-\w+)*)(?!\S)", re.IGNORECASE)
# Brackets, operators and calls; options of commands; words of nothing but signs, except dashes and ampersands.
_CODE = re.compile(
    r"[{}=;<>|\\$`]|\w\(|::|(?<!\S)--\w|(?<!\S)-\w{1,2}(?!\S)|(?<!\S)-\w++(?<=[A-Za-z]\d)(?!\S)|"
    r"(?<!\S)[()\[\].*/+~^%#@]+(?!\S)"
)
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<![\w-])\w++(?:(?:[.-]|::|->)\w++)+")


class ParsedQuery(NamedTuple):
    """A query, taken apart."""

    words: str  # what is left: any of these
    required: tuple[str, ...]  # phrases
    excluded: tuple[str, ...]  # words or phrases
    meaning: str  # the query without its syntax, for the search by meaning


def parse_query(text: str, is_option: Callable[[str], bool] | None = None) -> ParsedQuery:
    """Parse a query, which never fails; a query that would exclude everything is words.

    Args:
        text: the text as it was typed or pasted; only the telling lines of a traceback or log are read.
        is_option: returns whether a word behind a dash is an option of a command. Where one is, all of them are.
    """
    is_plain = text.isascii() and text.isprintable()  # as most are
    typed = text if is_plain else visible(text)
    text = telling_lines(typed) if len(typed) >= SHORTEST_PASTED else typed
    plain = ParsedQuery(text, (), (), text if is_plain else without_joiners(text))
    if text is not typed or not _SYNTAX.search(text):  # pasted, or without syntax as most are
        return plain
    options = [word for word in _EXCLUDED.findall(text) if word[0] not in _QUOTES]
    has_options = is_option is not None and any(map(is_option, options))

    def take(into: list[str], match: re.Match[str]) -> str:
        if len(into) == _MOST_PARTS or (has_options and match[1] in options):
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


Synonyms = Mapping[tuple[str, ...], Sequence[str]]  # by folded words: what stands for them, they themselves among it
Rules = Mapping[str, frozenset[str]]  # of terms that some languages give: those by whose rules they are of the query
LONGEST_SYNONYM = 8  # words
_LONGEST_PHRASE = 32  # words
_MOST_CORRECTED = 4  # words of a query
_SHORTEST_HALF, _LONGEST_SPLIT = 3, 32  # letters of a half of a compound, and of a compound that is split
_MOST_LOOKED_UP = 128  # of them: what is longer is pasted text

Languages = tuple[str, ...]
Terms = tuple[str, ...]
Readings = tuple[Terms, ...]  # of a phrase: its terms by the rules of each language, each different reading once


class Clause(NamedTuple):
    """A word or phrase that must be found, or must not be."""

    readings: Readings  # any of these, term after term
    text: str  # as it was typed
    rules: tuple[tuple[str, frozenset[str]], ...] = ()  # `Rules` of readings of one term

    def __str__(self) -> str:
        """Write it as it can be typed."""
        return f'"{self.text}"'


class QueryExpansion(NamedTuple):
    """A word or phrase of the query, and what was searched for because of it."""

    typed: str
    searched: tuple[str, ...]
    reason: str  # correction, synonym or compound


class Lookups(NamedTuple):
    """What an index knows of words."""

    is_known: Callable[[str], int]  # 0 where no passage has a term
    is_word: Callable[[str], bool]  # whether a word that none has is one all the same
    corrections: Callable[[str], Sequence[str]]  # of a word that none has, the likeliest first
    compounds: Callable[[str], Sequence[str]]  # words with a word that none has at their beginning or end
    has_phrase: Callable[[Sequence[str]], bool]  # whether a passage has words side by side


class LexicalQuery(Struct, frozen=True):
    """What passages are searched for, in terms as `analysis.terms_in` gives them."""

    words: tuple[Terms, ...]  # any of these, each once; of each, the different terms that stand for it
    required: tuple[Clause, ...]  # and every one of these
    excluded: tuple[Clause, ...]  # and none of these
    synonyms: tuple[Readings, ...]  # phrases that count where they are found, as words do
    pairs: tuple[Readings, ...]  # stop words next to other words, which count likewise, but are not shown
    asked: tuple[Terms, ...]  # words within and outside phrases, but for stop words, as in `words`
    marked: frozenset[str]  # all terms of these and of synonyms, which are worth showing in a passage
    rules: Rules  # of the terms of words
    also: tuple[QueryExpansion, ...]
    meaning: str  # the query without its syntax, for the search by meaning
    did_you_mean: str | None = None  # the query with its mistakes corrected; None where there are none

    @property
    def is_bounded(self) -> bool:
        """Whether it says of passages that they must, or must not, be found."""
        return bool(self.required or self.excluded)

    def marked_in(self, language: str | None) -> frozenset[str]:
        """Return the terms that are worth showing in a passage of a document in a language; corrections among them."""
        rules = analysis.rules_for(language)
        wrong = [term for term, languages in self.rules.items() if rules not in languages]
        return self.marked.difference(wrong) if wrong else self.marked


def read_query(
    text: str,
    passages: Passages = MappingProxyType({ENGLISH: 1}),
    lookups: Lookups | None = None,
    synonyms: Synonyms = MappingProxyType({}),
) -> LexicalQuery:
    """Read what a user typed; stop words count only within quotation marks, or where little else is left.

    `passages` says how many passages of the index are in each language, at least one. Without `lookups`, nothing is
    corrected.
    """
    languages = analysis.all_rules(passages)
    parsed = parse_query(text, partial(_is_option, lookups, languages) if lookups else None)
    forms_of, readings = _FORMS[languages], partial(readings_of, languages=languages)
    required = _clauses(parsed.required, languages) if parsed.required else ()
    expanded = _expand(analysis.found_words(parsed.words), synonyms)
    telling, pairs = _telling(expanded.words, passages, parsed.words, or_stop_words=not required)
    also = [QueryExpansion(typed, searched, "synonym") for typed, searched in expanded.also]
    corrector = _Corrector(lookups, languages) if lookups else None
    loose: dict[Terms, None] = {}
    searched = list(telling)
    compounds: list[Sequence[str]] = []
    for word, may_be_mistaken in telling.items():
        forms = forms_of[word]
        if others := expanded.alternatives.get(word):
            forms = (tuple(dict.fromkeys(chain(*forms, *chain(*map(forms_of.__getitem__, others))))),)
            searched += others
        elif corrector is not None and may_be_mistaken and (substitute := corrector[word]) is not None:
            also.append(QueryExpansion(word, substitute.texts, substitute.reason))
            searched += substitute.words
            each = [tuple(dict.fromkeys(chain(*forms_of[other]))) for other in substitute.words]
            forms = tuple(each) if substitute.is_split else (tuple(dict.fromkeys(chain(*each))),)
            compounds += [substitute.words] if substitute.is_split else []
        elif lookups and len(telling) > 1 and not word.isalnum() and has_sign(word):
            # a sign, or a name that is searched for without its sign too, says little where the index lacks it
            says_little = analysis.words_within(word) or not any(map(str.isalpha, word))
            if says_little and not lookups.is_known(sign_name(word)):
                continue
        loose |= dict.fromkeys(forms)
    if lookups is not None and len(expanded.words) > 1 and not analysis.is_spaceless(parsed.words):
        for first, second in _joined_neighbours(expanded.words, telling, lookups, languages):
            joined = (first + second).lower()
            if joined not in searched:
                also.append(QueryExpansion(f"{first} {second}", (joined,), "compound"))
                compounds.append((joined,))
    expanded.phrases.extend(map(" ".join, compounds))
    if _NAME.search(parsed.words):
        pairs += _names(parsed.words)
    if _DIGIT.search(parsed.words):
        pairs += analysis.quantities(expanded.words)
    phrases = tuple(filter(None, map(readings, map(analysis.found_words, expanded.phrases))))
    asked = tuple(loose)
    if required:
        within = [word for phrase in parsed.required for word in analysis.found_words(phrase)]
        quoted, _ = _telling(within, passages, parsed.words, or_stop_words=not loose)
        searched += quoted
        asked = tuple(dict.fromkeys([*loose, *chain(*map(forms_of.__getitem__, quoted))]))
    wanted = frozenset(chain(*asked))
    proposal = None
    if corrector is not None and (required or any(corrector.values())):
        proposal = corrector.proposal(text, parsed, set(expanded.alternatives))
    return LexicalQuery(
        words=tuple(loose),
        required=required,
        excluded=tuple(
            clause
            for clause in (_clauses(parsed.excluded, languages) if parsed.excluded else ())
            if not any(len(reading) == 1 and wanted.issuperset(reading) for reading in clause.readings)
        ),
        synonyms=phrases,
        pairs=tuple(dict.fromkeys(map(readings, pairs))),
        asked=asked,
        marked=wanted.union(*chain(*phrases)),
        rules=_rules_of(searched, languages),
        also=tuple(also),
        meaning=parsed.meaning,
        did_you_mean=proposal,
    )


def _is_option(lookups: Lookups, languages: Languages, word: str) -> bool:
    """Return whether passages have a word with a dash before it, or do not have it at all."""
    if lookups.is_known(sign_name(f"-{word}")):
        return True
    forms = chain(*map(_FORMS[languages].__getitem__, analysis.found_words(word)))
    return not any(map(lookups.is_known, chain(*forms)))


def _names(text: str) -> list[list[str]]:
    """Return the words of names of several words, which tell more side by side: os.path.join, std::vector, node->next.

    Prose has hyphens, too; they make a name where there is no other word: apt-get.
    """
    names = [name[0] for name in islice(_NAME.finditer(text), _MOST_PARTS)]
    alone = [name for name in names if "-" not in name.replace("->", "") or name == text.strip()]
    return [analysis.found_words(name)[:_LONGEST_PHRASE] for name in alone]


def _joined_neighbours(
    typed: Sequence[str], telling: Mapping[str, bool], lookups: Lookups, languages: Languages
) -> list[tuple[str, str]]:
    """Return the neighbours of a query that passages have as one word: web hook, log in."""
    neighbours = []
    for pair in islice(pairwise(typed), _MOST_LOOKED_UP):
        first, second = pair
        joined = (first + second).lower()  # no capitals, or it would be a name of several words
        if joined.isalpha() and len(first) > 1 < len(second) and (first in telling or second in telling):
            for language in languages:
                if any(map(lookups.is_known, TERMS[language][joined])):
                    neighbours.append(pair)
                    break
    return neighbours


class _Expanded(NamedTuple):
    """The words of a query with what stands for them."""

    words: list[str]  # without those that others stand in place of
    alternatives: dict[str, tuple[str, ...]]  # by word of these
    phrases: list[str]  # of several words, that are searched for as well
    also: list[tuple[str, tuple[str, ...]]]  # what was matched, and what stands for it


def _expand(typed: list[str], synonyms: Synonyms) -> _Expanded:
    """Return the words of a query with what stands for them; of several rules, that of the most words."""
    if not synonyms:
        return _Expanded(typed, {}, [], [])
    found = _Expanded([], {}, [], [])
    folded = list(map(fold, typed))
    place = 0
    while place < len(typed):
        sizes = range(min(LONGEST_SYNONYM, len(folded) - place), 0, -1)
        size = next((size for size in sizes if tuple(folded[place : place + size]) in synonyms), 0)
        if not size:
            found.words.append(typed[place])
            place += 1
            continue
        here, key = typed[place : place + size], tuple(folded[place : place + size])
        place += size
        others = [other for other in synonyms[key] if folded_words(other) != key]
        single = tuple(other for other in others if len(folded_words(other)) == 1)
        found.phrases.extend(other for other in others if len(folded_words(other)) > 1)
        if len(others) < len(synonyms[key]):  # it stands for itself, too
            found.words.extend(here if size == 1 else (*here, *single))
            if size == 1:
                found.alternatives[here[0]] = single
        elif single:
            found.words.append(single[0])
            found.alternatives[single[0]] = single[1:]
        if others:
            found.also.append((" ".join(here), tuple(others)))
    return found


def folded_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, folded."""
    return tuple(map(fold, analysis.found_words(text)))


class _Substitute(NamedTuple):
    """Words to search for instead of a word that no passage has."""

    words: tuple[str, ...]  # the likeliest first
    reason: str
    is_split: bool = False  # all of the words, side by side, instead of any

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the words as they are reported."""
        return (" ".join(self.words),) if self.is_split else self.words


class _Corrector(dict[str, _Substitute | None]):
    """Substitutes for the words of one query; None for a word that passages have.

    Each word is looked up once, and a few of them are replaced at most.
    """

    def __init__(self, lookups: Lookups, languages: Languages) -> None:
        self._lookups = lookups
        self._languages = languages
        self._corrected = 0

    def __missing__(self, word: str) -> _Substitute | None:
        substitute = None
        if self._corrected < _MOST_CORRECTED and len(self) < _MOST_LOOKED_UP:
            terms = chain(*_FORMS[self._languages][word])
            if not any(map(self._lookups.is_known, terms)):
                substitute = self._substitute(word)
        self[word] = substitute
        self._corrected += substitute is not None
        return substitute

    def _is_known(self, word: str) -> bool:
        return any(map(self._lookups.is_known, chain(*_FORMS[self._languages][word])))

    def _substitute(self, word: str) -> _Substitute | None:
        """Return two words that stand side by side, compounds, words with few edits or two words anywhere: the first.

        A name with capitals within is none of these, and a word of the model's vocabulary is no mistake.
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
        return next((_Substitute(halves, "compound", is_split=True) for halves in splits), None)

    def _splits(self, word: str) -> list[tuple[str, str]]:
        """Return the ways to split a word into two that passages have, those with the longest shorter half first."""
        places = range(_SHORTEST_HALF, len(word) - _SHORTEST_HALF + 1) if len(word) <= _LONGEST_SPLIT else ()
        halves = [(word[:place], word[place:]) for place in places]
        pairs = [each for each in halves if all(map(self._is_known, each))]
        return sorted(pairs, key=lambda each: -min(map(len, each)))

    def proposal(self, text: str, parsed: ParsedQuery, kept: set[str]) -> str | None:
        """Return a query with the likeliest correction in place of each word that has one; None where none has.

        Words in quotation marks, too: they are searched for as they stand, and so find nothing. `kept` are words that
        stay as they are.
        """
        kept = kept.union(*map(analysis.found_words, parsed.excluded))

        typed = [word for word in analysis.found_words(text) if word not in kept]
        substitutes = dict(zip(typed, map(self.__getitem__, typed), strict=True))
        corrections = {
            word: each.words[0] for word, each in substitutes.items() if each and each.reason == "correction"
        }
        if not corrections:
            return None

        def correct(match: re.Match[str]) -> str:
            correction = corrections.get(match[0], match[0])
            return correction.capitalize() if match[0][:1].isupper() and match[0] in corrections else correction

        return words(text).sub(correct, text)


def readings_of(phrase: Sequence[str], languages: Languages) -> Readings:
    """Return the terms of a phrase by the rules of each language, each different reading once."""
    readings = (tuple(chain(*map(TERMS[language].__getitem__, phrase))) for language in languages)
    return tuple(filter(None, dict.fromkeys(readings)))


def _clauses(parts: Sequence[str], languages: Languages) -> tuple[Clause, ...]:
    """Return words and phrases as terms, each once, but for those without a word."""
    found: dict[Readings, Clause] = {}
    for part in parts:
        typed = analysis.found_words(part)[:_LONGEST_PHRASE]
        if readings := readings_of(typed, languages):
            rules = tuple(_rules_of(typed, languages).items()) if len(typed) == 1 else ()
            found.setdefault(readings, Clause(readings, part, rules))
    return tuple(found.values())


def _rules_of(found: Iterable[str], languages: Languages) -> Rules:
    """Return by the rules of which languages each term of words is one; those of all languages are left out."""
    if len(languages) == 1:
        return {}
    rules: dict[str, set[str]] = {}
    for language in languages:
        for term in chain(*map(TERMS[language].__getitem__, found)):
            rules.setdefault(term, set()).add(language)
    return {term: frozenset(those) for term, those in rules.items() if len(those) < len(languages)}


def _telling(
    typed: Sequence[str], passages: Passages, text: str, *, or_stop_words: bool
) -> tuple[dict[str, bool], list[Sequence[str]]]:
    """Return the words that are no stop words, or all, and whether each may be corrected; and pairs that tell, too."""
    # of names with signs, which count as well, and are as they are
    names = [word for word in filter(has_sign, typed) if not analysis.is_grouped(word)]
    name_words = [inner for name in names for inner in analysis.words_within(name)]
    telling = analysis.are_telling([*typed, *name_words], passages, text)
    all_count = or_stop_words and not any(telling)
    found = dict(zip([*typed, *name_words], telling, strict=True))
    chosen = {word: word not in name_words for word, counts in found.items() if counts or all_count}
    return chosen, list(analysis.telling_pairs(typed, telling[: len(typed)]))


def _forms(word: str, languages: Languages) -> tuple[Terms, ...]:
    """Of each term of a word, the different forms that it has by the rules of the languages."""
    if has_sign(word):
        return ((sign_name(word),),)
    if analysis.is_spaceless(word):  # a pair of characters tells more than either; one alone may be all that there is
        terms = TERMS[ENGLISH][word]
        return tuple((term,) for term in terms if analysis.is_pair(term)) or tuple((term,) for term in terms)
    forms = zip_longest(*(TERMS[each][word] for each in languages), fillvalue="")  # a mark alone is one in some only
    found = tuple(filter(None, (tuple(filter(None, dict.fromkeys(different))) for different in forms)))
    return tuple(form for form in found if not analysis.STOP_WORDS.issuperset(form)) or found  # user_by_id


_FORMS: Cache[Languages, Cache[str, tuple[Terms, ...]]] = Cache(
    8, lambda languages: Cache(1 << 13, partial(_forms, languages=languages))
)
