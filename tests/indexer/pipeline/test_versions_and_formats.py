"""Pages that are there more than once: in several versions of a manual, and in several formats."""

from contextlib import closing
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from indexer.generation.editions import edition_at
from indexer.generation.generation import Generation, JointGeneration
from indexer.generation.manifest import current_id, read_manifest
from indexer.generation.rows import TokenReader
from indexer.generation.vectors import VectorReader
from indexer.records import Outcome, Page, PageRecord, PageState, Skip
from indexer.sources.pushed_store import SOURCE, PushedStore
from indexer.sources.reading import _Unique
from rag.query.request import SearchRequest
from rag.query.retriever import Retriever
from tests.indexer.pipeline.incremental import Work


def manual(folder: Path, *versions: str, pages: int = 7) -> None:
    for version in versions:
        place = folder / f"version-{version}"
        place.mkdir(parents=True)
        for number in range(pages):
            own = f"Only version {version} has this." if number == 0 else "This is the same in all of them."
            text = f"# Page {number}\n\nThe kettle has {number} parts. {own}\n\n## Care\n\nKeep part {number} dry.\n"
            (place / f"p{number}.md").write_text(text)


def stored(work: Work) -> dict[str, tuple[bytes, bytes]]:
    """Return vector and tokens of every passage, by its address and text."""
    folder = work.index / "generations" / current_id(work.index)
    count = read_manifest(folder).counts.chunks
    vectors, tokens = VectorReader(folder / "vectors.faiss"), TokenReader(folder, count)
    found, content, row = {}, work.content(), 0
    for url in (each for each in content if each != "pages"):
        for chunk in content[url][1]:
            one = np.array([row])
            key = f"{chunk[0].rpartition('/')[2]} {chunk[2]}"
            found[f"{url} {key}"] = vectors.vectors(one).tobytes(), tokens.read(one)[0].tobytes()
            row += 1
    return found


@pytest.mark.parametrize("together", [3, 512])
def test_a_page_is_in_every_version_and_its_text_is_embedded_once(
    tmp_path: Path, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.pipeline.draft._CHUNKS_PER_CALL", together)
    work, alone = Work(tmp_path / "index"), Work(tmp_path / "alone")
    manual(tmp_path / "docs", "1.0", "2.0", "10.0")
    report = work.build(tmp_path / "docs")
    assert (report.documents, report.skipped) == (21, [])
    assert report.chunks == report.embedded + report.carried
    assert report.carried >= 12, "twice six pages, of which each has a passage at least"
    everything = stored(work)
    for version in ("1.0", "2.0", "10.0"):
        alone.build(tmp_path / "docs" / f"version-{version}")
        assert stored(alone).items() <= everything.items()
    assert not work.build(tmp_path / "docs").published
    (tmp_path / "docs" / "version-1.0" / "p0.md").write_text("# Page 0\n\nIt has changed.\n")
    report = work.build(tmp_path / "docs")
    assert (report.embedded, report.changed.count, report.unchanged) == (1, 1, 20)


def test_only_versions_may_have_the_same_content() -> None:
    unique = _Unique(())

    def passes(url: str, source: str = "s") -> bool:
        record = PageRecord(url, source, url, None, None, "hash", (), False, Outcome(PageState.INDEXED))
        return not isinstance(unique.item(record), Skip)

    assert passes("https://d.example/docs/1.0/install")
    assert passes("https://d.example/docs/2.0/install")
    assert not passes("https://d.example/docs/2.0/setup")
    assert not passes("https://d.example/docs/2.0/install/")
    assert passes("https://d.example/docs/install"), "the released version has no segment of its own"
    assert not passes("https://d.example/print/install")
    assert not passes("https://v2.d.example/docs/1.0/install"), "a host is no version"
    assert passes("https://d.example/print/install", "another source")
    assert sum(passes(f"https://d.example/docs/{number}/install") for number in range(3, 300)) == 97


def test_what_a_stranger_sends_is_no_version_of_a_page_of_another_source_or_collection(tmp_path: Path) -> None:
    site = "https://zephyr.example/docs"
    works = {name: Work(tmp_path / name) for name in ("ours", "theirs")}
    for work, versions in zip(works.values(), [("1.0", "2.0"), ("98.0", "99.0")], strict=True):
        work.index.mkdir()
        for version, page in product(versions, ("install", "tuning")):
            body = f"# {page}\n\nThe {page} of the kettle is described here.".encode()
            PushedStore(work.index).put(Page(f"{site}/{version}/{page}", SOURCE, body, "text/markdown"))
        work.build()
    members = {name: Generation.open(work.index) for name, work in works.items()}
    joint = JointGeneration(members)
    editions = joint.editions(range(8))
    assert [edition and edition.version for edition in editions.values()] == 2 * ["1.0"] + 2 * ["2.0"] + [
        each for version in ("98.0", "99.0") for each in (version, version)
    ]
    pages = [edition.page for edition in editions.values() if edition]
    assert not {*pages[:4]} & {*pages[4:]}
    versions = members["ours"].manifest.versions
    assert edition_at(f"{site}/2.0/install", SOURCE, versions) is not None
    assert edition_at(f"{site}/2.0/install", "https://zephyr.example/", versions) is None
    for each in members.values():
        each.close()


WORDS = [f"{stem}{number}" for number in range(40) for stem in ("heron", "kettle", "meadow", "ladder", "willow")]


def prose(seed: int, length: int = 260) -> str:
    """Return sentences without sense, of which two seeds share hardly a run of words."""
    words = [WORDS[(seed * 7919 + place * (seed * 2 + 31)) % len(WORDS)] for place in range(length)]
    return ". ".join(" ".join(words[start : start + 12]) for start in range(0, length, 12)) + "."


def in_formats(folder: Path, *numbers: int, length: int = 260) -> None:
    """Write pages as HTML, each as AsciiDoc, and a book that has all of them."""
    folder.mkdir()
    for number in numbers:
        text = prose(number, length)
        html = f"<title>Page {number}</title><main><h1>Page {number}</h1><h2>Use</h2><p>{text}</p></main>"
        (folder / f"page{number}.html").write_text(html)
        (folder / f"page{number}.txt").write_text(f"Page {number}\n{'=' * 6}\n\nUse\n---\n{text}\n")
    (folder / "book.md").write_text("\n\n".join(prose(number, length) for number in numbers))
    (folder / "other.txt").write_text(prose(99))


def twins(work: Work) -> set[tuple[str, str]]:
    with closing(Generation.open(work.index)) as generation:
        names = {number: Path(facts.url).name for number, facts in generation.facts([*range(20)]).items()}
        return {(names[number], names[better]) for number, others in generation.twins.items() for better in others}


@pytest.mark.parametrize("length", [70, 260])
def test_documents_of_which_one_has_the_others_text_are_one_in_several_formats(tmp_path: Path, length: int) -> None:
    work, full = Work(tmp_path / "index"), Work(tmp_path / "full")
    in_formats(tmp_path / "docs", 1, 2, 3, length=length)
    work.build(tmp_path / "docs")
    expected = {(name, f"page{number}.html") for number in (1, 2, 3) for name in ("book.md", f"page{number}.txt")}
    assert twins(work) >= expected
    assert {name for name, _ in twins(work)} == {"book.md", "page1.txt", "page2.txt", "page3.txt"}
    assert not work.build(tmp_path / "docs").published
    (tmp_path / "docs" / "page2.html").write_text(f"<title>Page</title><main><h1>Page</h1><p>{prose(7)}</p></main>")
    (tmp_path / "docs" / "a.html").write_text(f"<title>A</title><main><h1>A</h1><p>{prose(99)}</p></main>")
    work.build(tmp_path / "docs")  # the others are carried over
    full.build(tmp_path / "docs")
    assert twins(work) == twins(full)
    assert ("other.txt", "a.html") in twins(work)
    assert not any(better == "page2.html" for _, better in twins(work))


def test_a_hit_stands_for_its_document_in_other_formats(tmp_path: Path) -> None:
    work = Work(tmp_path / "index")
    in_formats(tmp_path / "docs", 1, 2, 3)
    work.build(tmp_path / "docs")
    with closing(Generation.open(work.index)) as generation:
        retriever = Retriever(generation, work.embedder)
        query = " ".join(prose(2).split()[:5])
        first, *others = retriever.answer_query(SearchRequest(query=query, k=5)).hits
        assert first.url.split("#")[0].endswith("page2.html")
        assert {Path(url.split("#")[0]).name for url in first.duplicates} >= {"page2.txt"}
        assert not any("page2" in hit.url for hit in others)
        text = {"content_type": "text/plain"}
        [only, *_] = retriever.answer_query(SearchRequest(query=query, k=5, filter=text)).hits
        assert only.url.endswith("page2.txt"), "a filter finds the other format"
