"""What a build may take over when settings, model or sources are others."""

import hashlib
import io
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.config import BuildConfig, OcrConfig
from indexer.cut.chunking import Chunker
from indexer.errors import IndexCorrupt, IndexMissing, NothingToIndex, SourceError
from indexer.generation import rows
from indexer.generation.generation import Generation
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS, current_id, read_manifest
from indexer.generation.previous import READER_VERSION, live_sources
from indexer.pipeline import build as build_module
from indexer.pipeline import draft
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress, token_use
from indexer.publish.publish import problems_of, verify
from indexer.read.document_reader import read_document
from indexer.read.ocr import INSTALL_COMMAND, Ocr, find_engine
from tests.building import build_index
from tests.dummy import DummyEmbedder
from tests.indexer.conftest import make_page
from tests.indexer.pipeline.incremental import Work, zoo
from tests.indexer.read.scanned import encoded, picture, scanned
from tests.indexer.server import Reply, Site, page

FOUND = find_engine(OcrConfig())
MISSING = Ocr(obstacle=f"OCR needs {INSTALL_COMMAND}")


def test_other_chunk_settings_cut_everything_anew_and_say_so(work: Work, site: Site) -> None:
    pages = zoo(site, "etag")
    pages["dogs"].body = page("<p>" + "Dogs bark at strangers in the park. " * 20)
    work.build(site.url)
    site.routes["/dogs"] = Reply(b"", 503)
    report = work.build(site.url, chunk_tokens=50)
    assert work.said.startswith("chunk_tokens 200 -> 50: reading every page again, and embedding changed passages\n")
    assert [failure.url for failure in report.kept] == [f"{site.url}/dogs"]
    assert (report.published, report.unchanged, report.changed.count, report.fetched) == (True, 3, 0, 4)
    assert len(work.content()[f"{site.url}/dogs"][1]) > 1, "a page out of reach is cut from its passages"
    assert report.carried == 6, "start, deep and the short section of cats, and three passages that repeat another"
    assert report.embedded == report.chunks - report.carried
    assert pages["cats"].sent == 2
    site.routes["/dogs"] = pages["dogs"]
    assert work.build(site.url, chunk_tokens=50).changed.examples == [f"{site.url}/dogs"], "read as soon as it is back"
    assert pages["dogs"].sent == 2
    assert not work.build(site.url, chunk_tokens=50).published


def test_reading_is_numbered() -> None:
    """If this fails, pages become other chunks than before: raise READER_VERSION, then take over the new digest."""
    html = """<html lang=en-GB><head><title>Zoo</title><meta name=date content=2026-05-01>
        <meta name="pilotlight:team" content=keepers></head><body><nav>Menu</nav><main><h1 id=top>Cats</h1>
        <p>Cats sleep.</p><h2 id=food>1.2. Food</h2><ul><li>fish</li><li>milk</li></ul><pre>purr()</pre>
        <table><tr><th>Age</th><td>3</td></tr></table></main></body></html>"""
    markdown = "---\ntitle: Dogs\nteam: [a, b]\n---\n\n# Dogs\n\nDogs *bark*.\n\n## Walks\n\n" + "Twice a day. " * 60
    digest = hashlib.sha256()
    chunker = Chunker(DummyEmbedder(), 50)
    for body, media_type in ((html, "text/html"), (markdown, "text/markdown"), ("Birds\n\nsing.", "text/plain")):
        document = read_document(make_page(body, media_type))
        digest.update(repr((document, chunker.split(document))).encode())
    assert (READER_VERSION, digest.hexdigest()[:16]) == (25, "b86c3eaeb1669cdc")


def test_another_model_reads_and_embeds_everything_anew_and_says_so(work: Work, site: Site) -> None:
    zoo(site, "etag")
    first = work.build(site.url)
    work.embedder = DummyEmbedder(dimension=32)
    site.routes["/dogs"] = Reply(b"", 503)
    report = work.build(site.url)
    assert work.said.startswith("dimension 64 -> 32: reading and embedding every page again\n")
    assert (report.published, report.embedded, report.carried, len(report.kept)) == (True, first.chunks, 0, 1)
    assert len(work.content()[f"{site.url}/dogs"][2][0]) == 32, "a page out of reach is embedded from its passages"


@pytest.mark.parametrize("full", [True, False])
def test_everything_can_be_read_anew(work: Work, site: Site, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When told, and where this version reads otherwise."""
    pages = zoo(site, "etag")
    first = work.build(site.url)
    monkeypatch.setattr(draft, "READER_VERSION", READER_VERSION if full else 99)
    report = work.build(site.url, full=full)
    assert (report.published, report.fetched, report.unchanged, report.embedded) == (True, 5, 4, 0)
    assert report.generation != first.generation
    assert {route.sent for route in pages.values()} == {2}
    assert ("" if full else f"reading {READER_VERSION} -> 99: reading every page again") in work.said


def test_sources_come_and_go(work: Work, site: Site, docs: Path) -> None:
    zoo(site, "etag")
    work.build(site.url)
    report = work.build(*live_sources(work.index), docs, docs)
    assert (report.new.count, report.unchanged, report.gone.count) == (3, 4, 0)
    assert live_sources(work.index) == [site.url, str(docs)]
    assert not work.build(site.url, docs).published
    report = work.build(docs)
    assert (report.published, report.gone.count, report.embedded, report.unchanged) == (True, 4, 0, 3)
    assert live_sources(work.index) == [str(docs)]


def test_a_source_is_removed_without_fetching_or_embedding(work: Work, site: Site, docs: Path) -> None:
    zoo(site, "etag")
    work.build(site.url, docs)
    site.hits.clear()
    before = work.content()
    report = work.remove(docs)
    assert (report.published, report.documents, report.unchanged, report.carried) == (True, 4, 4, 5)
    assert report.gone.count == 3
    assert (work.embedder.encoded, site.hits) == (8, [])
    after = work.content()
    assert {url for url in before if url not in after} == {path.as_uri() for path in docs.iterdir()}
    assert all(after[url] == before[url] for url in after if url != "pages")
    assert {url for url, *_ in after["pages"]} == {url for url, source, *_ in before["pages"] if source == site.url}
    assert live_sources(work.index) == [site.url]
    assert not work.build(site.url).published, "what was remembered of the pages is still there"


def test_a_source_that_cannot_be_removed(work: Work, docs: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexMissing):
        work.remove(docs)
    assert not work.index.exists()
    live = work.build(docs).generation
    with pytest.raises(SourceError, match=f"^{tmp_path}/dogs is not a source of this index; the index has: {docs}$"):
        work.remove(tmp_path / "dogs")
    with pytest.raises(SourceError, match="no source was given"):
        work.remove()
    with pytest.raises(NothingToIndex, match="would be empty"):
        work.remove(docs)
    assert current_id(work.index) == live
    assert list((work.index / "building").iterdir()) == []


def test_a_damaged_generation_is_said_and_not_built_on(work: Work, docs: Path) -> None:
    work.build(docs)
    path = work.index / "generations" / current_id(work.index) / "documents.sqlite"
    path.write_bytes(path.read_bytes()[:-1])
    report = work.build(docs)
    assert work.said.startswith("reading and embedding everything again, as the live generation cannot be used: ")
    assert "documents.sqlite" in work.said
    assert (report.published, report.new.count, report.embedded, report.carried) == (True, 3, 5, 0)
    assert not work.build(docs).published
    path = work.index / "generations" / current_id(work.index) / "vectors.faiss"
    path.unlink()
    with pytest.raises(IndexCorrupt, match=r"vectors\.faiss"):
        work.remove(docs)


@pytest.fixture
def scans(docs: Path) -> Path:
    (docs / "one.pdf").write_bytes(scanned(picture("The scanned page about cranes."), picture("And one about geese.")))
    (docs / "two.png").write_bytes(encoded(picture("A picture of a heron.")))
    return docs


@pytest.mark.skipif(bool(FOUND.obstacle), reason=FOUND.obstacle)
def test_scans_are_read_anew_once_they_can_be(work: Work, scans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "find_engine", lambda config: MISSING)
    work.build(scans)
    monkeypatch.undo()
    report = work.build(scans)
    assert "ocr off -> on" in "".join(work.said)
    assert sorted(report.new.examples) == [(scans / "one.pdf").as_uri(), (scans / "two.png").as_uri()]
    assert (report.ocr["pages"], report.ocr["left_out"], report.unchanged) == (3, 0, 3)
    assert "OCR          3 pages read; 0 of 3 lines left out" in report.table()
    again = work.build(scans)
    assert (again.published, again.unchanged) == (False, 5)


def test_tokens_are_made_once_taken_over_and_left_out_when_told(docs: Path, tmp_path: Path) -> None:
    """Each is as the embedder makes it: `tokens_of` compares them by the text of their passage."""
    index, embedder, said = tmp_path / "index", DummyEmbedder(), io.StringIO()

    def rebuilt(tokens: bool | None = None) -> tuple[int, int, bool]:
        config, progress = BuildConfig(tokens=tokens), Progress(said)
        report = build([str(docs)], index, embedder, config, progress=progress)
        assert problems_of(verify(index / "generations" / report.generation)) == []
        return report.embedded, report.carried, report.published

    def tokens_of() -> dict[str, bytes]:
        with closing(Generation.open(index)) as generation:
            rows = np.arange(generation.manifest.counts.chunks)
            assert generation.tokens is not None
            chunks = generation.chunks(rows)
            return {c.text: generation.tokens.read(rows[i : i + 1])[0].tobytes() for i, c in enumerate(chunks)}

    assert rebuilt(tokens=False) == (5, 0, True)
    assert rebuilt() == (0, 0, False)
    assert rebuilt(tokens=True) == (5, 0, True)
    assert "tokens no -> yes: reading and embedding every page again" in said.getvalue()
    before = tokens_of()
    assert rebuilt() == (0, 0, False)
    (docs / "notes.txt").write_text("Something else stands here now, with other words in it.")
    assert rebuilt() == (1, 4, True)
    assert len(before.items() & tokens_of().items()) == 4
    assert rebuilt(tokens=False) == (0, 5, True)
    files = {path.name for path in (index / "generations" / current_id(index)).iterdir()}
    assert not files & {TOKENS, TOKEN_OFFSETS}


GREEK = "Οι γάτες κοιμούνται σχεδόν όλη τη μέρα στον ήλιο. "


def test_tokens_are_kept_where_they_help(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "_CHUNKS_PER_CALL", 2)  # so that a build looks several times
    greek = tmp_path / "greek"
    greek.mkdir()
    (greek / "cats.txt").write_text(GREEK * 9)

    def built(name: str, source: Path = docs, most: int = 5, **config: Any) -> tuple[str, bool]:
        monkeypatch.setattr(rows, "MAX_PASSAGES_WITH_TOKENS", most)
        monkeypatch.setattr(DummyEmbedder, "is_multilingual", name == "multilingual")
        report = build_index(tmp_path / name, source, **config)
        folder = tmp_path / name / "generations" / report.generation
        assert problems_of(verify(folder)) == []
        assert report.tokens == token_use(read_manifest(folder)) or not report.published
        sizes = [path.stat().st_size for path in folder.glob("token*")]
        assert (bool(sizes), sum(sizes)) == (report.tokens.kept, report.tokens.bytes)
        return str(report.tokens), report.published

    (known, _), large = built("english"), "no: there are more than 4 passages"
    assert known == "yes, 0.0 MB: the model knows the language"
    assert built("english", most=4) == (known, False), "nothing has changed"
    assert built("large", most=4) == (large, True), "also in blocks that came before that was known"
    assert built("large") == ("no: the index has none; --tokens yes adds them, and embeds every passage again", False)
    assert built("large", tokens=True, most=4) == ("yes, 0.0 MB: as the setting says", True)
    foreign = "no: the model does not know the language"
    assert built("other", greek) == built("other", greek, full=True) == (foreign, True)
    (greek / "dogs.txt").write_text("The dogs sleep for most of the day.")
    assert built("other", greek) == (foreign, True)
    (docs / "notes.txt").write_text("Something else stands here now, with other words in it.")
    assert built("large", most=4) == ("yes, 0.0 MB: as the setting says", True), "until it is told otherwise"
    assert built("multilingual")[0] == "no: the model is multilingual, and tokens mislead between languages"
    assert built("milvus", no_tokens="Milvus does not keep them") == ("no: Milvus does not keep them", True)
    assert built("english", most=4) == (large, True)
    (docs / "notes.txt").write_text(GREEK * 99)
    assert built("milvus", most=9) == (foreign, True)
