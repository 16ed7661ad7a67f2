"""Documents made to use up the memory of a build: each may cost itself, and what is healthy beside it is indexed.

Documents of one kind are read by one build, so that none is paid for by the next one either.
"""

import gzip
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.indexer import files
from tests.indexer.server import Reply, Site
from tests.security.memory import watch

pytestmark = pytest.mark.longest
PASSAGES = 1_000  # of a document, a tenth of what may be: `log` has as many as there may be
# MB over all processes, more than a build of two short documents takes on the same machine: libraries map differently
# much memory on different processors.
MAX_ADDED_MEMORY = 430
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


# by kind, by name: the document, and what is said of it (empty where it is read)
DOCUMENTS: dict[str, dict[str, tuple[Callable[[], bytes], str]]] = {
    "markdown": {
        "headings.md": (filled("#\n"), "lines of Markdown"),
        "emphasis.md": (filled("*a* "), "memory"),
        "brackets.md": (filled("[a](b) "), "memory"),
        "quotes.md": (lambda: b"> " * 5_000 + b"a", ""),
    },
    "html": {
        "elements.html": (filled("<b>"), "elements"),
        "siblings.html": (filled("<p>a"), "elements|memory"),
        "closed.html": (filled("<i></i>"), "elements"),
        "deep.html": (lambda: b"<div>" * 900_000, "levels deep"),
        "attributes.html": (lambda: b"<p " + b" ".join(b"a%d=1" % n for n in range(900_000)) + b">x", ""),
        "entities.html": (filled("&lt;"), ""),
        "cells.html": (lambda: b"<table><tr>" + b"<td>a" * 990_000, "memory"),
        "text.html": (filled("cat ", 100_000), ""),
    },
    "log": {"log.txt": (log, "")},
    "text": {
        "line.txt": (filled("a"), ""),
        "words.txt": (filled("a b ", 100_000), ""),
        "script.txt": (filled("日本語"), ""),
        "lines.txt": (filled("x\n"), ""),
    },
    "tables": {
        "columns.csv": (columns, "columns"),
        "cells.csv": (filled("1,2,3,4\n"), ""),
        "empty.csv": (filled(",,,,,,\n"), ""),
        "quotes.csv": (filled('"a""b",'), "columns"),
        "rows.xlsx": (lambda: files.xlsx(S=[["a", "b"]] * 10_000), ""),
    },
    "parts": {
        "cells.ipynb": (
            lambda: json.dumps({"cells": [{"cell_type": "markdown", "source": "a"}] * 200_000}).encode(),
            "",
        ),
        "parts.eml": (lambda: b"Content-Type: multipart/mixed; boundary=a\n\n" + b"--a\n\nb\n" * 50_000, ""),
    },
    "code": {
        "roles.rst": (filled(":a:`b` "), ""),
        "code.py": (filled("def a():\n"), ""),
        "bomb.zip": (bomb, "bomb"),
        "shapes.docx": (lambda: files.docx("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 900_000), ""),
    },
}
PAGES: dict[str, tuple[Callable[[], bytes], str, str]] = {  # by name on a site: also its media type
    "headings": (lambda: b"#\n" * 1_500_000, "text/markdown", "lines of Markdown"),
    "links": (lambda: b"".join(b"<a href=%d>" % n for n in range(500_000)), "text/html", "links"),
    "elements": (filled("<b>"), "text/html", "elements"),
    "base": (lambda: b"<base href=/" + b"a" * 9_000_000 + b"><a href=x>", "text/html", ""),
    "directives": (lambda: b"<meta name=robots content='" + b"a," * 4_000_000 + b"'>", "text/html", ""),
}
_BUILD = """
import json, os, sys
from pathlib import Path
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # so that documents are read one after another
from indexer.pipeline import build as building
from indexer.cut import chunking
from indexer.config import BuildConfig, CrawlLimits
from indexer.pipeline.progress import Progress
from tests import dummy
vector = dummy._drawn("any", 64)
dummy._drawn = lambda word, dimension: vector  # to draw one for each word takes as long as the rest of a build
if len(sys.argv) > 3:
    building.MAX_CHUNKS = chunking.MAX_CHUNKS = int(sys.argv[3])
config = BuildConfig(crawl=CrawlLimits(allow_private=True, concurrency=1, timeout=300.0))
quiet = Progress(sys.stderr, quiet=True)
report = building.build([sys.argv[1]], Path(sys.argv[2]), dummy.DummyEmbedder(), config, progress=quiet)
print(json.dumps(report.as_dict()))
"""


def built(source: str, tmp_path: Path, *passages: str) -> tuple[dict[str, Any], float]:
    """Report of a build in a process of its own, and the peak of its memory over all processes, in MB."""
    line = [sys.executable, "-c", _BUILD, source, str(tmp_path / "index"), *passages]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with watch(process.pid) as peak:
        said, complaint = process.communicate(timeout=600)
    assert process.returncode == 0, complaint.decode()[-2_000:]
    return json.loads(said), peak.megabytes


@pytest.fixture(scope="module")
def usual_peak(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return the peak of a build of two short documents, in MB."""
    folder = tmp_path_factory.mktemp("usual")
    docs = folder / "docs"
    docs.mkdir()
    for name in ("a.md", "z.md"):
        (docs / name).write_text("# Cats\n\nHealthy.")
    return built(str(docs), folder)[1]


def check(report: dict[str, Any], added: float, reasons: Mapping[str, str]) -> None:
    """Hold a build to its memory, and each name to the reason for which it is not there."""
    told = [*report["failed"], *report["skipped"]]
    print(f"{added:.0f} MB, {report['chunks']} chunks, {report['seconds']['total']} s, {told}")
    assert added <= MAX_ADDED_MEMORY
    for name, reason in reasons.items():
        said = [each["reason"] for each in told if name in str(each.get("url") or each["examples"])]
        assert not reason or any(re.search(reason, each) for each in said), (name, told)
    assert report["new"]["count"] >= 2, "what is healthy is there"


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_costs_itself(kind: str, tmp_path: Path, usual_peak: float) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Cats\n\nHealthy.")
    for name, (make, _) in DOCUMENTS[kind].items():
        (docs / name).write_bytes(make())
    (docs / "z.md").write_text("# Dogs\n\nHealthy too.")
    report, peak = built(str(docs), tmp_path, *[str(PASSAGES)] * (kind != "log"))
    check(report, peak - usual_peak, {name: reason for name, (_, reason) in DOCUMENTS[kind].items()})


def test_a_page_of_a_site_costs_itself(tmp_path: Path, usual_peak: float) -> None:
    site = Site()
    try:
        links = "".join(f"<a href=/{name}>x</a>" for name in [*PAGES, "good"])
        site.routes |= {"/robots.txt": Reply(b""), "/": f"<p>Cats sleep.</p>{links}", "/good": "<p>Dogs bark.</p>"}
        for name, (make, kind, _) in PAGES.items():
            site.routes[f"/{name}"] = Reply(make(), headers={"Content-Type": kind})
        report, peak = built(site.url, tmp_path, str(PASSAGES))
    finally:
        site.close()
    check(report, peak - usual_peak, {name: reason for name, (_, _, reason) in PAGES.items()})


def test_a_sitemap_costs_itself(tmp_path: Path, usual_peak: float) -> None:
    site = Site()
    many = b"<urlset>" + b"".join(b"<url><loc>/%d</loc></url>" % n for n in range(1_500_000)) + b"</urlset>"
    try:
        site.routes |= {"/robots.txt": Reply(b"Sitemap: /s.xml.gz\n"), "/": "<p>Cats sleep.</p>"}
        site.routes["/s.xml.gz"] = Reply(gzip.compress(many), headers={"Content-Type": "application/gzip"})
        for number in range(3):
            site.routes[f"/{number}"] = f"<p>Page {number}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"{__name__}._BUILD", _BUILD.replace("timeout=300.0", "timeout=300.0, max_pages=4"))
            report, peak = built(site.url, tmp_path)
    finally:
        site.close()
    check(report, peak - usual_peak, {"": "over the limit of 4 pages"})
    assert report["documents"] == 4
