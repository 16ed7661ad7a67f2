"""One request and its answer, made in a thread that waits neither for the client to send nor for it to read."""

import io
import logging
from collections.abc import Callable, Iterable, Iterator
from contextvars import Context
from typing import Any

from gunicorn.http import RequestParser
from gunicorn.http import errors as http_errors
from gunicorn.http.wsgi import create

from web.guards.limits import arrival
from web.server.refusals import FRAMING_PROBLEMS, MALFORMED, refusal
from web.server.send_buffer import SendBuffer

AHEAD_BYTES = 256 * 1024  # of an answer that streams, made before its client has read what is there

_NO_HTTP = (http_errors.ParseException, http_errors.NoMoreData, StopIteration)

log = logging.getLogger("gunicorn.error")


class Exchange:
    """Has the application answer a complete request, into a `SendBuffer`.

    An answer that streams stops when its client has much to read, and once with its first part where that is due later:
    `run` again then, in any thread.
    """

    def __init__(self, request: bytes, arrived: float, to_send: SendBuffer, *, has_body: bool) -> None:
        """Take the bytes of a request; of one that is refused in any case, the head alone, without `has_body`."""
        self.to_send = to_send
        self.ended = False  # the answer is made, or given up
        self.keeps = False  # the connection, for another request
        self.status = 0
        self.due = 0.0  # when the answer is to be sent, by `time.monotonic`; 0 for at once
        self._request = request
        self._has_body = has_body
        self._has_begun = False  # to stream
        self._arrived = arrived
        self._context = Context()  # of this request alone, whichever threads it goes through
        self._response: Any = None
        self._iterable: Iterable[bytes] = ()
        self._items: Iterator[bytes] = iter(())

    def begin(
        self, app: Callable[..., Iterable[bytes]], cfg: Any, peer: tuple[Any, ...], here: tuple[Any, ...], *, last: bool
    ) -> None:
        """Ask the application, and go on as `run` does. With `last`, the connection is closed afterwards."""
        self._context.run(self._guarded, lambda: self._begin(app, cfg, peer, here, last))

    def run(self) -> None:
        """Go on until the answer is made, or its client has to read first."""
        self._context.run(self._guarded, self._write)

    def give_up(self) -> None:
        """Let go of an answer whose client is gone."""
        self._context.run(self._guarded, self._end)

    def _begin(self, app: Callable[..., Iterable[bytes]], cfg: Any, peer: Any, here: Any, last: bool) -> None:
        arrival.set(self._arrived)
        request = next(RequestParser(cfg, iter([self._request]), peer))  # which ends where these bytes do
        self._request = b""
        self._response, environ = create(request, self.to_send, peer, here, cfg)
        environ["wsgi.multithread"] = True
        # now, so that a body that is none is refused before the application has begun
        environ["wsgi.input"] = io.BytesIO(request.body.read() if self._has_body else b"")
        if last:
            self._response.force_close()
        self._iterable = app(environ, self._response.start_response)
        self._items = iter(self._iterable)
        self._write()

    def _write(self) -> None:
        streams = self._response.response_length is None
        self.due = 0.0
        for item in self._items:
            self._response.write(item)
            if streams:
                self._has_begun = True
                self.to_send.flush()
                if self.to_send.waiting > AHEAD_BYTES:
                    return
        self._response.close()
        self.status = self._response.status_code
        self.keeps = not self._response.should_close()
        self._end()
        self.to_send.flush()

    def _end(self) -> None:
        self.ended = True
        if close := getattr(self._iterable, "close", None):
            close()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except http_errors.NoMoreData as error:
            self._fail(error)
        except OSError as error:
            log.debug("a client disconnected before its answer: %s", error)
            self._break_off()
        except Exception as error:  # noqa: BLE001 - it becomes the answer
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        has_begun = self._response is not None and self._response.headers_sent
        if not isinstance(error, _NO_HTTP):
            log.error("Error handling request", exc_info=error)
            said = refusal(500, "The server failed to handle this request.", closes=True)
        else:
            status, detail = FRAMING_PROBLEMS.get(type(error), (400, MALFORMED))
            said = refusal(status, detail, closes=True)
        self._break_off()
        if not has_begun:  # one that has is cut short, which its client notices
            self.to_send.sendall(said)

    def _break_off(self) -> None:
        self.keeps = False
        self.to_send.drop()
        if not self.ended:
            try:
                self._end()
            except Exception:
                log.exception("an answer could not be closed")
