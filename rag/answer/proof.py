"""Proof of answers without a model: quotations and facts are compared with the cited passages.

Passages must have quotations word for word, and the numbers, names, code and addresses of other sentences. What a
paraphrase means is not checked. The time is linear in the length of the answer.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from indexer.generation.lexical.analysis import STOP_WORDS, find_words, is_stop_word
from rag.answer.evidence import Evidence, Match, Term, initials_of, is_taken, join, read_slots, read_terms, tokens_of
from rag.answer.sentences import Excerpt, Sentence, SentenceSplitter
from rag.errors import RagError
from rag.messages import Proof
from rag.query.results import Hit, Span

Lookup = Callable[[str], Sequence[Hit]]
"""Finds passages of the index with some words, among those that the caller may see."""

MAX_LOOKUPS = 20
MAX_QUOTES_PER_SENTENCE = 100
LEFT_OUT = "[…]"
_MIN_COVERAGE, _MIN_COVERAGE_ELSEWHERE = 0.2, 0.6  # share of a sentence's content words in a passage
_MIN_CONTENT_WORDS = 4
_MIN_STOP_WORDS = 2
_MAX_REASON = 200  # characters
_SEVERITY = ("not there", "altered", "elsewhere", "found", "unchecked")
_MARKUP = re.compile(r"\*\*|__|(?<!\w)\*(?=\w[^*\n]*\w\*)|(?<=\w)\*(?=[\W_]|$)|`|\[\d{1,3}\]")
_ELLIPSIS = re.compile(r"[\[(]?(?:…|\.\.\.)[\])]?")
_EDGES = " \t\n.,;:!?-–—"
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\])]*[^\s<>\"'`\]).,;:!?]|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_NAME = re.compile(r"(?<=\w)[A-Z_]", re.ASCII)  # CamelCase, snake_case, ABC
_SENTENCE_START = '\n!?:;…(•|#>-–—"“„«'
_LIST_MARK = re.compile(r"\s*\d{1,3}[.)]\s*")
_CAPITALISING = frozenset({"de", "lb"})


class Prover:
    """Checks an answer sentence by sentence while it is written."""

    def __init__(
        self, hits: Sequence[Hit], question: str = "", lookup: Lookup | None = None, *, are_numbered: bool = True
    ) -> None:
        """Take the passages.

        Args:
            hits: the answer cites the first as [1].
            question: its words need no proof.
            lookup: finds passages for quotations that no hit has.
            are_numbered: whether reasons name the passages by number.
        """
        self._evidence = [Evidence(hit, number if are_numbered else None) for number, hit in enumerate(hits, 1)]
        language = hits[0].language if hits else None
        self._question_keys = {term.key for term in read_terms(question, language)}
        self._question_tokens = join(tokens_of(question.lower()))
        self._lookup, self._lookups_left = lookup, MAX_LOOKUPS
        self._splitter = SentenceSplitter()

    def feed(self, text: str, *, is_last: bool = False) -> Iterator[Proof]:
        """Take the next piece of the answer; yield the proofs of the sentences that are complete now."""
        return map(self.check, self._splitter.feed(text, is_last=is_last))

    def check(self, sentence: Sentence) -> Proof:
        """Compare a sentence with the passages that it cites, or with all passages if it cites none."""
        cited = self._passages(number for _, number in sentence.citations)
        proofs = [self._check_facts(sentence, cited)]
        for quote in sentence.quotes[:MAX_QUOTES_PER_SENTENCE]:
            nearest = self._passages(citations_after(sentence, quote.end)) or cited
            proofs.append(self._check_quote(quote, nearest, is_cited=bool(sentence.citations)))
        worst = min(proofs, key=lambda proof: _SEVERITY.index(proof.verdict))
        differing = sorted({span for proof in proofs for span in proof.differing})
        is_quotation = worst is not proofs[0]
        return replace(worst, start=sentence.start, end=sentence.end, differing=differing, is_quotation=is_quotation)

    def _passages(self, numbers: Iterable[int]) -> list[Evidence]:
        return [self._evidence[number - 1] for number in dict.fromkeys(numbers) if 0 < number <= len(self._evidence)]

    def _check_quote(self, quote: Excerpt, cited: Sequence[Evidence], *, is_cited: bool) -> Proof:
        clauses = [tokens_of(clause.strip(_EDGES)) for clause in _ELLIPSIS.split(_MARKUP.sub("", quote.text))]
        clauses = [clause for clause in clauses if any(token[0].isalnum() for token in clause)]
        tokens = [token for clause in clauses for token in clause]
        if not clauses or (not is_cited and join(token.lower() for token in tokens) in self._question_tokens):
            return _proof("unchecked", "The question says it.")
        first_choice = cited or self._evidence
        names, uncited = _names(first_choice), [each for each in self._evidence if each not in first_choice]
        if match := _find(clauses, first_choice):
            return _proof("found", f"Word for word in {match.passage.name}.", match)
        if match := _find(clauses, uncited):
            return _proof("elsewhere", f"Not in {names}, but word for word in {match.passage.name}.", match)
        altered = _find_altered(clauses, first_choice)
        if not altered and (match := _find(clauses, self._look_up(" ".join(tokens)))):
            verdict = "elsewhere" if self._evidence else "found"
            return _proof(verdict, f"Not in {names}, but word for word in another document.", match)
        if altered := altered or _find_altered(clauses, uncited):
            spans = _token_spans(quote, tokens, altered.differing)
            changed = ", ".join(quote.text[start - quote.start : end - quote.start] for start, end in spans)
            return _proof(
                "altered", f"Not as {altered.passage.name} has it: {changed or 'signs or capitals'}.", altered, spans
            )
        return _proof("not there", f"Not in {names}.", None, [(quote.start, quote.end)])

    def _look_up(self, text: str) -> list[Evidence]:
        if self._lookup is None or not self._lookups_left:
            return []
        self._lookups_left -= 1
        with suppress(RagError):
            return [Evidence(hit) for hit in self._lookup(text)]
        return []

    def _check_facts(self, sentence: Sentence, cited: Sequence[Evidence]) -> Proof:
        """Check the numbers, names, code and addresses outside of quotations."""
        passages = cited or self._evidence
        language = passages[0].hit.language if passages else None
        facts = [fact for fact in facts_of(sentence, language) if fact.key not in self._question_keys]
        text = " ".join([sentence.prose, *(quote.text for quote in sentence.quotes)])
        context = frozenset(key for key in _content(text, language) if not key[0].isdecimal())
        initials = defaultdict[Term, list[str]](list)
        for run, letters in initials_of(facts):
            for fact in run:
                initials[fact].append(letters)

        def has(passage: Evidence, fact: Term) -> bool:
            if not fact.key:
                return passage.has_code(fact.text.rstrip("/"))
            if fact.is_number:
                return passage.has_number(fact.key, context)
            return passage.has_name(fact, initials[fact])

        missing = [fact for fact in facts if not any(has(each, fact) for each in passages)]
        problem = "Not" if missing else "Different"
        if facts and not missing:
            terms = read_terms(sentence.prose, language)
            words = frozenset(term.key for term in terms)
            misplaced = [slot.keys for slot in read_slots(terms, language) if is_taken(slot, words, passages)]
            missing = [fact for fact in facts if any(fact.key in keys for keys in misplaced)]
        if not missing and facts:
            best = max(passages, key=lambda each: sum(has(each, fact) for fact in facts))
            reason = f"In {best.name}: {_listed(facts)}. The rest of the wording is not checked."
            return _proof("found", reason, Match(best, None))
        if not missing and not (cited and _is_foreign(sentence.prose, cited)):
            return _proof("unchecked", "It has no quotation, number, name or code to check.")
        content, names = _content(sentence.prose, language), _names(passages)
        spans = [(fact.start, fact.end) for fact in missing]
        for other in self._evidence:
            has_facts = other not in passages and all(has(other, fact) for fact in facts)
            if has_facts and _coverage(content, [other]) >= _MIN_COVERAGE_ELSEWHERE:
                return _proof(
                    "elsewhere", f"Not in {names}, but {other.name} has its words.", Match(other, None), spans
                )
        reason = f"{problem} in {names}: {_listed(missing)}." if missing else f"Hardly a word is in {names}."
        return _proof("not there", reason, None, spans)


class ProvedText:
    """The text of an answer with the proofs of its sentences, as events."""

    def __init__(self, prover: Prover, *, is_strict: bool) -> None:
        """Take the prover, and whether to leave out sentences with a quotation that is in no passage."""
        self._prover, self._is_strict = prover, is_strict
        self._pending = ""  # text of a strict answer without a proof yet
        self._read = self._removed = 0  # characters
        self.corrected: list[int] = []

    def feed(self, text: str, *, is_last: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        """Take the next piece; yield the names and values of events."""
        proofs = self._prover.feed(text, is_last=is_last)
        if text and not self._is_strict:
            yield "token", {"text": text}
        self._pending += text if self._is_strict else ""
        for proof in proofs:
            if proof.verdict == "elsewhere" and proof.number is not None:
                self.corrected.append(proof.number)
            if self._is_strict:
                shown, proof = self._take(proof)
                yield "token", {"text": shown}
            yield "proof", to_builtins(proof)
        if is_last and self._pending:
            yield "token", {"text": self._pending}

    def _take(self, proof: Proof) -> tuple[str, Proof]:
        """Return the text up to the end of a sentence, or LEFT_OUT in its place, and the proof with its new place."""
        text, self._pending = self._pending[: proof.end - self._read], self._pending[proof.end - self._read :]
        offset, self._read = self._removed, proof.end
        spans = [(start - offset, end - offset) for start, end in proof.differing]
        if proof.is_quotation and proof.verdict == "not there":
            length, spans = proof.end - proof.start, []
            text = text[:-length] + LEFT_OUT
            self._removed += length - len(LEFT_OUT)
        return text, replace(proof, start=proof.start - offset, end=proof.end - self._removed, differing=spans)


def citations_after(sentence: Sentence, end: int) -> list[int]:
    """Return the numbers of the first adjacent citations after a quotation."""
    numbers, stop = list[int](), None
    for place, number in sentence.citations:
        if place >= end and (stop is None or place <= stop):
            numbers.append(number)
            stop = place + len(f"[{number}] ")
    return numbers


def facts_of(sentence: Sentence, language: str | None) -> list[Term]:
    """Return the code, addresses, numbers and names of a sentence; code and addresses have no key."""
    facts = [Term(piece.text, piece.start, "") for piece in sentence.code if any(map(str.isalnum, piece.text))]
    prose = sentence.prose
    for match in _ADDRESS.finditer(prose):
        facts.append(Term(match[0], sentence.start + match.start(), ""))
        prose = prose[: match.start()] + " " * len(match[0]) + prose[match.end() :]
    for term in read_terms(prose, language):
        is_function = prose.startswith("()", term.end)
        is_sure = term.is_number or is_function or any(map(str.isdigit, term.text)) or bool(_NAME.search(term.text))
        if not (is_sure or term.text[0].isupper()) or term.text.lower() in STOP_WORDS:
            continue
        before = term.start
        while before and prose[before - 1] in " \t*_":
            before -= 1
        is_first = not before or prose[before - 1] in _SENTENCE_START or bool(_LIST_MARK.fullmatch(prose, 0, before))
        is_item = is_first and term.text.isdecimal() and prose[term.end : term.end + 1] in (".", ")")
        is_owner = prose[term.end : term.end + 2] in ("'s", "’s")
        is_name = (is_owner or not is_first) and language not in _CAPITALISING
        if (is_sure or is_name) and not is_item:
            facts.append(term._replace(start=sentence.start + term.start))
    return facts


@lru_cache(16)
def _content(text: str, language: str | None) -> tuple[str, ...]:
    """Return the keys of a sentence's words, except for stop words."""
    terms = read_terms(text, language)
    return tuple(term.key for term in terms if not is_stop_word(term.text.lower(), language or "en"))


def _coverage(content: Sequence[str], passages: Sequence[Evidence]) -> float:
    return sum(any(key in each.keys for each in passages) for key in content) / max(1, len(content))


def _is_foreign(text: str, passages: Sequence[Evidence]) -> bool:
    """Return whether a sentence is in the language of the passages, but has hardly any of their words."""
    language = passages[0].hit.language or "en"
    content = _content(text, language)
    stop_words = len(find_words(text)) - len(content)
    is_comparable = len(content) >= _MIN_CONTENT_WORDS and stop_words >= _MIN_STOP_WORDS
    return is_comparable and _coverage(content, passages) < _MIN_COVERAGE


def _find(clauses: Sequence[Sequence[str]], passages: Iterable[Evidence]) -> Match | None:
    return next(filter(None, (each.find(clauses) for each in passages)), None)


def _find_altered(clauses: Sequence[Sequence[str]], passages: Iterable[Evidence]) -> Match | None:
    candidates = passages if len(clauses) == 1 else ()
    return next(filter(None, (each.find_altered(clauses[0]) for each in candidates)), None)


def _token_spans(quote: Excerpt, tokens: Sequence[str], numbers: Sequence[int]) -> list[Span]:
    """Return the spans, in the answer, of some tokens of a quotation."""
    spans, stop = list[Span](), 0
    for number, token in enumerate(tokens):
        if (place := quote.text.find(token, stop)) >= 0:
            stop = place + len(token)
            spans += [(quote.start + place, quote.start + stop)] * (number in numbers)
    return spans


def _names(passages: Sequence[Evidence]) -> str:
    if len(passages) == 1:
        return passages[0].name
    numbers = [str(each.number) for each in passages if each.number is not None]
    return f"passages {', '.join(numbers)}" if numbers else "any passage"


def _listed(facts: Sequence[Term]) -> str:
    text = ", ".join(dict.fromkeys(fact.text for fact in facts))
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"


def _proof(verdict: str, reason: str, match: Match | None = None, differing: Sequence[Span] = ()) -> Proof:
    proof = Proof(0, 0, verdict, reason, list(differing))  # type: ignore[arg-type]  # one of the verdicts
    if match is None:
        return proof
    passage, span, _ = match
    shared = {name: getattr(passage.hit, name) for name in ("id", "url", "title", "section")}
    source = passage.text[slice(*span)] if span else None
    return replace(proof, number=passage.number, **shared, span=span, source=source, link=passage.link(span))
