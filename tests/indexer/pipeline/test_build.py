"""A build makes a whole generation or leaves the live one as it was."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.errors import BuildLocked, IndexUnwritable, NothingToIndex, ParseError, SourceError, VectorError
from indexer.generation.generation import Generation
from indexer.generation.manifest import current_id, read_manifest
from indexer.pipeline.build import build
from indexer.pipeline.progress import STAGES, BuildReport, Progress
from indexer.publish.publish import writer_lock
from indexer.read.document_reader import PageParts
from indexer.read.reader_process import ReaderProcess
from indexer.records import Failure, Page, Skip
from indexer.sources import reading
from indexer.stop_signal import Stopped, raise_at
from tests.dummy import DummyEmbedder
from tests.indexer.server import Reply, Site

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=300.0))


def run(
    index: Path,
    *sources: object,
    config: BuildConfig = CONFIG,
    full: bool = False,
    embedder: DummyEmbedder | None = None,
) -> BuildReport:
    names, quiet = [str(source) for source in sources], Progress(sys.stderr, quiet=True)
    return build(names, index, embedder or DummyEmbedder(), replace(config, full=full), progress=quiet)


def best(index: Path, query: str) -> str:
    with closing(Generation.open(index)) as generation:
        _, rows = generation.search_vectors(DummyEmbedder().encode([query], role="query")[0], 1)
        return generation.chunks(rows)[0].text


def test_a_folder_becomes_a_searchable_generation_and_nothing_else(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "new" / "index"
    report = run(index, docs)
    assert (report.documents, report.chunks, report.fetched, report.unchanged) == (3, 5, 3, 0)
    assert (report.skipped, report.failed) == ([], [])
    assert list(report.seconds) == ["fetch", "read", "model", "chunk", "embed", "write", "publish", "total"]
    assert 0 < report.seconds["total"] < 60
    assert best(index, "what do they eat? fish?").startswith("They eat fish.")
    folder = index / "generations" / current_id(index)
    manifest = read_manifest(folder)
    assert (manifest.id, manifest.counts.documents, manifest.counts.chunks) == (report.generation, 3, 5)
    assert (manifest.fingerprint, manifest.sources) == (DummyEmbedder().fingerprint, [str(docs)])
    assert manifest.settings["chunk"] == {"tokens": 200}
    assert manifest.report["documents"] == 3
    assert sorted(path.name for path in index.iterdir()) == ["CURRENT", "building", "generations", "lock"]
    assert list((index / "building").iterdir()) == []
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    own = {"documents.sqlite", "manifest.json", "rows.npy", "vectors.faiss", "tokens.npy", "token_offsets.npy"}
    assert {name for name in files if not name.startswith("lexical/")} == own
    assert manifest.files.keys() == files - {"manifest.json"}


def test_a_site_and_a_folder_together(tmp_path: Path, docs: Path, site: Site) -> None:
    site.pages(
        index='<h1>Home</h1><p>Welcome to the zoo.</p><a href="/z">z</a> <a href="/gone">g</a> <a href="/p">p</a>',
        z="<p>Zebras have stripes.",
    )
    site.routes["/p"] = Reply(b"x", 200, {"Content-Type": "video/mp4"})
    (docs / "film.mp4").write_bytes(b"x")
    (docs / "copy.txt").write_text((docs / "notes.txt").read_text())
    report = run(tmp_path / "index", site.url, docs, docs / "dogs.md")
    assert (report.documents, report.fetched) == (5, 5)
    assert [(failure.url, failure.reason) for failure in report.failed] == [(f"{site.url}/gone", "HTTP 404")]
    assert {group.reason: group.count for group in report.skipped} == {
        "content type video/mp4 is not read": 1,
        "file type .mp4 is not read": 1,
        "same content as another page": 1,
        "already read": 1,
    }
    assert best(tmp_path / "index", "zebra stripes") == "Zebras have stripes."


def test_a_folder_in_another_source_adds_no_copies(tmp_path: Path, docs: Path) -> None:
    (docs / "part" / "deep").mkdir(parents=True)
    for name in ("two.md", "deep/one.md"):
        (docs / "part" / name).write_text("# Yaks\n\nYaks carry loads over the pass.\n")
    alone = run(tmp_path / "alone", docs).documents
    assert run(tmp_path / "index", docs, docs / "part").documents == alone


@pytest.mark.parametrize("kind", ["empty", "unreadable", "no text", "links"])
def test_nothing_to_index_leaves_the_live_index(tmp_path: Path, docs: Path, kind: str) -> None:
    index = tmp_path / "index"
    live = run(index, docs).generation
    source = tmp_path / "source"
    source.mkdir()
    if kind == "unreadable":
        (source / "a.mp4").write_bytes(b"x")
    elif kind == "no text":
        (source / "a.html").write_text("<script>x</script>")
    elif kind == "links":
        (source / "a.html").write_text("".join(f"<a href=/{i}>link number {i} of many</a>" for i in range(400)))
    with pytest.raises(NothingToIndex, match=r"^[^\n]*the live index has not changed$"):
        run(index, source)
    assert current_id(index) == live
    assert list((index / "building").iterdir()) == []


@pytest.mark.parametrize("source", ["", "  ", "ftp://x.test/", "file:///etc", "nowhere/at/all", "http://127.0.0.1:1/"])
def test_a_source_that_cannot_be_read(tmp_path: Path, docs: Path, source: str) -> None:
    index = tmp_path / "index"
    live = run(index, docs).generation
    with pytest.raises(SourceError, match=r"^[^\n]+$"):
        run(index, docs, source)
    assert current_id(index) == live
    with pytest.raises(SourceError, match="no source"):
        run(index)


def test_the_live_generation_and_the_newest_are_kept(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    first = run(index, docs)
    with closing(Generation.open(index)) as opened:
        ids = [first.generation, *(run(index, docs, full=True).generation for _ in range(3))]
        assert ids == sorted(ids)
        assert sorted(path.name for path in (index / "generations").iterdir()) == ids[-2:]
        _, rows = opened.search_vectors(DummyEmbedder().encode(["fish"])[0], 5)
        assert len(opened.chunks(rows)) == 5, "an open one survives its removal"
    (index / "generations" / "29990101T000000-000000").mkdir()  # as after a rollback, or with a clock that went back
    live = run(index, docs, config=BuildConfig(keep_generations=1), full=True).generation
    assert [path.name for path in (index / "generations").iterdir()] == [live]


def test_a_folder_with_something_else_in_it_is_not_taken_over(tmp_path: Path, docs: Path) -> None:
    home = tmp_path / "home"
    (home / "building").mkdir(parents=True)
    (home / "thesis.tex").write_text("years of work")
    with pytest.raises(IndexUnwritable, match=r"not an index and not empty \(it has 'thesis\.tex'\)"):
        run(home, docs)
    assert sorted(path.name for path in home.iterdir()) == ["building", "thesis.tex"]
    with pytest.raises(IndexUnwritable, match="is a file"):
        run(home / "thesis.tex", docs)


@pytest.mark.parametrize("error", [VectorError, KeyboardInterrupt])
def test_a_build_that_fails_leaves_the_live_index_and_no_lock(
    tmp_path: Path, docs: Path, error: type[BaseException]
) -> None:
    class Broken(DummyEmbedder):
        def encode_ids(self, rows, *, role="document", tokens=False):  # type: ignore[no-untyped-def]
            if error is KeyboardInterrupt:
                raise KeyboardInterrupt
            vectors, states = super().encode_ids(rows, role=role, tokens=tokens)
            return vectors * float("nan"), states

    index = tmp_path / "index"
    live = run(index, docs).generation
    (docs / "more.txt").write_text("More to embed.")
    with pytest.raises(error):
        run(index, docs, embedder=Broken())
    assert current_id(index) == live
    assert list((index / "building").iterdir()) == []
    with writer_lock(index), pytest.raises(BuildLocked, match=r"process \d+ on \S+, since 20\d\d-.*; wait"):
        run(index, docs)
    run(index, docs)


def test_building_imports_only_what_it_needs() -> None:
    names = "torch transformers sentence_transformers langchain ray rag web".split()
    script = f"import sys, indexer.pipeline.build; print([name for name in {names} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_report_of_a_hostile_site_is_small() -> None:
    report = BuildReport()
    for number in range(5_000):
        url, reason = f"http://a.test/{number}", f"{number} is {'x' * 5_000} not read"
        report.skip(Skip(url, reason))
        report.note(url, [reason])
        report.fail(Failure(url, reason))
        report.fail(Failure(url, reason), is_kept=True)
    content = report.as_dict()
    assert len(json.dumps(content)) < 1_500_000
    assert (len(content["failed"]), len(content["kept"]), len(content["notes"])) == (1_000, 1_000, 301)
    assert sum(group["count"] for group in content["skipped"]) == 5_000 + 2 * 4_000
    assert content["notes"][0] == {
        "reason": "other reasons",
        "count": 4_700,
        "examples": [f"http://a.test/{n}" for n in (300, 301, 302)],
    }


def test_report_as_json_and_as_table(tmp_path: Path, docs: Path) -> None:
    (docs / "x.mp4").write_bytes(b"x")
    (docs / "bad.txt").write_bytes(b"\x00" * 10)
    report = run(tmp_path / "index", docs)
    content = json.loads(json.dumps(report.as_dict()))
    first = sorted(path.as_uri() for path in docs.glob("*s.*"))
    tally, none = {"count": 3, "examples": first}, {"count": 0, "examples": []}
    assert content.pop("seconds").keys() == {*STAGES, "total"}
    assert content == {
        "generation": report.generation, "published": True, "documents": 3, "chunks": 5, "fetched": 4, "unchanged": 0,
        "new": tally, "changed": none, "gone": none, "kept": [], "embedded": 5, "carried": 0, "notes": [],
        "skipped": [{"reason": "file type .mp4 is not read", "count": 1, "examples": [(docs / "x.mp4").as_uri()]}],
        "failed": [{"url": (docs / "bad.txt").as_uri(), "reason": "binary data instead of text"}],
        "ocr": {"pages": 0, "lines": 0, "left_out": 0}, "unknown": "", "sections": {},
        "languages": [{"language": each, "passages": count, "broken": 0.0} for each, count in (("en", 4), (None, 1))],
        "tokens": {"kept": True, "by_hand": False, "reason": "the model knows the language", "bytes": 1752,
                   "broken": [0, 148]},
    }  # fmt: skip
    table = report.table()
    assert "bad.txt: binary data" in table
    assert f"new          3, such as {first[0]}" in table
    assert "chunks       5 (5 embedded, 0 reused)\ntokens       yes, 0.0 MB: the model knows the language\n" in table
    assert "kept" not in table
    assert report.line() == f"3 new, 0 changed, 0 gone, 0 unchanged, 1 failed: generation {report.generation}"
    assert run(tmp_path / "index", docs).line().startswith("nothing has changed: 3 documents")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_shown_while_a_call_takes_long(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal in a line that is rewritten and leaves nothing behind, else in new lines."""
    monkeypatch.setattr("indexer.pipeline.progress._LINE_SECONDS", 0.01)
    enough = threading.Event()

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

        def write(self, text: str) -> int:
            if "1,200 of 1,500 chunks" in text:
                enough.set()
            return super().write(text)

    progress = Progress(stream := Stream())
    assert progress.line() == ", 0 s"
    progress.phase("reading")
    assert progress.line() == "reading: looking for pages, 0 s"
    progress.raise_total(3)
    progress.page()
    progress.chunks(waiting=1_500)
    progress.chunks(embedded=1_200)
    assert enough.wait(300)
    progress.close()
    progress.message("done")
    ended = re.search(r"reading: 1 of 3 pages, 1,200 of 1,500 chunks embedded, \d+ s\n", stream.getvalue())
    assert (ended is not None) is not is_terminal
    assert stream.getvalue().endswith("\r\x1b[Kdone\n" if is_terminal else "\ndone\n")
    assert stream.getvalue().count("\n") == 1 or not is_terminal


def test_a_stopped_build_interrupts_the_pages_that_are_read_for_a_template(
    tmp_path: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Queue[bool]()  # a thread that was just being started is not joined

    def read(page: Page, parts: PageParts, process: ReaderProcess) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        end = time.monotonic() + 30
        while not process.is_interrupted and time.monotonic() < end:
            threading.Event().wait(0.01)
        interrupted.put(process.is_interrupted)
        raise ParseError("interrupted")

    monkeypatch.setattr(reading, "read_page_parts", read)
    for number in range(5):
        (docs / f"{number}.html").write_text(f"<h1>Page {number}</h1><p>Text {number}.")
    with pytest.raises(Stopped), raise_at(signal.SIGTERM):
        run(tmp_path / "index", docs)
    assert interrupted.get(timeout=300)


MEASURE = """
import sys
from pathlib import Path
from tests.faults.world import rebuild

def kilobytes(name):
    [line] = [line for line in open("/proc/self/status") if line.startswith(name)]
    return int(line.split()[1])

index, hostile = Path(sys.argv[1]) / "index", sys.argv[2].encode().decode("unicode_escape")
docs = index.with_name("docs")
(docs / "big.txt").write_text("Other words stand here. " * 40_000)
rebuild(index, docs)  # which loads what every build needs
(docs / sys.argv[3]).write_text(hostile * (1_000_000 // len(hostile)))
before = kilobytes("VmRSS")
rebuild(index, docs)
print(kilobytes("VmHWM") - before)
"""


@pytest.mark.parametrize(("text", "name"), [(r"\n", "a.py"), ("[", "a.json"), (r"# a\n", "a.md")])
def test_a_hostile_megabyte_costs_the_build_little_memory(tmp_path: Path, docs: Path, text: str, name: str) -> None:
    script = [sys.executable, "-c", MEASURE, str(tmp_path), text, name]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 << 10
