"""The language of a text that does not say it."""

from functools import cache
from typing import Any

from indexer.read.metadata import language_of

_READ = 4_000  # characters; more would not change the answer
_FIRST = 1_000  # of these, characters that mostly are enough
_SHORTEST = 40  # characters; a guess from less is worth nothing
_CONFIDENT = 0.8  # of 1; below it are code, tables and mixtures
_SURE = 0.95  # of 1: reading on would not change it


def detect(text: str) -> str | None:
    """Return the two- or three-letter code of the language a text is in, or None where that is not plain."""
    if len(text) < _SHORTEST:
        return None
    language, confidence = _identifier().classify(text[:_FIRST])
    if confidence < _SURE and len(text) > _FIRST:
        language, confidence = _identifier().classify(text[:_READ])
    return language_of(language) if confidence >= _CONFIDENT else None


def load() -> None:
    """Load the model now, and use it once: it writes files and sets memory aside for that, which it may not later."""
    detect("Loading it is half of what there is to do. " * 100)


@cache
def _identifier() -> Any:
    # imported here: its model takes a third of a second and 100 MB, which is for the processes that read documents
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
