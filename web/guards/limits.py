"""Limits: requests per second of a caller, bytes of a body, and seconds until a response."""

import math
import threading
from collections.abc import Callable

from flask import Flask, current_app, g
from werkzeug.exceptions import RequestEntityTooLarge, ServiceUnavailable, TooManyRequests

from rag import deadline
from rag.query.model_queue import caller_name
from rag.settings import Settings
from web.dispatch import BUSY
from web.guards.access import caller
from web.guards.token_buckets import TokenBuckets, network_of, shared_file
from web.openapi import operation_for
from web.problems import this_request

MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_SEARCH_BYTES = 64 * 1024
MAX_CONVERSATION_BYTES = 512 * 1024
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
MAX_LARGE_BYTES = 32 * 1024 * 1024


def register(app: Flask, settings: Settings) -> None:
    """Limit the rate of each caller, and set the deadline of each request. Call it after `access.register`."""
    lock = threading.Lock()
    large_bytes = 0
    rate = settings.rate_limit
    buckets = TokenBuckets(rate, shared_file("rate-limits")) if rate else None

    def begin() -> None:
        http_request = this_request()
        if http_request.url_rule is None or operation_for(http_request.url_rule).role is None:
            return
        deadline.begin(settings.deadline)
        deadline.check()
        client = caller()
        # All readers of a page share the key that it contains, so count each address separately.
        is_known = client.name and not client.is_shown
        name = f"key {client.name}" if is_known else f"address {network_of(http_request.remote_addr)}"
        caller_name.set(name)
        if buckets is None:
            return
        seconds = buckets.take(name)
        if seconds > 0:
            raise TooManyRequests(f"At most {rate:g} requests a second are allowed.", retry_after=math.ceil(seconds))

    def leave(error: BaseException | None) -> None:
        nonlocal large_bytes
        deadline.lift()
        with lock:
            large_bytes -= g.pop("large_bytes", 0)

    def hold(size: int) -> None:
        nonlocal large_bytes
        with lock:
            if large_bytes + size <= MAX_LARGE_BYTES:
                large_bytes += size
                g.large_bytes = size
                return
        current_app.extensions["metrics"].refuse("queue")
        raise ServiceUnavailable(BUSY)

    app.extensions["hold"] = hold
    app.before_request(begin)
    app.teardown_request(leave)


def read_body(max_bytes: int) -> bytes:
    """Read the body. Raises RequestEntityTooLarge, ServiceUnavailable, or OSError for an incomplete one."""
    http_request = this_request()
    size = max_bytes if http_request.content_length is None else http_request.content_length
    if size > max_bytes:
        raise RequestEntityTooLarge
    if size > MAX_SEARCH_BYTES:  # small bodies, such as searches, are never refused
        current_app.extensions["hold"](size)
    http_request.max_content_length = max_bytes + 1
    # Werkzeug silently cuts a chunked body, which has no length, at its limit, so its limit is one byte above ours.
    body = http_request.stream.read(max_bytes + 1)
    if len(body) > max_bytes:
        raise RequestEntityTooLarge
    return body


def take_slot(kind: str, slots_count: int, full: Exception) -> Callable[[], None]:
    """Take a slot for a request of a kind, and return the function that frees it. Raises `full` if none is free."""
    slots = current_app.extensions.setdefault(f"{kind}_slots", threading.BoundedSemaphore(slots_count))
    if not slots.acquire(blocking=False):
        raise full
    return slots.release  # type: ignore[no-any-return]  # extensions have no types
