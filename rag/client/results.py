"""Results of `rag.Client`, read from the server's JSON. Names that are not known here are left aside."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from rag.client.transport import kind_of, problem_in
from rag.errors import ClientError
from rag.query.results import Answer, Suggestion

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a document."""

    id: str
    url: str  # with the section's anchor
    section: str  # heading path joined with " › "
    text: str


@dataclass(frozen=True, slots=True)
class Document:
    """One document of an index, with its passages in reading order."""

    generation: str
    id: str
    url: str
    title: str
    source: str
    language: str | None
    date: str | None  # YYYY-MM-DD
    content_type: str
    metadata: dict[str, Any]
    fetched_at: str  # ISO 8601, UTC
    passages: tuple[Passage, ...]

    @property
    def text(self) -> str:
        """The passages, one after another."""
        return "\n\n".join(passage.text for passage in self.passages)


@dataclass(frozen=True, slots=True)
class Citation:
    """A hit that a written answer rests on."""

    number: int  # as it stands in the text: [1] is the first hit
    id: str
    url: str
    title: str
    section: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a written answer, and whether a hit supports it."""

    start: int  # characters [start, end) of the text
    end: int
    supported: bool
    hit: int | None  # number of the hit that supports it best
    score: float


def _checked(read: Callable[P, T]) -> Callable[P, T]:
    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ClientError(f"the server's answer is incomplete ({error}): is it Pilotlight?") from error

    return reading


@_checked
def answer_of(raw: dict[str, Any]) -> Answer:
    """Read the answer to a search. Raises ClientError, as all of these do."""
    return msgspec.convert(raw, Answer)


@_checked
def outcome_of(raw: dict[str, Any]) -> Answer | ClientError:
    """Read one answer of a batch, which may be a problem."""
    if "hits" in raw:
        return answer_of(raw)
    detail, field = problem_in(raw, "the server gave no answer")
    return kind_of(raw["status"])(detail, status=raw["status"], field=field)


@_checked
def document_of(raw: dict[str, Any]) -> Document:
    """Read a document."""
    known = {field.name: raw[field.name] for field in fields(Document)}
    passages = tuple(Passage(*(passage[field.name] for field in fields(Passage))) for passage in raw["passages"])
    return Document(**{**known, "passages": passages})


@_checked
def citations_of(raw: dict[str, Any]) -> tuple[Citation, ...]:
    """Read the citations of a written answer."""
    return tuple(Citation(*(found[field.name] for field in fields(Citation))) for found in raw["citations"])


@_checked
def sentence_of(raw: dict[str, Any]) -> Sentence:
    """Read what is said of a sentence of a written answer."""
    return Sentence(*(raw[field.name] for field in fields(Sentence)))


@_checked
def suggestions_of(raw: dict[str, Any]) -> list[Suggestion]:
    """Read suggestions."""
    return [Suggestion(found["text"], found["kind"]) for found in raw["suggestions"]]


@_checked
def vectors_of(raw: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Read vectors, as float32 (n, dim)."""
    return np.asarray(raw["embeddings"], np.float32).reshape(len(raw["embeddings"]), -1)


@_checked
def relevance_of(raw: dict[str, Any], count: int) -> npt.NDArray[np.float32]:
    """Read the scores of texts, as float32 (count,), in the order of the texts."""
    scores = {int(result["index"]): float(result["relevance_score"]) for result in raw["results"]}
    return np.array([scores[place] for place in range(count)], np.float32)
