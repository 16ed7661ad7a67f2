"""Documents made to use up the memory of a build: each may cost itself, and what is healthy beside it is indexed."""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.indexer import files
from tests.indexer.server import Reply, Site
from tests.security.memory import watch

pytestmark = pytest.mark.longest
MOST = 600  # MB, over all processes of the build; the embedder of these tests has no model
SIZE = 9_900_000  # bytes: just under the limit of a page


def filled(piece: str, size: int = SIZE) -> Callable[[], bytes]:
    """So many bytes of a piece."""
    return lambda: (piece * (size // len(piece.encode()) + 1)).encode()[:size]


def log() -> bytes:
    return "\n".join(
        f"2026-11-22 10:00:{n % 60:02d} host-{n} request {n * 7919} took {n % 997} ms" for n in range(160_000)
    ).encode()


def columns() -> bytes:
    return ",".join(f"c{n}" for n in range(1_000_000)).encode() + b"\n" + b"1," * 999_999 + b"1\n"


def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(30):
            archive.writestr(f"{number}.txt", b"a" * 600_000)
    return out.getvalue()


# by name: the document, and what is said of it (empty where it is read)
DOCUMENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "headings.md": (filled("#\n"), "lines of Markdown"),
    "emphasis.md": (filled("*a* "), "memory"),
    "brackets.md": (filled("[a](b) "), "memory"),
    "quotes.md": (lambda: b"> " * 5_000 + b"a", ""),
    "elements.html": (filled("<b>"), "elements"),
    "siblings.html": (filled("<p>a"), "elements"),
    "closed.html": (filled("<i></i>"), "elements"),
    "deep.html": (lambda: b"<div>" * 900_000, "within each other"),
    "attributes.html": (lambda: b"<p " + b" ".join(b"a%d=1" % n for n in range(900_000)) + b">x", ""),
    "entities.html": (filled("&lt;"), ""),
    "cells.html": (lambda: b"<table><tr>" + b"<td>a" * 990_000, "memory"),
    "text.html": (filled("cat ", 100_000), ""),
    "log.txt": (log, ""),
    "line.txt": (filled("a"), ""),
    "words.txt": (filled("a b ", 100_000), ""),
    "script.txt": (filled("日本語"), ""),
    "lines.txt": (filled("x\n"), ""),
    "columns.csv": (columns, "columns"),
    "cells.csv": (filled("1,2,3,4\n"), ""),
    "empty.csv": (filled(",,,,,,\n"), ""),
    "quotes.csv": (filled('"a""b",'), "columns"),
    "nested.json": (filled("["), ""),
    "objects.json": (lambda: b"[" + b'{"a":1},' * 1_200_000 + b"1]", ""),
    "cells.ipynb": (lambda: json.dumps({"cells": [{"cell_type": "markdown", "source": "a"}] * 200_000}).encode(), ""),
    "roles.rst": (filled(":a:`b` "), ""),
    "code.py": (filled("def a():\n"), ""),
    "parts.eml": (lambda: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\nb\n" * 50_000, ""),
    "bomb.zip": (bomb, "bomb"),
    "shapes.docx": (lambda: files.docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 900_000), ""),
    "rows.xlsx": (lambda: files.xlsx(S=[["a", "b"]] * 10_000), ""),
}
PAGES: dict[str, tuple[Callable[[], bytes], str, str]] = {  # by name on a site: also its media type
    "headings": (lambda: b"#\n" * 1_500_000, "text/markdown", "lines of Markdown"),
    "links": (lambda: b"".join(b"<a href=%d>" % n for n in range(500_000)), "text/html", "links"),
    "elements": (filled("<b>"), "text/html", "elements"),
    "base": (lambda: b"<base href=/" + b"a" * 9_000_000 + b"><a href=x>", "text/html", ""),
    "directives": (lambda: b"<meta name=robots content='" + b"a," * 4_000_000 + b"'>", "text/html", ""),
}
_BUILD = """
import json, sys
from pathlib import Path
from indexer.build.build import build
from indexer.config import BuildConfig, CrawlLimits
from indexer.build.progress import Progress
from tests.dummy import DummyEmbedder
config = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=60.0))
report = build([sys.argv[1]], Path(sys.argv[2]), DummyEmbedder(), config, progress=Progress(sys.stderr, "quiet"))
print(json.dumps(report.as_dict()))
"""


def built(source: str, tmp_path: Path) -> tuple[dict[str, object], float]:
    """Report of a build in a process of its own, and the peak of its memory over all processes, in MB."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BUILD, source, str(tmp_path / "index")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with watch(process.pid) as peak:
        said, complaint = process.communicate(timeout=600)
    assert process.returncode == 0, complaint.decode()[-2_000:]
    return json.loads(said), peak.megabytes


def check(report: dict[str, object], peak: float, name: str, reason: str) -> None:
    said = json.dumps([report["failed"], report["skipped"]])
    print(f"{name}: {peak:.0f} MB, {report['chunks']} chunks, {report['seconds']['total']} s, {said[:200]}")  # type: ignore[index]
    assert "file:///" in str(report) or "http" in str(report)
    assert peak <= MOST
    if reason:
        assert re.search(reason, said), said


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_costs_itself(name: str, tmp_path: Path) -> None:
    make, reason = DOCUMENTS[name]
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Cats\n\nHealthy.")
    (docs / name).write_bytes(make())
    (docs / "z.md").write_text("# Dogs\n\nHealthy too.")
    report, peak = built(str(docs), tmp_path)
    check(report, peak, name, reason)
    assert report["new"]["count"] >= 2, "what is healthy is there"  # type: ignore[index]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_a_site_costs_itself(name: str, tmp_path: Path) -> None:
    make, kind, reason = PAGES[name]
    site = Site()
    try:
        site.routes |= {"/robots.txt": Reply(b""), "/": "<p>Cats sleep.</p><a href=/bad>x</a><a href=/good>x</a>"}
        site.routes |= {"/bad": Reply(make(), headers={"Content-Type": kind}), "/good": "<p>Dogs bark.</p>"}
        report, peak = built(site.url, tmp_path)
    finally:
        site.close()
    check(report, peak, name, reason)
    assert report["new"]["count"] >= 2, "what is healthy is there"  # type: ignore[index]


def test_a_sitemap_costs_itself(tmp_path: Path) -> None:
    site = Site()
    many = b"<urlset>" + b"".join(b"<url><loc>/%d</loc></url>" % n for n in range(1_500_000)) + b"</urlset>"
    try:
        site.routes |= {"/robots.txt": Reply(b"Sitemap: /s.xml.gz\n"), "/": "<p>Cats sleep.</p>"}
        site.routes["/s.xml.gz"] = Reply(gzip.compress(many), headers={"Content-Type": "application/gzip"})
        for number in range(3):
            site.routes[f"/{number}"] = f"<p>Page {number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[__name__], "_BUILD", _BUILD.replace("timeout=60.0", "timeout=60.0, max_pages=4"))
            report, peak = built(site.url, tmp_path)
    finally:
        site.close()
    check(report, peak, "sitemap", "over the limit of 4 pages")
    assert report["documents"] == 4
