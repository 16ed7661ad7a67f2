"""Estimate whether a model knows the languages of the documents in an index.

A tokenizer splits the words of an unknown language into "broken" pieces: single letters and unknown tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from embedder.model.tokenizer import reliability_of

MULTILINGUAL = "multilingual-e5-small"
SAMPLE_PASSAGES = 256
_MIN_RELIABILITY = 0.5
_MIN_REPORTED_SHARE = 0.02  # share of passages below which a language is not reported
NAMES = dict(
    pair.split(":")
    for pair in "ar:Arabic bg:Bulgarian bn:Bengali bs:Bosnian ca:Catalan cs:Czech da:Danish de:German el:Greek "
    "en:English es:Spanish et:Estonian eu:Basque fa:Persian fi:Finnish fr:French ga:Irish gl:Galician gu:Gujarati "
    "he:Hebrew hi:Hindi hr:Croatian hu:Hungarian hy:Armenian id:Indonesian is:Icelandic it:Italian ja:Japanese "
    "ka:Georgian kk:Kazakh km:Khmer kn:Kannada ko:Korean lo:Lao lt:Lithuanian lv:Latvian mk:Macedonian ml:Malayalam "
    "mn:Mongolian mr:Marathi ms:Malay my:Burmese nb:Norwegian ne:Nepali nl:Dutch nn:Norwegian no:Norwegian pa:Punjabi "
    "pl:Polish pt:Portuguese ro:Romanian ru:Russian si:Sinhala sk:Slovak sl:Slovenian sq:Albanian sr:Serbian "
    "sv:Swedish sw:Swahili ta:Tamil te:Telugu th:Thai tr:Turkish uk:Ukrainian ur:Urdu uz:Uzbek vi:Vietnamese "
    "zh:Chinese".split()
)


class LanguageStats(msgspec.Struct, frozen=True):
    """A language (None if unknown), its number of passages, and the share of unknown or one-letter word pieces."""

    language: str | None
    passages: int
    broken: float


LanguageSamples = Iterable[tuple[str | None, int, Sequence[str]]]
"""Yields (language, number of its passages, texts of a sample of these passages)."""


def measure_languages(
    samples: LanguageSamples, count_broken: Callable[[Sequence[str]], tuple[int, int]]
) -> list[LanguageStats]:
    """Return the statistics of each language. `count_broken` is `Embedder.count_broken`."""
    counts = [(language, passages, count_broken(texts)) for language, passages, texts in samples]
    return [LanguageStats(each, count, round(broken / max(1, pieces), 3)) for each, count, (broken, pieces) in counts]


def languages_of(report: Mapping[str, Any]) -> list[LanguageStats]:
    """Return the languages in the report of a build, or an empty list if the report has none."""
    return msgspec.convert(report.get("languages", []), list[LanguageStats])


def unknown_languages(languages: Sequence[LanguageStats], model: str) -> str:
    """Return a sentence that names the languages that the model does not know, or an empty string."""
    total = sum(each.passages for each in languages)
    shares: dict[str, float] = {}
    for each in languages:
        if reliability_of(each.broken) < _MIN_RELIABILITY:
            name = NAMES.get(each.language or "", f"language {each.language}" if each.language else "other languages")
            shares[name] = shares.get(name, 0.0) + each.passages / total
    names = [f"{name} ({share:.0%} of passages)" for name, share in shares.items() if share >= _MIN_REPORTED_SHARE]
    if not names:
        return ""
    listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]])).replace("%", " %")
    advice = "" if MULTILINGUAL in model else f"; --model {MULTILINGUAL} knows about 100 languages"
    return f"the model does not know {listed}: matching words decide the ranking{advice}"
