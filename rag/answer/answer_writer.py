"""Answers in words: a model writes them from the hits of a search, with citations that point to these."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

from rag.answer.citations import CitationFilter
from rag.answer.completion import BEAT_SECONDS, Finished, complete
from rag.answer.conversation import Exchange
from rag.answer.endpoint import Endpoint
from rag.answer.judging import Judging
from rag.answer.prompt import messages, seen
from rag.answer.support import Embed, Support
from rag.events import Event, event_of
from rag.query.results import Answer

NOTHING_FOUND = "nothing found"  # the finish_reason of an answer that no model was asked for


def write_answer(
    found: Answer,
    endpoint: Endpoint,
    question: str,
    history: Sequence[Exchange] = (),
    *,
    embed: Embed | None = None,
    support: float = 0.0,
) -> Generator[Event | None, None, None]:
    """Yield the events of an answer to a question: hits, then tokens with support, citations and done.

    None comes where nothing else has for a second. Closing the iterator ends the call of the endpoint.

    Args:
        found: the search that was made for the question.
        endpoint: what writes the answer.
        question: as it was asked.
        history: what was asked and answered before.
        embed: embeds statements of the answer, to be compared with the hits; None: words alone are compared.
        support: from which likeness on a hit supports a statement; 0: nothing is said of that.

    Raises:
        EndpointFailed: the endpoint cannot be reached, or fails.
        EndpointSlow: it took too long.
    """
    start = time.perf_counter()
    yield event_of("hits", found.as_dict())
    filtered = CitationFilter(len(found.hits))
    first: float | None = None
    reason = NOTHING_FOUND
    pieces = complete(endpoint, messages(question, found.hits, history)) if found.hits else _no_pieces()
    with closing(pieces), Judging(found.hits, seen(found.hits), embed, support) as judging:
        for piece in pieces:
            yield from map(_support, judging.ready())
            if piece is None:
                yield None
                continue
            if isinstance(piece, Finished):
                reason, text = piece.reason, filtered.end()
            else:
                text = filtered.feed(piece)
            if text:
                first = first or time.perf_counter()
                yield event_of("token", {"text": text})
                judging.read(text)
        for judged in judging.rest(BEAT_SECONDS):
            yield judged and _support(judged)
    yield event_of("citations", {"citations": [_citation(found, number) for number in filtered.cited]})
    took = {
        "first_token": None if first is None else _milliseconds(first - start),
        "answer": _milliseconds(time.perf_counter() - start),
    }
    yield event_of("done", {"finish_reason": reason, "took_ms": took})


def _support(judged: Support) -> Event:
    return event_of("support", judged.as_dict())


def _citation(found: Answer, number: int) -> dict[str, Any]:
    hit = found.hits[number - 1]
    return {"number": number, "id": hit.id, "url": hit.url, "title": hit.title, "section": hit.section}


def _no_pieces() -> Generator[str | Finished | None, None, None]:
    yield from ()


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
