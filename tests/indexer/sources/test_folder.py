"""Folders and files: what is read, opened and watched, and nothing beyond."""

import os
from pathlib import Path

import pytest

from indexer.config import CrawlLimits
from indexer.errors import SourceError
from indexer.records import Failure, Page, PageRecord, Skip
from indexer.source_context import SourceContext
from indexer.sources.folder import Watcher, read_path
from tests.indexer.pipeline.incremental import Work


def read(path: Path | str, max_bytes: int = 1000) -> dict[str, Page | Skip | Failure]:
    items = read_path(SourceContext(str(path), CrawlLimits(max_bytes=max_bytes)))
    return {item.url.rpartition("/")[2]: item for item in items if not isinstance(item, PageRecord)}


def reasons(items: dict[str, Page | Skip | Failure]) -> dict[str, str]:
    return {name: item.reason for name, item in items.items() if not isinstance(item, Page)}


def test_readable_files_come_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.md", "a.html", "sub/c.txt", "sub/b.HTM", "A.markdown", "z.xhtml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    due: list[int] = []
    pages = list(read_path(SourceContext(str(tmp_path), CrawlLimits(max_bytes=1000), report_due=due.append)))
    assert [page.url for page in pages] == [
        (tmp_path / name).as_uri() for name in ("A.markdown", "a.html", "b.md", "z.xhtml", "sub/b.HTM", "sub/c.txt")
    ]
    assert due == [6]
    first = pages[0]
    assert isinstance(first, Page)
    assert (first.body, first.content_type, first.source) == (b"A.markdown", "text/markdown", str(tmp_path))
    assert first.last_modified is not None
    assert first.last_modified.endswith("GMT")


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    for name in ("pic.png", "README", ".secret.txt", "caf\udce9.txt", "data.json", "notes.old"):
        (tmp_path / name).write_text("x")
    (tmp_path / "program").write_bytes(b"\x7fELF\x00")
    (tmp_path / "large").write_bytes(b"\x00" * 1001)
    (tmp_path / "big.txt").write_bytes(b"x" * 1001)
    (tmp_path / "fits.txt").write_bytes(b"x" * 1000)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.txt").write_text("x")
    items = read(tmp_path)
    assert {name for name, item in items.items() if isinstance(item, Page)} == {"fits.txt", "caf%E9.txt", "README"}
    assert isinstance(read(tmp_path / "fits.txt")["fits.txt"], Page), "a file is a source, too"
    assert reasons(items) == {
        "big.txt": "larger than 1,000 bytes",
        "pic.png": "an image: OCR is off",
        "program": "a file without suffix is not read",
        "large": "a file without suffix is not read",
        "data.json": "file type .json is not read",
        "notes.old": "file type .old is not read",
        ".secret.txt": "hidden",
        ".git": "hidden",
    }


def test_pipes_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    assert reasons(read(tmp_path)) == {"link.txt": "symbolic link", "pipe.txt": "pipe, socket or device"}
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        read(tmp_path / "pipe.txt")
    with pytest.raises(SourceError, match="neither a file nor a folder"):
        read("/dev/zero")


@pytest.mark.parametrize("source", ["nowhere", "a.png", "big.txt", "x\0y", "~nosuchuser/x"])
def test_sources_that_cannot_be_read(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_text("x")
    (tmp_path / "big.txt").write_bytes(b"x" * 2000)
    with pytest.raises(SourceError, match=r"^(cannot read|there is no file or folder) ") as caught:
        read(source)
    assert "\n" not in str(caught.value)


def test_an_index_in_the_folder_is_not_read(tmp_path: Path, work: Work) -> None:
    (tmp_path / "a.txt").write_text("Cats sleep.")
    assert work.build(tmp_path).documents == 1
    assert work.build(tmp_path).published is False
    assert reasons(read(tmp_path)) == {"index": "an index of Pilotlight"}


SOON, NEVER = 300.0, 0.2  # seconds; the first only passes where a test fails


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
def watcher(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Watcher:
    monkeypatch.setattr("indexer.sources.folder._POLL_SECONDS", 0.05)
    return Watcher([str(notes), str(notes / "a.txt")], notes / "index")


def test_a_folder_is_seen_to_change(notes: Path, watcher: Watcher) -> None:
    (notes / "deep" / "b.txt").write_text("b")
    assert watcher.wait(SOON) == {str(notes)}
    (notes / "new").write_text("as editors save")
    os.replace(notes / "new", notes / "a.txt")
    assert watcher.wait(SOON) == {str(notes), str(notes / "a.txt")}
    (notes / ".access.toml").write_text("everybody = true")
    assert watcher.wait(SOON) == {str(notes)}
    notes.rename(notes.with_name("gone"))
    assert watcher.wait(SOON) == {str(notes), str(notes / "a.txt")}


def test_what_the_build_ignores_changes_nothing(notes: Path, watcher: Watcher) -> None:
    (notes / ".git").mkdir()
    (notes / ".git" / "config").write_text("x")
    (notes / ".a.txt.swp").write_text("x")
    (notes / "index" / "building").mkdir(parents=True)
    (notes / "index" / "building" / "documents.sqlite").write_text("x")
    assert watcher.wait(NEVER) == set()
