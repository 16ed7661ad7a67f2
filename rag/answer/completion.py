"""Answers in words: an endpoint writes them from the hits of a search, as OpenAI's chat completions, streamed."""

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

from indexer.network.proxies import proxy_for, tls_context
from rag.answer.prompt import Endpoint, messages
from rag.answer.proof import Lookup, ProvedText, Prover
from rag.errors import EndpointFailed, EndpointSlow
from rag.events import MEDIA_TYPE, Event, event_of
from rag.messages import Exchange
from rag.query.results import Answer

BEAT_SECONDS = 1.0  # of silence, after which a caller hears that nothing has come
MOST_BYTES = 4_000_000  # of one answer, as it comes over the wire, where a word takes some hundreds
NOTHING_FOUND = "nothing found"  # the finish_reason of an answer that no model was asked for
_CITED = ("id", "url", "title", "section", "link")  # of a hit that is cited
_INSIDE = re.compile(r"[\d^,;–\- \t]{0,120}+")
_BLANKS = 8  # before a citation, that go with it where it is taken out
_TOKEN = re.compile(rf"```|`|\n|[ \t]{{0,{_BLANKS}}}\[({_INSIDE.pattern})\]")
_LONGEST_TOKEN = _BLANKS + 122
_RANGE = re.compile(r"(\d++)(?:[ \t]*+[-–][ \t]*+(\d++))?")

log = logging.getLogger("pilotlight")


def write_answer(
    found: Answer,
    endpoint: Endpoint,
    question: str,
    history: Sequence[Exchange] = (),
    *,
    lookup: Lookup | None = None,
    is_strict: bool = False,
) -> Generator[Event | None, None, None]:
    """Yield the events of an answer to a question: hits, then tokens and proofs, citations and done.

    None is yielded for every second of silence. Closing the iterator ends the call of the endpoint.

    Args:
        found: the search that was made for the question.
        endpoint: the server that writes the answer.
        question: the question, as it was asked.
        history: the conversation before it.
        lookup: finds passages for quotations that the hits do not have.
        is_strict: whether to leave out sentences with a quotation that is in no passage.

    Raises:
        EndpointFailed: the endpoint cannot be used.
        EndpointSlow: it took too long.
    """
    start = time.perf_counter()
    yield event_of("hits", found.as_dict())
    filtered = CitationFilter(len(found.hits))
    proved = ProvedText(Prover(found.hits, question, lookup), is_strict=is_strict)
    first_token: float | None = None  # milliseconds
    reason = NOTHING_FOUND
    with closing(complete(endpoint, messages(question, found.hits, history))) as written:
        for piece in written if found.hits else ():
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
    cited = [(number, found.hits[number - 1]) for number in dict.fromkeys([*filtered.cited, *proved.corrected])]
    citations = [{"number": number} | {name: getattr(hit, name) for name in _CITED} for number, hit in cited]
    yield event_of("citations", {"citations": citations})
    took = {"first_token": first_token, "answer": _milliseconds_since(start)}
    yield event_of("done", {"finish_reason": reason, "took_ms": took})


def _milliseconds_since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 3)


class CitationFilter:
    """Passes text on with every citation written [n], for n from 1 to count; others are taken out.

    Brackets in code are left alone: there, `[0]` is an index. Text is read in linear time: each piece once, with less
    than a token of those before.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held = ""  # what may still become a token
        self._fenced = False  # inside a block of code
        self._inline = False  # inside code within a line
        self.cited: list[int] = []  # in the order of their first use

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """Take the next piece of text; return what can be shown now."""
        text = self._held + text
        cut = len(text)
        if not is_last:
            least = max(0, cut - _LONGEST_TOKEN)
            bracket = text.rfind("[", least)
            if bracket >= 0 and _INSIDE.fullmatch(text, bracket + 1):
                cut = bracket
            elif text.endswith("`"):
                cut -= (len(text) - len(text.rstrip("`"))) % 3
            least = max(0, cut - _BLANKS)
            while cut > least and text[cut - 1] in " \t":
                cut -= 1
        self._held = text[cut:]
        return _TOKEN.sub(self._replace, text[:cut])

    def _replace(self, found: re.Match[str]) -> str:
        mark = found[0]
        if mark == "```":
            self._fenced, self._inline = not self._fenced, False
        elif mark == "`":
            self._inline = not self._inline and not self._fenced
        elif mark == "\n":
            self._inline = False
        elif not self._fenced and not self._inline:
            ranges = [(int(first), int(last or first)) for first, last in _RANGE.findall(found[1])]
            numbers = [number for first, last in ranges for number in range(max(1, first), min(last, self._count) + 1)]
            self.cited += [number for number in dict.fromkeys(numbers) if number not in self.cited]
            space = mark[: mark.index("[")] if numbers else ""
            return space + "".join(f"[{number}]" for number in numbers) if ranges else mark  # a box to tick, say
        return mark


class Finished(NamedTuple):
    """The end of a completion, with why it ended: stop, or length where it was cut off."""

    reason: str


def complete(endpoint: Endpoint, chat: Sequence[dict[str, str]]) -> Generator[str | Finished | None, None, None]:
    """Yield the text that the model writes, None after BEAT_SECONDS of silence, and Finished at the end.

    Closing the iterator ends the call at once. Raises EndpointFailed or EndpointSlow.
    """
    pieces: SimpleQueue[str | Finished | Exception] = SimpleQueue()
    loop = asyncio.new_event_loop()  # where the call can be ended at any moment
    task = loop.create_task(_call(endpoint, chat, pieces.put))

    def run() -> None:
        with suppress(asyncio.CancelledError):  # nobody waits for the answer any more
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
    """Make the call; hand over its error, if it has one."""
    try:
        async with asyncio.timeout(endpoint.timeout):
            await _stream(endpoint, chat, put)
    except (TimeoutError, httpx.TimeoutException):
        put(EndpointSlow(f"the answer endpoint did not finish within {endpoint.timeout:g} seconds"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        log.warning("the answer endpoint failed: %r", error)
        put(EndpointFailed("the answer endpoint cannot be reached, or broke off"))
    except Exception as error:  # noqa: BLE001 - it is raised again by whoever reads the pieces
        put(error)


async def _stream(endpoint: Endpoint, chat: Sequence[dict[str, str]], put: Callable[[str | Finished], None]) -> None:
    headers = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    proxy = proxy_for(endpoint.url, endpoint.http_proxy)
    body = {"model": endpoint.model, "messages": list(chat), "stream": True}
    async with (
        httpx.AsyncClient(timeout=endpoint.timeout, verify=tls_context(), trust_env=False, proxy=proxy) as client,
        client.stream("POST", endpoint.url, json=body, headers=headers) as response,
    ):
        if response.status_code != 200:
            start = b""
            async for part in response.aiter_raw():
                start += part
                if len(start) > 300:
                    break
            said = start[:300].decode("utf-8", "replace").replace(endpoint.key or "\0", "…")  # some repeat it
            log.warning("the answer endpoint returned status %d: %r", response.status_code, said)
            raise EndpointFailed(f"the answer endpoint returned status {response.status_code}")
        if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
            raise EndpointFailed("the answer endpoint did not stream events")
        if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
            raise EndpointFailed("the answer endpoint compresses events, which nobody asked for")
        events, utf8, size, reason = EventData(), getincrementaldecoder("utf-8")("replace"), 0, ""
        async for part in response.aiter_raw():
            size += len(part)
            if size > MOST_BYTES:
                raise EndpointFailed("the answer endpoint sends without end")
            for data in events.feed(utf8.decode(part)):
                if data == "[DONE]":
                    put(Finished(reason or "stop"))
                    return
                piece, reason = _read(data, reason)
                if piece:
                    put(piece)
        if not reason:
            raise EndpointFailed("the answer endpoint broke off in the middle")
        put(Finished(reason))


class EventData:
    """Reads the data of events, of which each has one line, from text that comes in any pieces."""

    def __init__(self) -> None:
        self._rest: list[str] = []  # of a line without its end

    def feed(self, text: str) -> Iterator[str]:
        """Take the next piece; yield the data of the lines that are whole now."""
        head, has_end, rest = text.rpartition("\n")
        if has_end:
            lines = "".join([*self._rest, head]).split("\n")
            yield from (line.removeprefix("data:").strip() for line in lines if line.startswith("data:"))
            self._rest.clear()
        self._rest.append(rest)


def _read(data: str, reason: str) -> tuple[str, str]:
    """Return the text of one event, and why the completion ended, if it has."""
    try:
        chunk: Any = json.loads(data)
        if chunk.get("error"):
            log.warning("the answer endpoint failed: %.300r", chunk["error"])
            raise EndpointFailed("the answer endpoint failed in the middle")
        choices = chunk["choices"]
        if not choices:  # figures of usage come without any
            return "", reason
        piece = choices[0].get("delta", {}).get("content") or ""
        reason = choices[0].get("finish_reason") or reason
        if not isinstance(piece, str) or not isinstance(reason, str):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        log.warning("the answer endpoint sent %.300r", data)
        raise EndpointFailed("the answer endpoint sent something that is not a completion") from error
    return piece, reason
