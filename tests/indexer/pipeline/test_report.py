import json
import sys
from pathlib import Path

from indexer.config import BuildConfig, CrawlLimits
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from tests.dummy import DummyEmbedder
from tests.indexer.server import Site


def run(index: Path, source: Path) -> BuildReport:
    return build([str(source)], index, DummyEmbedder(), BuildConfig(), progress=Progress(sys.stderr, "quiet"))


def test_report_as_json_and_as_table(tmp_path: Path, docs: Path) -> None:
    (docs / "x.mp4").write_bytes(b"x")
    (docs / "bad.txt").write_bytes(b"\x00" * 10)
    report = run(tmp_path / "index", docs)
    content = json.loads(json.dumps(report.as_dict()))
    names = "generation published documents chunks fetched new changed gone unchanged kept embedded carried"
    assert sorted(content) == sorted(
        [
            *names.split(),
            "skipped",
            "notes",
            "failed",
            "ocr",
            "settings",
            "hosts",
            "biggest",
            "seconds",
        ]
    )
    assert content["biggest"][0] == {
        "url": (docs / "cats.html").as_uri(),
        "bytes": (docs / "cats.html").stat().st_size,
        "chunks": 2,
    }
    assert [size["chunks"] for size in content["biggest"]] == [2, 2, 1]
    first = sorted(path.as_uri() for path in docs.glob("*s.*"))
    assert content["new"] == {"count": 3, "examples": first}
    assert content["changed"] == content["gone"] == {"count": 0, "examples": []}
    assert (content["published"], content["kept"], content["embedded"], content["carried"]) == (True, [], 5, 0)
    assert content["skipped"] == [
        {"reason": "file type .mp4 is not read", "count": 1, "examples": [(docs / "x.mp4").as_uri()]}
    ]
    assert content["failed"] == [{"url": (docs / "bad.txt").as_uri(), "reason": "binary data instead of text"}]
    table = report.table()
    assert report.generation in table
    assert "bad.txt: binary data" in table
    assert f"new          3, such as {first[0]}" in table
    assert "chunks       5 (5 embedded, 0 reused)" in table
    assert "kept" not in table
    assert f"2 chunks, 0 kB   {(docs / 'cats.html').as_uri()}" in table
    assert report.line() == f"3 new, 0 changed, 0 gone, 0 unchanged, 1 failed: generation {report.generation}"
    assert run(tmp_path / "index", docs).line().startswith("nothing has changed: 3 documents")


def test_hosts(tmp_path: Path, site: Site) -> None:
    site.pages(index="<h1>Zoo</h1><p>Zebras have stripes.<a href=/gone>gone</a>")
    config = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0))
    quiet = Progress(sys.stderr, "quiet")
    report = build([site.url], tmp_path / "index", DummyEmbedder(), config, progress=quiet)
    [host] = report.as_dict()["hosts"]
    assert (host["host"], host["failed"] >= 1, host["requests"] >= 3) == (site.url.removeprefix("http://"), True, True)
    assert 0 < host["slowest"] <= host["seconds"]
    assert f"ms   {host['host']}" in report.table()
