"""Every file of an index is damaged in every way; the error names the file, nothing hostile is ever opened, and a
server goes on with what it has, or starts with the newest generation that is whole."""

import gc
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np
import pytest
import tantivy

from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation.generation import Generation
from indexer.generation.lexical import vocabulary
from indexer.generation.manifest import current_id, read_manifest
from indexer.publish.publish import problems_of, verify
from rag.query.request import SearchRequest
from rag.serving.follower import Follower
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.faults.conftest import SEGMENT
from tests.faults.world import World, rebuild
from tests.waiting import wait_for

FILES = (
    "manifest.json",
    "documents.sqlite",
    "vectors.faiss",
    "rows.npy",
    "tokens.npy",
    "token_offsets.npy",
    "lexical/meta.json",
    *SEGMENT,
    *(f"lexical/{name}" for name in (*vocabulary.WORDS, *vocabulary.HEADINGS)),
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


def damages(path: Path) -> Iterator[bytes | None]:
    """Damage a file in each way; the way is bytes in its place, or something else that is not a file of its own."""
    old = path.read_bytes()
    yield from (old[: len(old) // 2], b"", bytes(len(old)), old + b"\n")
    for position in range(0, len(old), max(1, len(old) // 12)):
        yield old[:position] + bytes([old[position] ^ 1 << (position % 8)]) + old[position + 1 :]
    path.unlink()
    yield None
    elsewhere = path.parent.parent / "elsewhere"
    elsewhere.write_bytes(old[::-1])
    path.symlink_to(elsewhere)
    yield None
    path.unlink()
    path.mkdir()
    yield None


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_named_and_nothing_is_opened(index: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers of FAISS and Tantivy are not safe on hostile bytes."""

    def forbidden(*args: object) -> None:
        raise AssertionError("a file was opened")

    folder = file_of(index, "manifest.json").parent
    files = {file_of(index, each) for each in FILES}
    assert files == {path for path in folder.rglob("*") if path.is_file()}
    assert files == {folder / each for each in ("manifest.json", *read_manifest(folder).files)}
    for place, target in ((faiss, "read_index"), (tantivy.Index, "open"), (sqlite3, "connect"), (np, "load")):
        monkeypatch.setattr(place, target, forbidden, raising=False)
    gc.collect()  # what earlier tests left open
    path, before = file_of(index, name), len(os.listdir("/proc/self/fd"))
    for content in damages(path):
        if content is not None:
            path.write_bytes(content)
        assert_corrupt(index, path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_current_and_folders_that_do_not_fit(index: Path) -> None:
    path, current = file_of(index, "manifest.json"), index / "CURRENT"
    other = path.parent.with_name("20260101T000000-000000")
    path.parent.rename(other)
    assert_corrupt(index, path)
    current.write_text(f"{other.name}\n")
    assert_corrupt(index, other / "manifest.json")
    current.unlink()
    with pytest.raises(IndexMissing):
        Generation.open(index)
    current.mkdir()
    assert_corrupt(index, current)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"../../etc\n", b"/etc\n", b"20260101T000000-zzzzzz\n", b"x" * 1000, b"\xff\xfe", b"\x00" * 23],
)
def test_current_that_names_no_generation(index: Path, content: bytes) -> None:
    (index / "CURRENT").write_bytes(content)
    assert_corrupt(index, index / "CURRENT")


@pytest.mark.parametrize("name", EACH_KIND)
def test_a_server_goes_on_and_starts_with_what_is_whole(
    index: Path, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag.serving.follower.POLL_SECONDS", 0.01)
    settings = load({"index": str(index)}, {})
    good = current_id(index)
    running, started = (LiveRetriever(Follower(settings, lambda _: DummyEmbedder())) for _ in range(2))
    try:
        running.start()
        assert running.search(SearchRequest("fish")).generation == good
        bad = rebuild(index, *world.sources)
        wait_for(lambda: running.status()["generation"] == bad)
        path = index / name if name == "CURRENT" else file_of(index, name)
        new = path.with_name("new")
        new.write_bytes(b"nonsense")
        os.replace(new, path)  # what is mapped into memory must not be written to
        started.start()
        served = started.search(SearchRequest("fish")).generation
        assert served == (bad if name == "CURRENT" else good)
        wait_for(lambda: str(path) in started.status()["reason"])
        assert started.status()["reason"].endswith(f"; meanwhile generation {served} is served")
        assert started.ready
        assert running.search(SearchRequest("fish")).generation == bad, "what is open stays open"
        mended = rebuild(index, *world.sources)
        assert problems_of(verify(index / "generations" / mended)) == []
        wait_for(lambda: {server.status()["generation"] for server in (running, started)} == {mended})
        assert {server.status()["reason"] for server in (running, started)} == {""}
    finally:
        running.close()
        started.close()
