"""The memory of builds: each kind of source at one size and at ten times that, in processes of their own.

Run as a program it is one build: `benchmark.memory OPTIONS`, a JSON object, prints JSON.
"""

import gc
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from benchmark import repository
from benchmark.crawling import served
from benchmark.machine import memory_of_all
from benchmark.rendering import write_pages
from benchmark.report import OURS, Row

_PAUSE = 0.2  # seconds between two looks at the memory of all processes
_LISTED = 1_000  # objects in an answer
_LINKS = 8
_DATE = "2024-01-02T03:04:05.000Z"
_LINES = 50  # of a page of a PDF
_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
_TOKEN = "PILOTLIGHT_BENCH_TOKEN"  # noqa: S105 - the name of a variable

Options = dict[str, Any]  # sources, index, and what is further to be known of one build


def memory(source: Path, chunks: int, repeat: int, work: Path) -> list[Row]:
    """Build an index of each kind of source, of `chunks` files and of ten times as many. The others are not used.

    Of what takes longer there is less: a thirtieth as many pages that scripts draw and pages of PDFs, and a hundredth
    as many scans. A bucket that is only listed has a hundred times as many objects.
    """
    rows: list[Row] = []
    for name, (make, share) in _SOURCES.items():
        for count in (max(1, round(chunks * share)), max(10, round(10 * chunks * share))):
            folder = work / f"{name.replace(' ', '-')}-{count}"
            folder.mkdir(parents=True)
            with make(folder, count) as options:
                found = _run({**options, "index": str(folder / "index")})
            row = {
                "name": f"{name}, {count:,}",
                "contestant": OURS,
                "rss_mb": found["own_mb"],
                "pss_mb": found["all_mb"],
            }
            rows.append(row | {"note": f"{found['documents']:,} documents, {found['passages']:,} passages"})
            print(rows[-1], file=sys.stderr, flush=True)  # it takes a while
    return rows


def _text(number: int) -> str:
    words = " ".join(f"word{number * 7 + place * place}" for place in range(40))
    return f"Entry {number} tells of lamps and of their wicks, which draw the oil upwards: {words}."


@contextmanager
def _folder(work: Path, count: int) -> Iterator[Options]:
    for number in range(count):
        path = work / "files" / str(number % 100) / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Entry {number}\n\n{_text(number)}\n", encoding="utf-8")
    yield {"sources": [str(work / "files")]}


@contextmanager
def _site(work: Path, count: int) -> Iterator[Options]:
    """Pages that each lead to eight others, asked with a token."""
    (work / "site").mkdir()
    for number in range(count):
        links = range(_LINKS * number + 1, min(_LINKS * number + _LINKS + 1, count))
        links_html = " ".join(f'<a href="{other}.html">{other}</a>' for other in links)
        page = f"<!doctype html><title>Entry {number}</title><main><h1>Entry {number}</h1><p>{_text(number)}</p>"
        (work / "site" / f"{number}.html").write_text(f"{page}{links_html}</main>", encoding="utf-8")
    with served(work / "site") as url:
        yield {"sources": [f"{url}0.html"], "token": url, "environment": {_TOKEN: "a-token-that-nobody-checks"}}


@contextmanager
def _drawn(work: Path, count: int) -> Iterator[Options]:
    write_pages(work / "pages", count)
    with served(work / "pages") as url:
        yield {"sources": [f"{url}drawn/0/"], "render": "auto"}


def _pdf(path: Path, count: int) -> None:
    """A PDF of so many pages of lines."""
    import ctypes

    import pypdfium2
    from pypdfium2 import raw

    document = pypdfium2.PdfDocument.new()
    for number in range(count):
        page = document.new_page(612, 792)
        words = " ".join(_text(_LINES * number + line) for line in range(_LINES // 5)).split()
        for line in range(_LINES):
            drawn = raw.FPDFPageObj_NewTextObj(document, b"Helvetica", 11)
            text = ctypes.create_string_buffer((" ".join(words[10 * line : 10 * line + 10]) + "\0").encode("utf-16-le"))
            raw.FPDFText_SetText(drawn, ctypes.cast(text, ctypes.POINTER(ctypes.c_ushort)))
            raw.FPDFPageObj_Transform(drawn, 1, 0, 0, 1, 60, 730 - 13 * line)
            raw.FPDFPage_InsertObject(page, drawn)
        page.gen_content()
    document.save(path)


@contextmanager
def _layout(work: Path, count: int) -> Iterator[Options]:
    _pdf(work / "lines.pdf", count)
    yield {"sources": [str(work / "lines.pdf")]}


@contextmanager
def _scans(work: Path, count: int) -> Iterator[Options]:
    """A PDF of pictures of pages, at 200 dots per inch."""
    import pypdfium2

    _pdf(work / "lines.pdf", count)
    with pypdfium2.PdfDocument(work / "lines.pdf") as document:
        for number, page in enumerate(document):
            picture = page.render(scale=200 / 72, grayscale=True).to_pil()
            picture.save(work / "scans.pdf", "PDF", resolution=200, append=number > 0)
    yield {"sources": [str(work / "scans.pdf")]}


@contextmanager
def _repository(work: Path, count: int) -> Iterator[Options]:
    yield {"sources": [repository.write(work / "repository.git", count)]}


class _Store(BaseHTTPRequestHandler):
    """A bucket of small files, as S3 answers."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in one piece
    count: ClassVar[int]

    def do_GET(self) -> None:
        """List, or give an object."""
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if "list-type" in asked:
            first = int(asked.get("continuation-token", ["0"])[0])
            last = min(first + _LISTED, self.count)
            listed = "".join(
                f"<Contents><Key>{number:08}.md</Key><LastModified>{_DATE}</LastModified><ETag>&quot;{number}&quot;"
                f"</ETag><Size>{len(_text(number))}</Size></Contents>"
                for number in range(first, last)
            )
            more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < self.count else ""
            truncated = str(bool(more)).lower()
            told = f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated>{more}{listed}</ListBucketResult>"
        else:
            number = int(Path(unquote(parts.path)).stem)
            told = _text(number)
        body = told.encode()
        self.send_response(200)
        for name, value in {
            "Content-Length": str(len(body)),
            "ETag": f'"{told[:20]}"',
            "Last-Modified": "Tue, 02 Jan 2024 03:04:05 GMT",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _bucket(work: Path, count: int) -> Iterator[Options]:
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Store", (_Store,), {"count": count})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            yield {"sources": ["s3://docs"], "environment": {**_KEYS, "AWS_ENDPOINT_URL": address}}
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _listed(work: Path, count: int) -> Iterator[Options]:
    with _bucket(work, count) as options:
        yield {**options, "is_listed": True}


@contextmanager
def _pushed(work: Path, count: int) -> Iterator[Options]:
    from indexer.records import Page
    from indexer.sources.pushed_store import SOURCE, PushedStore

    (work / "index").mkdir()
    store = PushedStore(work / "index")
    for number in range(count):
        url, body = f"https://pushed.test/{number}", _text(number).encode()
        store.put(Page(url, SOURCE, body, "text/plain", "utf-8", None, None, fetched_at="2026-01-02T03:04:05Z"))
    yield {"sources": []}


_SOURCES: dict[str, tuple[Callable[[Path, int], AbstractContextManager[Options]], float]] = {
    "files of a folder": (_folder, 1),
    "pages of a site with a token": (_site, 1),
    "pages that scripts draw": (_drawn, 1 / 30),
    "pages of a PDF": (_layout, 1 / 30),
    "scanned pages of a PDF": (_scans, 1 / 100),
    "files of a repository": (_repository, 1),
    "objects of a bucket": (_bucket, 1),
    "pushed documents": (_pushed, 1),
    "objects of a bucket, listed only": (_listed, 100),
}


def _run(options: Options) -> dict[str, Any]:
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | options.pop("environment", {}) | {"PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", "-m", "benchmark.memory", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{options['sources']}: {done.stderr[-2_000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class _Peak:
    """The most memory that this process and those that it has started had together, in MB."""

    def __init__(self) -> None:
        self.megabytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(_PAUSE):
            self.megabytes = max(self.megabytes, memory_of_all())


def main(options: Options) -> None:
    """Build once; print what was built, and the most memory of this process and of all, in MB."""
    with _Peak() as peak:
        found = _listing(options) if options.get("is_listed") else _build(options)
    # what getrusage says would begin with the memory of whoever started this process
    [own] = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(json.dumps({**found, "own_mb": int(own) >> 10, "all_mb": peak.megabytes}))


def _build(options: Options) -> dict[str, int]:
    from embedder import Embeddings
    from indexer.config import BuildConfig, CrawlLimits
    from indexer.credentials import Credential, InEnvironment
    from indexer.pipeline.build import build
    from indexer.pipeline.progress import progress_for
    from indexer.urls import origin

    limits = CrawlLimits(
        max_pages=100_000, max_bytes=1_000_000_000, allow_private=True, render=options.get("render", "off")
    )
    token = options.get("token")
    credentials = (Credential(origin(token), bearer=InEnvironment(_TOKEN)),) if token else ()
    config = BuildConfig(crawl=limits, credentials=credentials)
    quiet = progress_for(sys.stderr, quiet=True)
    report = build(options["sources"], Path(options["index"]), Embeddings(), config, progress=quiet)
    if report.failed:
        raise RuntimeError(f"{len(report.failed)} failed, such as {report.failed[0]}")
    return {"documents": report.documents, "passages": report.chunks}


def _listing(options: Options) -> dict[str, int]:
    """List a bucket, and look at what is to be read, without reading any of it."""
    from indexer.config import CrawlLimits
    from indexer.source_context import SourceContext
    from indexer.sources.objects import read_objects

    count: list[int] = []
    items = read_objects(SourceContext(options["sources"][0], CrawlLimits(allow_private=True), count.append))
    next(items)
    items.close()
    gc.collect()
    return {"documents": count[0], "passages": 0}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
