"""Answers in words: a model writes them from the hits of a search, with citations that point to these."""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from embedder.errors import PilotlightError
from rag import deadline
from rag.answer.completion import BEAT_SECONDS, Finished, complete
from rag.answer.prompt import Endpoint, Exchange, messages, seen
from rag.answer.support import Embed, Evidence, Statement, StatementReader, Support, Vectors
from rag.events import Event, event_of
from rag.query.results import Answer, Hit

_INSIDE = r"[\d^,;–\- \t]"
_TOKEN = re.compile(rf"```|`|\n|[ \t]*\[({_INSIDE}{{1,120}})\]")
_OPEN = re.compile(rf"(?:(?<!`)`{{1,2}}|[ \t]*(?:\[{_INSIDE}{{0,120}})?)\Z")  # what may still become one of these
_NUMBERS = re.compile(r"(\d+)(?:\s*[-–]\s*(\d+))?")


class CitationFilter:
    """Passes text on with every citation written [n], for n from 1 to count; others are taken out.

    Brackets in code are left alone: there, `[0]` is an index. `cited` has the numbers in the order of their first use.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._buffer = ""
        self._fenced = False  # inside a block of code
        self._inline = False  # inside code within a line
        self.cited: list[int] = []

    def feed(self, text: str) -> str:
        """Take the next piece of text; return what can be shown now."""
        self._buffer += text
        found = _OPEN.search(self._buffer)
        cut = found.start() if found else len(self._buffer)
        ready, self._buffer = self._buffer[:cut], self._buffer[cut:]
        return _TOKEN.sub(self._replace, ready)

    def end(self) -> str:
        """Return what was held back."""
        ready, self._buffer = self._buffer, ""
        return _TOKEN.sub(self._replace, ready)

    def _replace(self, found: re.Match[str]) -> str:
        mark = found[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            return self._citation(mark, found[1])
        return mark

    def _citation(self, mark: str, inside: str) -> str:
        ranges = [(int(first), int(last or first)) for first, last in _NUMBERS.findall(inside)]
        if not ranges:
            return mark  # a box to tick, say
        numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
        self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
        space = mark[: mark.index("[")] if numbers else ""
        return space + "".join(f"[{number}]" for number in numbers)


PATIENCE_S = 10.0  # that the model may take to embed something, behind all queries; then words alone are compared
MOST = 500  # statements of an answer that are judged

Made = TypeVar("Made")

log = logging.getLogger("pilotlight")


class Judging:
    """The statements of one answer; a context manager, whose end gives up what is not judged yet."""

    def __init__(self, hits: Sequence[Hit], texts: Sequence[str], embed: Embed | None, threshold: float) -> None:
        """Begin: the passages are embedded at once, while nothing is written yet.

        Args:
            hits: what the answer is written from.
            texts: of the hits, as far as the writer has seen them.
            embed: embeds texts as unit vectors; None: to judge by words alone.
            threshold: see `Evidence`; with 0 nothing is judged.
        """
        self._reader = StatementReader() if threshold and hits else None
        self._evidence = Evidence(hits, texts, threshold)
        self._embed = embed
        self._left = MOST
        self._context = copy_context()  # which says who asks, and so whose turn it is
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="judging")
        self._judged: deque[Future[Support | None]] = deque()  # in order, as one thread makes them
        self._sentences = self._run(self._embedded, self._evidence.sentences()) if self._reader else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def read(self, text: str) -> None:
        """Take the next piece of the answer."""
        if self._reader:
            self._add(self._reader.feed(text))

    def ready(self) -> Iterator[Support]:
        """Yield what has been judged since."""
        while self._judged and self._judged[0].done():
            if found := self._judged.popleft().result():
                yield found

    def rest(self, beat: float) -> Iterator[Support | None]:
        """End the answer; yield what is still to be judged, and None whenever nothing has been for `beat` seconds."""
        if self._reader:
            self._add(self._reader.end())
        while self._judged:
            try:
                found = self._judged[0].result(timeout=beat)
            except TimeoutError:
                yield None
                continue
            self._judged.popleft()
            if found:
                yield found

    def _add(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            if self._left:
                self._left -= 1
                self._judged.append(self._run(self._judge, statement))

    def _run(self, function: Callable[[Any], Made], given: Any) -> "Future[Made]":
        return self._thread.submit(self._context.run, function, given)

    def _judge(self, statement: Statement) -> Support | None:
        sentences = self._sentences.result() if self._sentences else None
        vectors = None if sentences is None else self._embedded([statement.text])
        return self._evidence.judge(statement, None if vectors is None else vectors[0], sentences)

    def _embedded(self, texts: Sequence[str]) -> Vectors | None:
        if self._embed is None:
            return None
        deadline.begin(PATIENCE_S)
        try:
            return self._embed(texts)
        except PilotlightError as error:
            log.debug("statements of an answer are judged by words alone: %s", error)
            return None


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
