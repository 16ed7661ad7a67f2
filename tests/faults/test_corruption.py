"""Every file of an index is damaged in every way; the error names the file, nothing hostile is ever opened, and a
server goes on with what it has, or starts with the newest generation that is whole."""

import gc
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import pytest
import tantivy

from indexer.errors import IndexCorrupt, IndexMissing, IndexUnwritable
from indexer.generation.generation import Generation
from indexer.generation.layout import current_id
from indexer.generation.lexical import headings, vocabulary
from indexer.generation.manifest import read_manifest
from indexer.publish.verification import problems_of, verify
from rag.query.request import SearchRequest
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.faults.conftest import SEGMENT
from tests.faults.world import World, live, rebuild

FILES = (
    "manifest.json",
    "documents.sqlite",
    "vectors.faiss",
    "rows.npy",
    "repetition.npy",
    "lexical/meta.json",
    *SEGMENT,
    *(f"lexical/{name}" for name in (*vocabulary.KINDS, *headings.KINDS)),
)

EACH_KIND = ("manifest.json", "documents.sqlite", "vectors.faiss", "rows.npy", "lexical/meta.json", "CURRENT")


def file_of(index: Path, name: str) -> Path:
    """A file of the live generation; the names of some are made up by Tantivy."""
    [path] = (index / "generations" / current_id(index)).glob(name)
    return path


def assert_corrupt(index: Path, path: Path) -> None:
    with pytest.raises(IndexCorrupt, match=f"^{re.escape(str(path))}: ") as caught:
        Generation.open(index)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; rebuild the index, or roll back to an older generation")


def test_these_are_all_the_files(index: Path) -> None:
    folder = file_of(index, "manifest.json").parent
    files = {file_of(index, name) for name in FILES}
    assert files == {path for path in folder.rglob("*") if path.is_file()}
    assert files == {folder / name for name in ("manifest.json", *read_manifest(folder).files)}


def _become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _become_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.write_bytes(path.read_bytes()[::-1])
    path.unlink()
    path.symlink_to(elsewhere)


def content(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


DAMAGES = {
    "cut in half": content(lambda old: old[: len(old) // 2]),
    "empty": content(lambda old: b""),
    "zeroed": content(lambda old: bytes(len(old))),
    "longer": content(lambda old: old + b"\n"),
    "deleted": Path.unlink,
    "a folder": _become_folder,
    "a link to something else": _become_link,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_named(index: Path, name: str, damage: str) -> None:
    path = file_of(index, name)
    DAMAGES[damage](path)
    assert_corrupt(index, path)


@pytest.mark.parametrize("name", FILES)
def test_one_changed_bit_is_found(index: Path, name: str) -> None:
    path = file_of(index, name)
    content = path.read_bytes()
    for position in range(0, len(content), max(1, len(content) // 12)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        assert_corrupt(index, path)
    path.write_bytes(content)
    live(index)


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_opened_before_everything_is_checked(
    index: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers of FAISS and Tantivy are not safe on hostile bytes."""

    def forbidden(*args: object) -> None:
        raise AssertionError("a file was opened")

    path = file_of(index, name)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(faiss, "read_index", forbidden)
    monkeypatch.setattr(tantivy.Index, "open", forbidden, raising=False)
    monkeypatch.setattr("sqlite3.connect", forbidden)
    monkeypatch.setattr("numpy.load", forbidden)
    assert_corrupt(index, path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"../../etc\n", b"/etc\n", b"20260101T000000-zzzzzz\n", b"x" * 1000, b"\xff\xfe", b"\x00" * 23],
)
def test_current_that_names_no_generation(index: Path, content: bytes) -> None:
    (index / "CURRENT").write_bytes(content)
    assert_corrupt(index, index / "CURRENT")


def test_current_that_is_a_folder(index: Path) -> None:
    _become_folder(index / "CURRENT")
    assert_corrupt(index, index / "CURRENT")


def test_current_that_names_a_missing_generation(index: Path) -> None:
    path = file_of(index, "manifest.json")
    shutil.rmtree(path.parent)
    assert_corrupt(index, path)


def test_current_deleted_is_no_index(index: Path) -> None:
    (index / "CURRENT").unlink()
    with pytest.raises(IndexMissing):
        Generation.open(index)


def test_a_generation_under_another_name(index: Path) -> None:
    path = file_of(index, "manifest.json")
    other = path.parent.with_name("20260101T000000-000000")
    path.parent.rename(other)
    (index / "CURRENT").write_text(f"{other.name}\n")
    assert_corrupt(index, other / "manifest.json")


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_build_mends_what_is_damaged(index: Path, world: World, name: str) -> None:
    path = index / name if name == "CURRENT" else file_of(index, name)
    damaged = path.parent
    path.write_bytes(b"nonsense")
    newest = rebuild(index, *world.sources)
    assert current_id(index) == newest != damaged.name
    assert problems_of(verify(index / "generations" / newest)) == []


@pytest.mark.parametrize("name", EACH_KIND[:-1])
def test_files_that_cannot_be_opened_do_not_stay_open(index: Path, name: str) -> None:
    file_of(index, name).write_bytes(b"nonsense")
    gc.collect()  # what earlier tests left open
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        with pytest.raises(IndexCorrupt):
            Generation.open(index)
    assert len(os.listdir("/proc/self/fd")) == before


def test_opening_leaves_nothing_behind(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once: Tantivy has a thread of its own at work for a while."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with ThreadPoolExecutor(8) as pool:
        for opened in [pool.submit(Generation.open, index) for _ in range(50)]:
            opened.result().close()
    assert list(temporary.iterdir()) == []


def test_no_place_for_a_temporary_folder(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.01)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(IndexUnwritable, match=r"lexical needs a temporary folder: .*; free some space, or set TMPDIR$"):
        Generation.open(index)
    server = LiveRetriever(load({"index": str(index)}, {}), lambda _: DummyEmbedder())
    try:
        server.start()
        wait_for(lambda: "needs a temporary folder" in server.status()["reason"])
        (tmp_path / "nowhere").mkdir()
        wait_for(lambda: server.ready)
        assert server.status()["generation"] == current_id(index)
        wait_for(lambda: server.status()["reason"] == "")
    finally:
        server.close()


# ---- a server on a damaged index ----


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        threading.Event().wait(0.005)


def replace(path: Path, content: bytes) -> None:
    """Put another file in its place; what is mapped into memory must not be written to."""
    new = path.with_name("new")
    new.write_bytes(content)
    os.replace(new, path)


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_server_goes_on_and_starts_with_what_is_whole(
    index: Path, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.01)
    settings = load({"index": str(index)}, {})
    good = current_id(index)
    running, started = (LiveRetriever(settings, lambda _: DummyEmbedder()) for _ in range(2))
    try:
        running.start()
        assert running.search(SearchRequest("fish")).generation == good
        bad = rebuild(index, *world.sources)
        wait_for(lambda: running.status()["generation"] == bad)
        path = index / name if name == "CURRENT" else file_of(index, name)
        replace(path, b"nonsense")
        started.start()
        served = started.search(SearchRequest("fish")).generation
        assert served == (bad if name == "CURRENT" else good)
        wait_for(lambda: str(path) in started.status()["reason"])
        assert started.status()["reason"].endswith(f"; meanwhile generation {served} is served")
        assert started.ready
        assert running.search(SearchRequest("fish")).generation == bad, "what is open stays open"
        mended = rebuild(index, *world.sources)
        wait_for(lambda: {server.status()["generation"] for server in (running, started)} == {mended})
        assert {server.status()["reason"] for server in (running, started)} == {""}
    finally:
        running.close()
        started.close()
