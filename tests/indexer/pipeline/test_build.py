import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.config import BuildConfig, ChunkConfig, CrawlLimits
from indexer.errors import (
    BuildLocked,
    IndexUnwritable,
    NothingToIndex,
    SourceError,
    VectorError,
)
from indexer.generation.generation import Generation
from indexer.generation.layout import current_id
from indexer.generation.manifest import read_manifest
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.pipeline.report import BuildReport
from indexer.publish.collections import writer_lock
from tests.dummy import DummyEmbedder
from tests.indexer.server import Reply, Site

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0))


def run(index: Path, *sources: object, config: BuildConfig = CONFIG, full: bool = False) -> BuildReport:
    names = [str(source) for source in sources]
    return build(names, index, DummyEmbedder(), replace(config, full=full), progress=Progress(sys.stderr, "quiet"))


def best(index: Path, query: str) -> str:
    generation = Generation.open(index)
    try:
        _, rows = generation.search_vectors(DummyEmbedder().encode([query], role="query")[0], 1)
        return generation.chunks(rows)[0].text
    finally:
        generation.close()


def test_a_folder_becomes_a_searchable_generation(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "new" / "index"
    report = run(index, docs)
    assert (report.documents, report.chunks, report.fetched, report.unchanged) == (3, 5, 3, 0)
    assert (report.skipped, report.failed) == ((), ())
    assert list(report.seconds) == ["fetch", "parse", "model", "chunk", "embed", "write", "publish", "total"]
    assert 0 < report.seconds["total"] < 60
    assert current_id(index) == report.generation
    assert best(index, "what do they eat? fish?").startswith("They eat fish.")
    generation = Generation.open(index)
    manifest = generation.manifest
    assert (generation.manifest.id, generation.manifest.counts.documents, generation.manifest.counts.chunks) == (
        report.generation,
        3,
        5,
    )
    assert manifest.fingerprint == DummyEmbedder().fingerprint
    assert manifest.sources == [str(docs)]
    assert manifest.settings["chunk"] == {"tokens": 200, "overlap": 0}
    assert manifest.report["documents"] == 3
    generation.close()


def test_the_folder_holds_nothing_else(tmp_path: Path, docs: Path) -> None:
    report = run(tmp_path / "index", docs)
    index = tmp_path / "index"
    assert sorted(path.name for path in index.iterdir()) == ["CURRENT", "building", "generations", "lock"]
    assert list((index / "building").iterdir()) == []
    generation = index / "generations" / report.generation
    files = {str(path.relative_to(generation)) for path in generation.rglob("*") if path.is_file()}
    assert {name for name in files if not name.startswith("lexical/")} == {
        "documents.sqlite",
        "manifest.json",
        "repetition.npy",
        "rows.npy",
        "vectors.faiss",
    }
    assert read_manifest(generation).files.keys() == files - {"manifest.json"}


def test_a_site_and_a_folder_together(tmp_path: Path, docs: Path, site: Site) -> None:
    site.pages(
        index='<h1>Home</h1><p>Welcome to the zoo.</p><a href="/z">z</a> <a href="/gone">g</a> <a href="/p">p</a>',
        z="<p>Zebras have stripes.",
    )
    site.routes["/p"] = Reply(b"x", 200, {"Content-Type": "video/mp4"})
    (docs / "film.mp4").write_bytes(b"x")
    (docs / "copy.txt").write_text((docs / "notes.txt").read_text())
    report = run(tmp_path / "index", site.url, docs, docs / "dogs.md")
    assert report.documents == 5
    assert report.fetched == 5
    assert [(failure.url, failure.reason) for failure in report.failed] == [(f"{site.url}/gone", "HTTP 404")]
    assert {group.reason: group.count for group in report.skipped} == {
        "content type video/mp4 is not read": 1,
        "file type .mp4 is not read": 1,
        "same content as another page": 1,
        "already read": 1,
    }
    assert best(tmp_path / "index", "zebra stripes") == "Zebras have stripes."


def test_two_builds_of_the_same_site_are_the_same(tmp_path: Path, site: Site) -> None:
    site.pages(index="".join(f'<a href="/p/{i}">{i}</a>' for i in range(30)))
    for i in range(30):
        site.routes[f"/p/{i}"] = f"<h1>Page {i}</h1><p>Text of page {i} with {'many ' * i} words."
    ids = []
    for name in ("a", "b"):
        run(tmp_path / name, site.url)
        generation = Generation.open(tmp_path / name)
        chunks = generation.chunks(range(generation.manifest.counts.chunks))  # type: ignore[arg-type]
        ids.append([(chunk.id, chunk.url) for chunk in chunks])
        generation.close()
    assert ids[0] == ids[1]
    assert len(ids[0]) == 31


def test_long_documents_are_embedded_in_groups_and_rows_stay_in_step(tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_text("\n\n".join(f"Paragraph number {i} about topic{i}." for i in range(2000)))
    embedder = DummyEmbedder(dimension=4096)
    config = BuildConfig(chunk=ChunkConfig(tokens=16))
    report = build([str(source)], tmp_path / "index", embedder, config, progress=Progress(sys.stderr, "quiet"))
    assert report.chunks > 600
    assert embedder.encoded == report.chunks
    generation = Generation.open(tmp_path / "index")
    for row in (0, 255, 256, 257, report.chunks - 1):
        chunk = generation.chunks([row])[0]  # type: ignore[arg-type]
        _, rows = generation.search_vectors(embedder.encode([f"{chunk.title}\n\n{chunk.text}"])[0], 1)
        assert rows.tolist() == [row]
    generation.close()


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
        links = "".join(f"<a href=/{i}>link number {i} of many</a>" for i in range(400))
        (source / "a.html").write_text(links)
    with pytest.raises(NothingToIndex, match="the live index has not changed") as caught:
        run(index, source)
    assert "\n" not in str(caught.value)
    assert current_id(index) == live
    assert list((index / "building").iterdir()) == []


@pytest.mark.parametrize("source", ["", "  ", "ftp://x.test/", "file:///etc", "nowhere/at/all", "http://127.0.0.1:1/"])
def test_a_source_that_cannot_be_read(tmp_path: Path, docs: Path, source: str) -> None:
    index = tmp_path / "index"
    live = run(index, docs).generation
    with pytest.raises(SourceError) as caught:
        run(index, docs, source)
    assert "\n" not in str(caught.value)
    assert current_id(index) == live
    with pytest.raises(SourceError, match="no source"):
        run(index)


def test_generations_kept(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    ids = [run(index, docs, full=True).generation for _ in range(4)]
    assert ids == sorted(ids)
    assert sorted(path.name for path in (index / "generations").iterdir()) == ids[-2:]
    run(index, docs, config=BuildConfig(keep_generations=1), full=True)
    assert [path.name for path in (index / "generations").iterdir()] == [current_id(index)]


def test_the_live_generation_is_kept_even_if_it_is_the_oldest(tmp_path: Path, docs: Path) -> None:
    """After a rollback, and after the clock went backwards."""
    index = tmp_path / "index"
    run(index, docs)
    future = index / "generations" / "29990101T000000-000000"
    future.mkdir()
    live = run(index, docs, config=BuildConfig(keep_generations=1), full=True).generation
    assert [path.name for path in (index / "generations").iterdir()] == [live]


def test_an_open_generation_survives_its_removal(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    run(index, docs)
    generation = Generation.open(index)
    for _ in range(3):
        run(index, docs, full=True)
    assert not (index / "generations" / generation.manifest.id).exists()
    _, rows = generation.search_vectors(DummyEmbedder().encode(["fish"])[0], 5)
    assert len(generation.chunks(rows)) == 5
    generation.close()


def test_a_folder_with_something_else_in_it_is_not_taken_over(tmp_path: Path, docs: Path) -> None:
    home = tmp_path / "home"
    (home / "building").mkdir(parents=True)
    (home / "thesis.tex").write_text("years of work")
    with pytest.raises(IndexUnwritable, match=r"not an index and not empty \(it has 'thesis\.tex'\)"):
        run(home, docs)
    assert sorted(path.name for path in home.iterdir()) == ["building", "thesis.tex"]
    with pytest.raises(IndexUnwritable, match="is a file"):
        run(home / "thesis.tex", docs)


def test_a_failing_embedder_leaves_the_live_index(tmp_path: Path, docs: Path) -> None:
    class Broken(DummyEmbedder):
        def encode(self, texts, *, role="document"):  # type: ignore[no-untyped-def]
            return super().encode(texts, role=role) * float("nan")

    index = tmp_path / "index"
    live = run(index, docs).generation
    (docs / "more.txt").write_text("More to embed.")
    with pytest.raises(VectorError, match="NaN"):
        build([str(docs)], index, Broken(), CONFIG, progress=Progress(sys.stderr, "quiet"))
    assert current_id(index) == live
    run(index, docs)


def test_an_interrupt_releases_the_lock(tmp_path: Path, docs: Path) -> None:
    class Interrupted(DummyEmbedder):
        def encode(self, texts, *, role="document"):  # type: ignore[no-untyped-def]
            raise KeyboardInterrupt

    index = tmp_path / "index"
    live = run(index, docs).generation
    (docs / "more.txt").write_text("More to embed.")
    with pytest.raises(KeyboardInterrupt):
        build([str(docs)], index, Interrupted(), CONFIG, progress=Progress(sys.stderr, "quiet"))
    assert current_id(index) == live
    assert list((index / "building").iterdir()) == []
    run(index, docs)


def test_a_second_build_fails_at_once(tmp_path: Path, docs: Path) -> None:
    index = tmp_path / "index"
    run(index, docs)
    with writer_lock(index), pytest.raises(BuildLocked, match=r"process \d+ on \S+, since 20\d\d-.*; wait"):
        run(index, docs)
    run(index, docs)


def test_serving_imports_nothing_that_only_a_build_needs() -> None:
    script = (
        "import sys, indexer.generation.generation\n"
        "names = ('bs4', 'lxml', 'httpx', 'httpcore', 'langchain_text_splitters', 'markdown_it', 'torch')\n"
        "print([name for name in names if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_a_build_imports_no_model_library() -> None:
    script = (
        "import sys, indexer.pipeline.build\n"
        "names = ('torch', 'transformers', 'sentence_transformers', 'langchain', 'rag', 'web')\n"
        "print([name for name in names if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
