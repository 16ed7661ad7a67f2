"""What the tests of builds on top of earlier ones share: pages with versions, and an index with its history."""

import io
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np

from indexer.config import BuildConfig, CrawlLimits
from indexer.generation.manifest import current_id
from indexer.generation.vectors import VectorReader
from indexer.network.credentials import Credential
from indexer.pipeline.build import build, remove_sources
from indexer.pipeline.progress import BuildReport, Progress
from tests.dummy import DummyEmbedder
from tests.indexer.server import Reply, Site, page, send

OLD = formatdate(1_700_000_000, usegmt=True)


@dataclass
class Versioned:
    """A route that knows its version: answers 304 where the client has it already."""

    body: str
    etag: str | None = None
    modified: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    sent: int = 0  # bodies
    asked: list[dict[str, str]] = field(default_factory=list)  # headers of the requests

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(dict(handler.headers))
        headers = {"Content-Type": "text/html", **self.headers}
        headers |= {"ETag": self.etag} if self.etag else {}
        headers |= {"Last-Modified": self.modified} if self.modified else {}
        has = (handler.headers.get("If-None-Match"), handler.headers.get("If-Modified-Since"))
        if (self.etag and has[0] == self.etag) or (self.modified and has[1] == self.modified):
            send(handler, Reply(b"", 304, headers))
            return
        self.sent += 1
        send(handler, Reply(self.body.encode(), 200, headers))


class Work:
    """An index in the making, with what its builds say and embed."""

    def __init__(self, index: Path) -> None:
        self.index = index
        self.embedder = DummyEmbedder()
        self.said = ""
        self.embedded = 0  # by the last build

    def build(
        self,
        *sources: object,
        full: bool = False,
        limits: CrawlLimits | None = None,
        credentials: Sequence[Credential] = (),
        allow_shrink: bool = False,
        **options: int,
    ) -> BuildReport:
        limits = limits or CrawlLimits(allow_private=True, timeout=300.0)
        config = BuildConfig(crawl=limits, full=full, credentials=credentials, allow_shrink=allow_shrink, **options)
        stream, before = io.StringIO(), self.embedder.encoded
        names = [str(source) for source in sources]
        report = build(names, self.index, self.embedder, config, progress=Progress(stream))
        self.said, self.embedded = stream.getvalue(), self.embedder.encoded - before
        assert report.embedded == self.embedded
        assert report.generation == current_id(self.index)
        return report

    def remove(self, *sources: object) -> BuildReport:
        progress = Progress(io.StringIO(), quiet=True)
        return remove_sources([str(source) for source in sources], self.index, keep_generations=2, progress=progress)

    def content(self) -> dict[str, Any]:
        """Everything in the live generation by address, but for row numbers and times of fetching."""
        folder = self.index / "generations" / current_id(self.index)
        reader = VectorReader(folder / "vectors.faiss")
        vectors = reader.vectors(np.arange(reader.count))
        database = sqlite3.connect(f"file:{folder}/documents.sqlite?immutable=1", uri=True)
        database.row_factory = sqlite3.Row
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        content: dict[str, Any] = {}
        for document in database.execute("SELECT * FROM documents ORDER BY id").fetchall():
            number, first, count = document["id"], document["first_row"], document["chunks"]
            chunks = database.execute("SELECT * FROM chunks WHERE document = ? ORDER BY row", (number,)).fetchall()
            assert [chunk["row"] for chunk in chunks] == list(range(first, first + count))
            terms = database.execute("SELECT term FROM terms WHERE document = ? ORDER BY term", (number,)).fetchall()
            fields = dict(document)
            for name in ("id", "first_row", "fetched_at"):
                del fields[name]
            content[document["url"]] = (
                fields,
                [tuple(chunk)[3:] for chunk in chunks],
                vectors[first : first + count].tolist(),
                [term for (term,) in terms],
            )
        content["pages"] = sorted(map(tuple, database.execute("SELECT * FROM pages").fetchall()))
        database.close()
        return content

    def paths(self, site: Site) -> list[str]:
        return sorted(url.removeprefix(site.url) for url in self.content() if url != "pages")


def link(*targets: str) -> str:
    """Links that are followed, and are no part of the text."""
    return "<nav>" + " ".join(f'<a href="{target}">{target}</a>' for target in targets) + "</nav>"


def routes(site: Site, **pages: Versioned) -> dict[str, Versioned]:
    site.routes |= {"/" if name == "index" else f"/{name}": route for name, route in pages.items()}
    return pages


def zoo(site: Site, validator: str) -> dict[str, Versioned]:
    """A start page, two pages with text, and a list of links that alone leads to a third."""

    def route(name: str, body: str) -> Versioned:
        return Versioned(
            page(body, title=name), f'"{name}1"' if validator == "etag" else None, OLD if validator == "date" else None
        )

    contents = link("deep", *(f"/#{number}" for number in range(3))) + "".join(
        f"<a href=/entry{number}>entry number {number} of a list</a> " for number in range(400)
    )
    site.routes["/robots.txt"] = "User-agent: *\nDisallow: /entry\n"
    return routes(
        site,
        index=route("Zoo", f"<p>Welcome to the zoo.</p>{link('cats', 'dogs', 'list')}"),
        cats=route(
            "Cats",
            "<h1>Cats</h1><p>" + "Cats sleep most of the day. " * 8 + "</p><h2>Food</h2><p>" + "They eat fish. " * 8,
        ),
        dogs=route("Dogs", "<h1>Dogs</h1><p>Dogs bark.</p>"),
        list=route("List", contents),
        deep=route("Deep", "<p>Only the list leads here.</p>"),
    )
