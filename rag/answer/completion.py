"""Text that an endpoint writes, as it is written: the client's side of OpenAI's chat completions, streamed."""

import asyncio
import json
import logging
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import httpx

from rag.answer.prompt import Endpoint
from rag.errors import EndpointFailed, EndpointSlow
from rag.events import MEDIA_TYPE, EventDecoder

BEAT_SECONDS = 1.0  # of silence, after which a caller hears that nothing has come
MOST_BYTES = 4_000_000  # of one answer, as it comes over the wire, where a word takes some hundreds

log = logging.getLogger("pilotlight")


class Finished(NamedTuple):
    """The end of a completion, with why it ended: stop, or length where it was cut off."""

    reason: str


def complete(endpoint: Endpoint, messages: Sequence[dict[str, str]]) -> Generator[str | Finished | None, None, None]:
    """Yield the text that the model writes to a chat, piece by piece, and Finished at the end.

    None comes whenever nothing else has for BEAT_SECONDS. Closing the iterator ends the call at once.

    Raises:
        EndpointFailed: it cannot be reached, refuses, breaks off, or does not speak the protocol.
        EndpointSlow: the endpoint's timeout has passed.
    """
    pieces: SimpleQueue[str | Finished | Exception] = SimpleQueue()
    loop = asyncio.new_event_loop()  # where the call can be ended at any moment
    task = loop.create_task(_call(endpoint, messages, pieces.put))

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
    endpoint: Endpoint, messages: Sequence[dict[str, str]], put: Callable[[str | Finished | Exception], None]
) -> None:
    """Make the call; hand over its error, if it has one."""
    try:
        async with asyncio.timeout(endpoint.timeout):
            await _stream(endpoint, messages, put)
    except (TimeoutError, httpx.TimeoutException):
        put(EndpointSlow(f"the answer endpoint did not finish within {endpoint.timeout:g} seconds"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        log.warning("the answer endpoint failed: %r", error)
        put(EndpointFailed("the answer endpoint cannot be reached, or broke off"))
    except Exception as error:  # noqa: BLE001 - it is raised again by whoever reads the pieces
        put(error)


async def _stream(
    endpoint: Endpoint, messages: Sequence[dict[str, str]], put: Callable[[str | Finished], None]
) -> None:
    headers = {"Accept": MEDIA_TYPE, "Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    body = {"model": endpoint.model, "messages": list(messages), "stream": True}
    async with (
        httpx.AsyncClient(timeout=endpoint.timeout) as client,
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
        decoder, utf8, size, reason = EventDecoder(), getincrementaldecoder("utf-8")("replace"), 0, ""
        async for part in response.aiter_raw():
            size += len(part)
            if size > MOST_BYTES:
                raise EndpointFailed("the answer endpoint sends without end")
            text = utf8.decode(part)
            for event in decoder.feed(text):
                if event.data == "[DONE]":
                    put(Finished(reason or "stop"))
                    return
                piece, reason = _read(event.data, reason)
                if piece:
                    put(piece)
        if not reason:
            raise EndpointFailed("the answer endpoint broke off in the middle")
        put(Finished(reason))


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
