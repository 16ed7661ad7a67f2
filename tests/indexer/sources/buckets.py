"""Object stores for tests: small servers that answer as the REST references of S3, Google and Azure say."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from tests.indexer.server import Reply, Route, Site, send

DATE, HTTP_DATE = "2024-01-02T03:04:05.000Z", "Tue, 02 Jan 2024 03:04:05 GMT"
SECRET = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5"  # base64, as a key of Azure has to be


@dataclass
class Object:
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        return hashlib.md5(self.body, usedforsecurity=False).hexdigest()


class Store(Site):
    """One bucket, named `docs`, whose listings come in pages of so many objects."""

    def __init__(self, scheme: str, page: int = 1_000) -> None:
        super().__init__()
        self.scheme = scheme
        self.page = page
        self.objects: dict[str, Object] = {}
        self.broken: dict[str, int] = {}  # names of objects, or "list N" with the place of a page: status instead
        self.authorised: list[str] = []  # values of Authorization that came
        store = self

        class Backend(dict[str, Route]):
            def get(self, key: str, default: object = None) -> Route:  # type: ignore[override]
                return store._answer

        self.routes = Backend()

    def put(self, name: str, text: str | bytes, **headers: str) -> None:
        body = text.encode() if isinstance(text, str) else text
        self.objects[name] = Object(body, {key.replace("_", "-"): value for key, value in headers.items()})

    @property
    def source(self) -> str:
        return f"{self.scheme}://docs"

    @property
    def read(self) -> list[str]:
        """Names of the objects that were asked for since this was looked at, in order."""
        asked = [unquote(urlsplit(hit).path.removeprefix("/docs/")) for hit in self.hits if "list" not in hit]
        self.hits.clear()
        return sorted(asked)

    @property
    def listings(self) -> int:
        return sum("list" in hit for hit in self.hits)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.authorised.append(handler.headers.get("Authorization", ""))
        parts = urlsplit(handler.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        name = unquote(parts.path).removeprefix("/docs").removeprefix("/")
        if not unquote(parts.path).startswith("/docs"):
            self._refuse(handler, 404, "ContainerNotFound" if self.scheme == "az" else "NoSuchBucket")
        elif asked.get("list-type") == "2" or asked.get("comp") == "list":
            self._list(handler, asked)
        elif name in self.broken:
            self._refuse(handler, self.broken[name], "Broken")
        elif name not in self.objects:
            self._refuse(handler, 404, "NoSuchKey")
        else:
            found = self.objects[name]
            headers = {"ETag": f'"{found.etag}"', "Last-Modified": HTTP_DATE, **found.headers}
            send(handler, Reply(found.body, 200, headers))

    def _refuse(self, handler: BaseHTTPRequestHandler, status: int, code: str) -> None:
        send(handler, Reply(f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode(), status))

    def _list(self, handler: BaseHTTPRequestHandler, asked: dict[str, str]) -> None:
        start = int(asked.get("continuation-token") or asked.get("marker") or 0)
        if f"list {start}" in self.broken:
            self._refuse(handler, self.broken[f"list {start}"], "AccessDenied")
            return
        prefix, end = asked.get("prefix", ""), start + self.page
        delimiter = asked.get("delimiter") or "\0"
        names = sorted(
            name for name in self.objects if name.startswith(prefix) and delimiter not in name[len(prefix) :]
        )
        token = str(end) if end < len(names) else ""
        write = _azure if self.scheme == "az" else _s3
        body = write({name: self.objects[name] for name in names[start:end]}, token)
        send(handler, Reply(body.encode(), 200, {"Content-Type": "application/xml"}))


def _s3(entries: dict[str, Object], token: str) -> str:
    listed = "".join(
        f"<Contents><Key>{escape(name)}</Key><LastModified>{DATE}</LastModified><ETag>&quot;{one.etag}&quot;</ETag>"
        f"<Size>{len(one.body)}</Size></Contents>"
        for name, one in entries.items()
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return f"<ListBucketResult><IsTruncated>{str(bool(token)).lower()}</IsTruncated>{more}{listed}</ListBucketResult>"


def _azure(entries: dict[str, Object], token: str) -> str:
    listed = "".join(
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{HTTP_DATE}</Last-Modified>"
        f"<Etag>{one.etag}</Etag><Content-Length>{len(one.body)}</Content-Length>"
        "<Content-Type>text/plain</Content-Type></Properties></Blob>"
        for name, one in entries.items()
    )
    more = f"<NextMarker>{token}</NextMarker>" if token else "<NextMarker/>"
    return f"<EnumerationResults><Blobs>{listed}</Blobs>{more}</EnumerationResults>"


def opened(scheme: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Serve a store that the environment says how to reach."""
    store = Store(scheme)
    variables = {
        "s3": {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": store.url},
        "gs": {"GOOGLE_BASE_URL": store.url, "GOOGLE_BEARER_TOKEN": SECRET},
        "az": {
            "AZURE_STORAGE_ACCOUNT_NAME": "account",
            "AZURE_STORAGE_ACCOUNT_KEY": SECRET,
            "AZURE_STORAGE_ENDPOINT": store.url,
        },
    }
    for name, value in variables[scheme].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("indexer.sources.bucket._RETRY", {"max_retries": 0})
    yield store
    store.close()
