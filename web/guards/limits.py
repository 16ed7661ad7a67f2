"""Limits: requests in progress in a worker, requests a second of a caller, bytes of a body, and seconds of waiting."""

import math
import threading
from collections.abc import Callable

from flask import Blueprint, Flask, Response, current_app, g, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import RequestEntityTooLarge, ServiceUnavailable, TooManyRequests

from rag import deadline
from rag.errors import DeadlinePassed
from rag.settings import Settings
from web.guards.access import PUBLIC, network_of, role_of
from web.guards.scoped_retriever import caller
from web.guards.token_buckets import TokenBuckets
from web.observe.worker_folder import shared_file

BUCKETS = "rate-limits"
MAX_BODY_BYTES = 2 * 1024 * 1024
MAX_SEARCH_BYTES = 64 * 1024  # of the body of one search
MAX_CONVERSATION_BYTES = 512 * 1024  # of a question, with what was asked and answered before
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024  # of a request that pushes a document, of which base64 takes a quarter
BUSY = "The server is overloaded: try again."
UNCOUNTED = PUBLIC | {"health.livez", "health.readyz", "metrics.show"}  # endpoints


def register_queue(app: Flask, most: int) -> None:
    """Refuse requests while `most` are in progress in this worker. Comes after access: strangers take no place."""
    lock = threading.Lock()
    in_progress = 0

    def enter() -> None:
        nonlocal in_progress
        if request.endpoint in UNCOUNTED:
            return
        with lock:
            if in_progress < most:
                in_progress += 1
                g.is_counted = True
                return
        current_app.extensions["metrics"].refuse("queue")
        raise ServiceUnavailable(BUSY)

    def leave(error: BaseException | None) -> None:
        nonlocal in_progress
        if g.pop("is_counted", False):
            with lock:
                in_progress -= 1

    app.before_request(enter)
    app.teardown_request(leave)


def register(app: Flask, settings: Settings) -> None:
    """Count every request of a role, and give it its deadline. Comes after access: it asks who calls."""
    buckets = _buckets(settings.rate_limit)

    def begin() -> None:
        rule = request.url_rule
        if rule is None or role_of(rule) is None:
            return
        deadline.begin(settings.deadline)
        deadline.check()
        who = _who()
        if buckets is None:
            return
        seconds = buckets.take(who)
        if seconds > 0:
            raise TooManyRequests(
                f"At most {settings.rate_limit:g} requests a second are allowed.", retry_after=math.ceil(seconds)
            )

    def end(response: Response) -> Response:
        if response.status_code == 200 and not response.is_streamed and deadline.remaining() == 0:
            return current_app.make_response(current_app.handle_user_exception(DeadlinePassed()))
        return response

    app.before_request(begin)
    app.after_request(end)
    app.teardown_request(lambda error: deadline.lift())  # or whatever the thread does next would have it


def read_body(most: int) -> bytes:
    """Read the body of the request. Raises RequestEntityTooLarge, or what the server raises for one cut short."""
    if (request.content_length or 0) > most:
        raise RequestEntityTooLarge
    request.max_content_length = most + 1
    # a chunked body has no length, and is silently cut at the application's limit, which is above any of ours
    body = request.stream.read(most + 1)
    if len(body) > most:
        raise RequestEntityTooLarge
    return body


def _who() -> str:
    """A name for the bucket: of the key, or the address, also where one key serves all readers of a site."""
    name = "" if caller().is_shown else caller().name
    return f"key {name}" if name else f"address {network_of(request.remote_addr)}"


def _buckets(rate: float) -> TokenBuckets | None:
    return TokenBuckets(rate, shared_file(BUCKETS)) if rate else None


class ConcurrencyLimit:
    """A limit on how many requests of a blueprint are answered at a time, in each application."""

    def __init__(self, blueprint: Blueprint, most: int, name: str = "") -> None:
        """Count for the routes of a blueprint, or some of them under a name of their own, once it is registered."""
        self._name = f"{name or blueprint.name}_slots"
        blueprint.record(lambda state: self._make(state, most))

    def take(self, full: Exception) -> Callable[[], None]:
        """Take a place; return the function that gives it back. Raises `full` if none is free."""
        slots: threading.BoundedSemaphore = current_app.extensions[self._name]
        if not slots.acquire(blocking=False):
            raise full
        return slots.release

    def _make(self, state: BlueprintSetupState, most: int) -> None:
        state.app.extensions[self._name] = threading.BoundedSemaphore(most)
