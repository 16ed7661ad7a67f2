"""Check the sentences of an answer against the passages that they cite, without a model.

A quotation must be in a passage word for word. For other sentences, the passages must have all numbers, names, code and
addresses, and nearly half of the words. It is not checked whether a paraphrase has the same meaning, or whether facts
belong together.
The time is linear in the length of the answer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from operator import itemgetter
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from rag.answer.claim import FACT_WEIGHT, Claim, PassageWords
from rag.answer.evidence import RARE_WORD_WEIGHT, Evidence, Match, Term, join, read_terms, tokens_of
from rag.answer.sentences import Excerpt, Sentence, SentenceSplitter
from rag.errors import RagError
from rag.messages import Proof
from rag.query.results import Hit, Span

Lookup = Callable[[str], Sequence[Hit]]
"""A function that finds passages with the words of a text, among those that the caller may see."""

MAX_LOOKUPS = 20  # searches per answer
MAX_QUOTES_PER_SENTENCE = 100
LEFT_OUT = "[…]"  # replaces a sentence in strict mode
_MAX_REASON_CHARS = 200
_VERDICTS = ("not there", "altered", "elsewhere", "found", "unchecked")  # the worst first
_MARKUP = re.compile(r"\*\*|__|(?<!\w)\*(?=\w[^*\n]*\w\*)|(?<=\w)\*(?=[\W_]|$)|`|\[\d{1,3}\]")
_ELLIPSIS = re.compile(r"[\[(]?(?:…|\.\.\.)[\])]?")
_EDGES = " \t\n.,;:!?-–—"


class Prover:
    """Checks an answer sentence by sentence while it is written."""

    def __init__(
        self, hits: Sequence[Hit], question: str = "", lookup: Lookup | None = None, *, are_numbered: bool = True
    ) -> None:
        """Prepare passages.

        Args:
            hits: the passages; the answer cites the first as [1].
            question: the question; its words need no proof.
            lookup: finds passages for quotations that no hit has.
            are_numbered: whether the reasons for results name passages by their numbers, not by their titles.
        """
        self._evidence = [Evidence(hit, number if are_numbered else None) for number, hit in enumerate(hits, 1)]
        language = hits[0].language if hits else None
        self._question_keys = dict.fromkeys(key for term in read_terms(question, language) for key in term.keys)
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
        worst = min(proofs, key=lambda proof: _VERDICTS.index(proof.verdict))
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
                "altered", f"{altered.passage.name} differs: {changed or 'punctuation or case'}.", altered, spans
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
        claim = Claim(sentence, passages, self._question_keys, self._words)
        missing = [(fact.start, fact.end) for fact in claim.missing]
        if cited and (other := self._find_elsewhere(claim, cited)):
            reason = f"Not in {_names(cited)}, but {other.name} has its words."
            return _proof("elsewhere", reason, Match(other, None), missing)
        if missing:
            return _proof("not there", f"Not in {_names(passages)}: {_listed(claim.missing)}.", None, missing)
        if cited and claim.is_unrelated():
            return _proof("not there", f"Most of its words are not in {_names(passages)}.")
        if not claim.facts:
            return _proof("unchecked", "It has no quotation, number, name or code to check.")
        if altered := claim.find_altered_fact():
            fact, passage, words = altered
            match = Match(passage, (words[0].start, words[-1].end))
            return _proof("altered", f"Different in {passage.name}: {fact.text}.", match, [(fact.start, fact.end)])
        passage = min(passages, key=claim.missing_weight)
        reason = f"In {passage.name}: {_listed(claim.facts)}. The rest of the wording is not checked."
        return _proof("found", reason, Match(passage, None))

    def _find_elsewhere(self, claim: Claim, cited: Sequence[Evidence]) -> Evidence | None:
        """Return an uncited passage that has all facts of the claim, if it matches better than the cited passages."""
        uncited = [each for each in self._evidence if each not in cited]
        if not uncited:
            return None
        weight, other = min(((claim.missing_weight(each), each) for each in uncited), key=itemgetter(0))
        if weight > RARE_WORD_WEIGHT or not claim.shares_words(other) or not all(map(other.has, claim.facts)):
            return None
        is_better = bool(claim.missing) or min(map(claim.missing_weight, cited)) - weight >= FACT_WEIGHT
        return other if is_better else None

    @cached_property
    def _words(self) -> PassageWords:
        return PassageWords(self._evidence)


class ProvedText:
    """Converts a streamed answer into events: pieces of text, and the result of checking each sentence."""

    def __init__(self, prover: Prover, *, is_strict: bool) -> None:
        """Start an answer. If `is_strict`, leave out sentences with a quotation that is in no passage."""
        self._prover, self._is_strict = prover, is_strict
        self._pending = ""  # text that is not checked yet; always empty if not strict
        self._read = self._removed = 0  # characters checked and characters left out
        self.corrected: list[int] = []  # numbers of passages to cite instead of the cited ones

    def feed(self, text: str, *, is_last: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
        """Take the next piece of the answer; yield the name and the data of each event."""
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
        """Return the next sentence to show, or LEFT_OUT, and the proof with positions in the shown text."""
        text, self._pending = self._pending[: proof.end - self._read], self._pending[proof.end - self._read :]
        offset, self._read = self._removed, proof.end
        spans = [(start - offset, end - offset) for start, end in proof.differing]
        if proof.is_quotation and proof.verdict == "not there":
            length, spans = proof.end - proof.start, []
            text = text[:-length] + LEFT_OUT
            self._removed += length - len(LEFT_OUT)
        return text, replace(proof, start=proof.start - offset, end=proof.end - self._removed, differing=spans)


def citations_after(sentence: Sentence, end: int) -> list[int]:
    """Return the numbers of the first citation after a quotation, and of further citations directly after the first."""
    numbers, stop = list[int](), None
    for place, number in sentence.citations:
        if place >= end and (stop is None or place <= stop):
            numbers.append(number)
            stop = place + len(f"[{number}] ")
    return numbers


def _find(clauses: Sequence[Sequence[str]], passages: Iterable[Evidence]) -> Match | None:
    return next(filter(None, (each.find(clauses) for each in passages)), None)


def _find_altered(clauses: Sequence[Sequence[str]], passages: Iterable[Evidence]) -> Match | None:
    candidates = passages if len(clauses) == 1 else ()
    return next(filter(None, (each.find_altered(clauses[0]) for each in candidates)), None)


def _token_spans(quote: Excerpt, tokens: Sequence[str], numbers: Sequence[int]) -> list[Span]:
    """Return the spans in the answer of those tokens of a quotation whose indices are in `numbers`."""
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
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[:_MAX_REASON_CHARS]}…"


def _proof(verdict: str, reason: str, match: Match | None = None, differing: Sequence[Span] = ()) -> Proof:
    proof = Proof(0, 0, verdict, reason, list(differing))  # type: ignore[arg-type]  # one of the verdicts
    if match is None:
        return proof
    passage, span, _ = match
    shared = {name: getattr(passage.hit, name) for name in ("id", "url", "title", "section")}
    source = passage.text[slice(*span)] if span else None
    return replace(proof, number=passage.number, **shared, span=span, source=source, link=passage.link(span))
