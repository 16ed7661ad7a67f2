"""Serve the API of OpenAI's chat completions with answers that a test sets."""

import json
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = str | bytes | threading.Event  # a delta of text, raw bytes of the stream, or an event to wait for
DONE = b"data: [DONE]\n\n"


def chunk(**fields: Any) -> bytes:
    return f"data: {json.dumps({'object': 'chat.completion.chunk', **fields})}\n\n".encode()


def piece(text: str, reason: str | None = None) -> bytes:
    return chunk(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": reason}])


class FakeEndpoint:
    """The state of the server. It streams `steps` as its response, and appends to `requests` and `headers`."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.steps: list[Step] = []
        self.status = 200
        self.content_type = "text/event-stream; charset=utf-8"
        self.encoding = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = threading.Event()
        self.left = threading.Event()  # set if the client disconnects while the server waits

    def answers(self, *texts: str) -> None:
        self.steps = [chunk(choices=[{"delta": {"role": "assistant", "content": None}}]), *texts]
        self.steps += [piece("", "stop"), chunk(choices=[], usage={"total_tokens": 3}), DONE]


@contextmanager
def fake_endpoint() -> Iterator[FakeEndpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            endpoint.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            endpoint.headers.append({"path": self.path, **dict(self.headers.items())})
            endpoint.asked.set()
            self.send_response(endpoint.status)
            self.send_header("Content-Type", endpoint.content_type)
            if endpoint.encoding:
                self.send_header("Content-Encoding", endpoint.encoding)
            self.end_headers()
            for step in endpoint.steps:
                if isinstance(step, threading.Event):
                    if not self._wait(step):
                        endpoint.left.set()
                        return
                else:
                    self.wfile.write(piece(step) if isinstance(step, str) else step)
                    self.wfile.flush()

        def _wait(self, event: threading.Event) -> bool:
            """Wait for an event. Return False if the client disconnects before."""
            with suppress(ConnectionError):  # the client disconnected with unread data
                poll = select.poll()  # `select` fails if file descriptors exceed 1023
                poll.register(self.connection, select.POLLIN)
                while not event.is_set():
                    if poll.poll(20) and not self.connection.recv(1):
                        return False
                return True
            return False

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint = FakeEndpoint(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
