"""A small real web server for tests: routes in a dict, every request logged."""

import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme


@dataclass
class Reply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html; charset=utf-8"})


Route = Reply | str | Callable[[BaseHTTPRequestHandler], None]


class Site:
    """Serves `routes` on one address, and `missing` elsewhere. `hits` holds the paths asked for, in order."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Route] = {}
        self.hits: list[str] = []
        self.agents: set[str] = set()
        self.missing: Callable[[str], Route] = lambda path: Reply(b"nothing here", 404)
        self.stopping = threading.Event()  # for routes that keep a client waiting
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.hits.append(self.path)
                site.came(self)
                site.agents.add(self.headers.get("User-Agent", ""))
                route = site.routes.get(self.path) or site.missing(self.path)
                if isinstance(route, str):
                    route = Reply(route.encode())
                if isinstance(route, Reply):
                    send(self, route)
                else:
                    route(self)

            do_POST = do_HEAD = do_GET  # routes that take forms look at `command`

            def log_message(self, *args: object) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

            def handle_error(self, request: object, client_address: object) -> None:
                return  # clients hang up on purpose here

        self._server = Server((address, port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://{f'[{address}]' if ':' in address else address}:{self.port}"
        if tls is not None:
            self.url = f"https://localhost:{self.port}"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def came(self, handler: BaseHTTPRequestHandler) -> None:
        """Told of every request, before it is answered."""

    def pages(self, **bodies: str) -> None:
        """Add HTML pages; `index` is the start page, `a_b` becomes /a/b."""
        for name, body in bodies.items():
            self.routes["/" if name == "index" else "/" + name.replace("_", "/")] = page(body)

    def close(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def page(body: str, title: str = "Test") -> str:
    return f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"


def redirect(target: str, status: int = 302, body: bytes = b"") -> Reply:
    return Reply(body, status, {"Location": target})


def send(handler: BaseHTTPRequestHandler, reply: Reply) -> None:
    handler.send_response(reply.status)
    for name, value in reply.headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(reply.body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(reply.body)


def trusted_tls(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> ssl.SSLContext:
    """Return the server's side of TLS under some names, which this process trusts from now on."""
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(folder / "authority.pem")
    authority.issue_cert(*names).configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))
    return context
