"""Judges the statements of an answer while it is written, in a thread of its own: no text waits for it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from embedder.errors import PilotlightError
from rag import deadline
from rag.answer.statements import Statement, StatementReader
from rag.answer.support import Embed, Evidence, Support, Vectors
from rag.query.results import Hit

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
