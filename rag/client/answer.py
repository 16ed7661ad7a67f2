"""An answer that a server writes, read while it is written."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from rag.client.results import Citation, Sentence, answer_of, citations_of, sentence_of
from rag.client.transport import Transport, problem_in
from rag.errors import ClientError, Unavailable
from rag.events import Event
from rag.query.options import MOST_EXCHANGES, MOST_OF_ANSWER
from rag.query.results import Answer


class WrittenAnswer:
    """The text of an answer, piece by piece; a context manager, whose end also ends the writing.

    `found` is there at once: the search whose hits the citations number. `text` and `sentences` grow while it is read;
    `citations` and `finish_reason` are there once the text has been read to its end.
    """

    def __init__(self, transport: Transport, path: str, fields: Mapping[str, Any]) -> None:
        """Ask for it; `fields` are those of the request."""
        self._transport = transport
        self._path = path
        self._fields = fields
        self._events = transport.events(path, fields)
        self.text = ""
        self.sentences: list[Sentence] = []
        self.citations: tuple[Citation, ...] = ()
        self.finish_reason: str | None = None
        try:
            self.found: Answer = answer_of(self._next("hits"))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading; the server then stops writing."""
        self._events.close()

    def ask_further(self, question: str) -> "WrittenAnswer":
        """Ask another question with the same options, and what was asked and answered up to here."""
        exchange = {"question": self._fields["query"], "answer": self.text[:MOST_OF_ANSWER]}
        history = [*self._fields.get("history", ()), exchange][-MOST_EXCHANGES:]
        return WrittenAnswer(self._transport, self._path, {**self._fields, "query": question, "history": history})

    def __iter__(self) -> Iterator[str]:
        """Yield the text as it comes; raises ClientError where the server cannot go on."""
        for event in self._events:
            value = self._value(event)
            if event.name == "token":
                text = str(value.get("text", ""))
                self.text += text
                yield text
            elif event.name == "support":
                self.sentences.append(sentence_of(value))
            elif event.name == "citations":
                self.citations = citations_of(value)
            elif event.name == "done":
                self.finish_reason = str(value.get("finish_reason"))
        if self.finish_reason is None:
            raise Unavailable(f"{self._transport.url} broke off in the middle of an answer")

    def _next(self, name: str) -> dict[str, Any]:
        for event in self._events:
            if event.name == name:
                return self._value(event)
            break
        raise ClientError(f"{self._transport.url} did not stream an answer: is it Pilotlight?")

    def _value(self, event: Event) -> dict[str, Any]:
        value = self._transport.parse(event.data)
        if event.name == "error":
            detail, field = problem_in(value, "the answer could not be written to its end")
            status = value.get("status") if isinstance(value, dict) else None
            raise ClientError(detail, status=status, field=field)
        if not isinstance(value, dict):
            raise ClientError(f"{self._transport.url} did not stream an answer: is it Pilotlight?")
        return value
