"""Stream written answers, based on the hits of a search, from an endpoint with OpenAI's chat completions API."""

import asyncio
import json
import logging
import re
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import httpx

from indexer.network.http import proxy_for, tls_context
from rag.answer.prompt import Endpoint, messages
from rag.answer.proof import Lookup, ProvedText, Prover
from rag.errors import EndpointFailed, EndpointSlow
from rag.messages import EVENT_STREAM, Event, Exchange, event_of
from rag.query.results import Answer

BEAT_SECONDS = 1.0
MAX_ANSWER_BYTES = 4_000_000
NOTHING_FOUND = "nothing found"  # finish_reason if the model was not called
_CITATION_FIELDS = ("id", "url", "title", "section", "link")
_CITATION_BODY = re.compile(r"[\d^,;–\- \t]{0,120}+")  # the text between brackets
_MAX_BLANKS = 8  # spaces before a citation
_CODE_MARK_OR_CITATION = re.compile(rf"```|`|\n|[ \t]{{0,{_MAX_BLANKS}}}\[({_CITATION_BODY.pattern})\]")
_MAX_CITATION_CHARS = _MAX_BLANKS + 122  # the brackets count too
_RANGE = re.compile(r"(\d++)(?:[ \t]*+[-–][ \t]*+(\d++))?")  # 3, or 3-5

log = logging.getLogger("pilotlight")


def write_answer(
    search_answer: Answer,
    endpoint: Endpoint,
    question: str,
    history: Sequence[Exchange] = (),
    *,
    lookup: Lookup | None = None,
    is_strict: bool = False,
) -> Generator[Event | None, None, None]:
    """Yield the events of an answer: first `hits`, then any number of `token` and `proof`, then `citations` and `done`.

    Yields None whenever BEAT_SECONDS have passed without an event. Closing the iterator ends the call to the endpoint.

    Args:
        search_answer: the hits for the question.
        endpoint: the server that writes the answer.
        question: the question of the reader.
        history: the conversation before the question.
        lookup: finds passages for quotations that are in none of the hits.
        is_strict: whether to leave out sentences with a quotation that is in no passage.

    Raises:
        EndpointFailed: the endpoint cannot be used.
        EndpointSlow: the endpoint took too long.
    """
    start = time.perf_counter()
    yield event_of("hits", search_answer.as_dict())
    filtered = CitationFilter(len(search_answer.hits))
    proved = ProvedText(Prover(search_answer.hits, question, lookup), is_strict=is_strict)
    first_token: float | None = None  # milliseconds
    reason = NOTHING_FOUND
    with closing(complete(endpoint, messages(question, search_answer.hits, history))) as written:
        for piece in written if search_answer.hits else ():
            if piece is None:
                yield None
                continue
            is_last = isinstance(piece, Finished)
            if isinstance(piece, Finished):
                reason = piece.reason
            text = filtered.feed("" if isinstance(piece, Finished) else piece, is_last=is_last)
            for name, value in proved.feed(text, is_last=is_last):
                first_token = first_token or _milliseconds_since(start)
                yield event_of(name, value)
    cited = [(number, search_answer.hits[number - 1]) for number in dict.fromkeys([*filtered.cited, *proved.corrected])]
    citations = [{"number": number} | {name: getattr(hit, name) for name in _CITATION_FIELDS} for number, hit in cited]
    yield event_of("citations", {"citations": citations})
    took = {"first_token": first_token, "answer": _milliseconds_since(start)}
    yield event_of("done", {"finish_reason": reason, "took_ms": took})


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)


class CitationFilter:
    """Rewrites citations in streamed text as [n], and removes those whose n is not between 1 and `count`.

    Brackets in code are kept, because `[0]` is an index there. The time is linear in the length of the text.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._buffer = ""
        self._fenced = self._inline = False
        self.cited: list[int] = []

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """Take the next piece of text; return the text that is ready to show."""
        text = self._buffer + text
        cut = len(text)
        if not is_last:
            least = max(0, cut - _MAX_CITATION_CHARS)
            bracket = text.rfind("[", least)
            if bracket >= 0 and _CITATION_BODY.fullmatch(text, bracket + 1):
                cut = bracket
            elif text.endswith("`"):
                cut -= (len(text) - len(text.rstrip("`"))) % 3
            least = max(0, cut - _MAX_BLANKS)
            while cut > least and text[cut - 1] in " \t":
                cut -= 1
        self._buffer = text[cut:]
        return _CODE_MARK_OR_CITATION.sub(self._replace, text[:cut])

    def _replace(self, match: re.Match[str]) -> str:
        mark = match[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            ranges = [(int(first), int(last or first)) for first, last in _RANGE.findall(match[1])]
            numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
            self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
            space = mark[: mark.index("[")] if numbers else ""
            return space + "".join(f"[{number}]" for number in numbers) if ranges else mark
        return mark


class Finished(NamedTuple):
    """The end of a completion. The reason is `stop`, or `length` if the text was cut off."""

    reason: str


def complete(endpoint: Endpoint, chat: Sequence[dict[str, str]]) -> Generator[str | Finished | None, None, None]:
    """Yield the text that the model writes, None after each BEAT_SECONDS of silence, and Finished at the end.

    Closing the iterator ends the call immediately. Raises EndpointFailed, or EndpointSlow after a timeout.
    """
    pieces: SimpleQueue[str | Finished | Exception] = SimpleQueue()
    loop = asyncio.new_event_loop()  # a task can be cancelled, a thread cannot
    task = loop.create_task(_call(endpoint, chat, pieces.put))

    def run() -> None:
        with suppress(asyncio.CancelledError):  # the iterator was closed
            loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    Thread(target=run, name="pilotlight-answer", daemon=True).start()
    try:
        while True:
            try:
                piece = pieces.get(timeout=BEAT_SECONDS)
            except Empty:
                yield None
                continue
            if isinstance(piece, Exception):
                raise piece
            yield piece
            if isinstance(piece, Finished):
                return
    finally:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)


async def _call(
    endpoint: Endpoint, chat: Sequence[dict[str, str]], put: Callable[[str | Finished | Exception], None]
) -> None:
    """Call the endpoint, and pass its text or its error to `put`."""
    try:
        async with asyncio.timeout(endpoint.timeout):
            await _stream(endpoint, chat, put)
    except (TimeoutError, httpx.TimeoutException):
        put(EndpointSlow(f"the answer endpoint did not finish within {endpoint.timeout:g} seconds"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        log.warning("the answer endpoint failed: %r", error)
        put(EndpointFailed("the answer endpoint cannot be reached, or closed the connection"))
    except Exception as error:  # noqa: BLE001 - `complete` raises it
        put(error)


async def _stream(endpoint: Endpoint, chat: Sequence[dict[str, str]], put: Callable[[str | Finished], None]) -> None:
    headers = {"Accept": EVENT_STREAM, "Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    proxy = proxy_for(endpoint.url, endpoint.http_proxy)
    body = {"model": endpoint.model, "messages": list(chat), "stream": True}
    async with (
        httpx.AsyncClient(timeout=endpoint.timeout, verify=tls_context(), trust_env=False, proxy=proxy) as client,
        client.stream("POST", endpoint.url, json=body, headers=headers) as response,
    ):
        if response.status_code != 200:
            start = b""
            async for block in response.aiter_raw():
                start += block
                if len(start) > 300:
                    break
            message = (
                start[:300].decode("utf-8", "replace").replace(endpoint.key or "\0", "…")
            )  # removes the key, which some endpoints echo
            log.warning("the answer endpoint returned status %d: %r", response.status_code, message)
            raise EndpointFailed(f"the answer endpoint returned status {response.status_code}")
        if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != EVENT_STREAM:
            raise EndpointFailed("the answer endpoint did not stream events")
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise EndpointFailed("the answer endpoint compresses events, although the request forbids it")
        events, utf8, size, reason = EventData(), getincrementaldecoder("utf-8")("replace"), 0, ""
        async for block in response.aiter_raw():
            size += len(block)
            if size > MAX_ANSWER_BYTES:
                raise EndpointFailed("the answer endpoint sent too much")
            for data in events.feed(utf8.decode(block)):
                if data == "[DONE]":
                    put(Finished(reason or "stop"))
                    return
                piece, reason = _parse_chunk(data, reason)
                if piece:
                    put(piece)
        if not reason:
            raise EndpointFailed("the answer endpoint ended the stream too early")
        put(Finished(reason))


class EventData:
    """Reads the data of server-sent events from streamed text. Each event has one line of data."""

    def __init__(self) -> None:
        self._rest: list[str] = []

    def feed(self, text: str) -> Iterator[str]:
        """Take the next piece; yield the data of the complete lines."""
        head, has_end, rest = text.rpartition("\n")
        if has_end:
            lines = "".join([*self._rest, head]).split("\n")
            yield from (line.removeprefix("data:").strip() for line in lines if line.startswith("data:"))
            self._rest.clear()
        self._rest.append(rest)


def _parse_chunk(data: str, reason: str) -> tuple[str, str]:
    """Parse the data of an event. Return its text, and its finish reason, or `reason` if it has none."""
    try:
        chunk: Any = json.loads(data)
        if chunk.get("error"):
            log.warning("the answer endpoint failed: %.300r", chunk["error"])
            raise EndpointFailed("the answer endpoint reported an error")
        choices = chunk["choices"]
        if not choices:
            return "", reason
        piece = choices[0].get("delta", {}).get("content") or ""
        reason = choices[0].get("finish_reason") or reason
        if not isinstance(piece, str) or not isinstance(reason, str):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        log.warning("the answer endpoint sent %.300r", data)
        raise EndpointFailed("the answer endpoint sent something that is not a completion") from error
    return piece, reason
