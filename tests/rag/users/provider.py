"""A provider of OpenID Connect on loopback, whose keys can be changed and which can go away."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

AUDIENCE = "search"


@cache
def rsa_key(kid: str) -> rsa.RSAPrivateKey:
    """A key by its name: making one takes half a second."""
    return rsa.generate_private_key(65537, 2048)


class Provider:
    """Signs tokens, and serves its discovery document and its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKeyTypes] = {}
        self.algorithms: dict[str, str] = {}
        self.asked: list[str] = []
        self.status = 200
        self.document: dict[str, Any] = {}  # in place of fields of the discovery document
        self.more_keys: list[dict[str, Any]] = []
        self.held = threading.Event()  # answers wait until it is set
        self.held.set()
        self.add("one", "RS256")
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                provider.held.wait(20)
                body = provider.answer(self.path)
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_address[1]}/realm"

    def add(self, kid: str, algorithm: str) -> None:
        make: Any = {
            "RS": lambda: rsa_key(kid),
            "PS": lambda: rsa_key(kid),
            "ES": lambda: ec.generate_private_key(ec.SECP256R1()),
            "Ed": ed25519.Ed25519PrivateKey.generate,
        }
        self.keys[kid], self.algorithms[kid] = make[algorithm[:2]](), algorithm

    def public(self, kid: str) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(self.algorithms[kid])
        return {**algorithm.to_jwk(self.keys[kid].public_key(), as_dict=True), "kid": kid, "use": "sig"}  # type: ignore[attr-defined,union-attr,call-overload]

    def answer(self, path: str) -> bytes:
        if path == "/realm/.well-known/openid-configuration":
            found: Any = {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"} | self.document
        else:
            found = {"keys": [*map(self.public, self.keys), *self.more_keys]}
        return json.dumps(found).encode()

    def claims(self, **changes: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ann", "groups": ["red"], "iat": now, "exp": now + 300}
        return {name: value for name, value in (usual | changes).items() if value is not None}

    def token(self, kid: str = "one", *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        headers = {"kid": kid} if headers is None else headers
        return jwt.encode(self.claims(**changes), self.keys[kid], self.algorithms[kid], headers=headers)  # type: ignore[arg-type]


@contextmanager
def running() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        provider.held.set()
        provider.server.shutdown()
        provider.server.server_close()
        thread.join()
