"""What is in an index folder, and how generations become live, are gone back to and go."""

import errno
import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from indexer.errors import (
    BuildLocked,
    ConfigError,
    IndexCorrupt,
    IndexerError,
    IndexMissing,
    IndexUnreadable,
    IndexUnwritable,
)
from indexer.generation import manifest as manifests
from indexer.generation.generation import Generation
from indexer.generation.manifest import check_files, collection_dir, current_id, read_manifest
from indexer.pipeline import draft
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import (
    SelfCheck,
    disk_errors,
    drop_collection,
    generation_ids,
    list_collections,
    list_generations,
    prepare,
    publish,
    start,
    verify,
    writer_lock,
)
from indexer.stores import FolderStore
from rag.stores import roll_back
from tests.building import build_index


def rebuild(index: Path, docs: Path, keep: int = 5) -> str:
    return build_index(index, docs, keep_generations=keep, full=True).generation


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


def test_the_next_build_removes_what_killed_builds_left(
    index: Path, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def publish_and_die(*arguments: Any) -> None:
        publish(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(draft, "publish", publish_and_die)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            rebuild(index, docs, keep=2)
    assert len(generation_ids(index)) == 3


# Collections


@pytest.mark.parametrize("name", ["", "A", "-a", "a/b", "..", "x" * 65, "ä", "a\n", "a\x00"])
def test_names_that_are_refused(index: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"^the collection name [^\n]*$"):
        collection_dir(index, name)


def test_collections_stand_beside_one_another(index: Path, docs: Path) -> None:
    assert list_collections(index) == {}
    rebuild(collection_dir(index, "manuals"), docs)
    assert list(list_collections(index)) == ["manuals"]
    prepare(index)
    rebuild(index, docs)
    rebuild(collection_dir(index, "faq"), docs)
    (index / "collections" / "empty").mkdir()
    (index / "collections" / "Strange Name").mkdir()
    folders = {"default": index, "faq": index / "collections" / "faq", "manuals": index / "collections" / "manuals"}
    assert list_collections(index) == folders
    assert list(list_collections(index)) == list(folders)
    assert len({current_id(folder) for folder in folders.values()}) == 3
    for folder in folders.values():
        Generation.open(folder).close()


def test_dropping_a_collection(index: Path, docs: Path) -> None:
    folder = collection_dir(index, "manuals")
    rebuild(folder, docs)
    opened = Generation.open(folder)
    with writer_lock(folder), pytest.raises(BuildLocked):
        drop_collection(index, "manuals")
    assert list(list_collections(index)) == ["manuals"]
    drop_collection(index, "manuals")
    assert list_collections(index) == {}
    assert not folder.exists()
    assert opened.chunks([0])[0].text
    opened.close()
    prepare(folder)  # a collection without a published generation
    drop_collection(index, "manuals")
    assert not folder.exists()
    for name, error in (("manuals", "there is no"), ("default", "cannot be dropped"), ("../index", "is not valid")):
        with pytest.raises(IndexerError, match=error):
            drop_collection(index, name)
    rebuild(folder, docs)


# Generations


def test_listing_generations(index: Path, docs: Path) -> None:
    assert list_generations(index) == []
    ids = [rebuild(index, docs) for _ in range(3)]
    listed = list_generations(index)
    assert [generation.id for generation in listed] == ids[::-1]
    assert [generation.live for generation in listed] == [True, False, False]
    first = Generation.open(index).manifest
    facts = (first.created_at, 3, first.counts.chunks, "")
    assert (listed[0].created_at, listed[0].documents, listed[0].chunks, listed[0].problem) == facts
    folder = index / "generations" / ids[0]
    assert listed[2].bytes == sum(
        path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json"
    )
    (folder / "manifest.json").write_text("{}")
    (index / "CURRENT").write_text(ids[0])
    assert [generation.live for generation in list_generations(index)] == [False, False, True]
    (index / "CURRENT").write_text("nonsense")
    damaged = list_generations(index)
    assert (damaged[2].documents, damaged[2].id) == (None, ids[0])
    assert str(folder) in damaged[2].problem
    assert not any(generation.live for generation in damaged)


def test_rolling_back_step_by_step(index: Path, docs: Path) -> None:
    first, second, third = (rebuild(index, docs) for _ in range(3))
    assert roll_back(FolderStore(index)) == second == current_id(index)
    assert roll_back(FolderStore(index)) == first == current_id(index)
    with pytest.raises(IndexMissing, match="no generation older than the live one"):
        roll_back(FolderStore(index))
    assert generation_ids(index) == [third, second, first]
    assert roll_back(FolderStore(index), third) == current_id(index) == third


def test_what_was_rolled_back_from_goes_with_the_next_publish(index: Path, docs: Path) -> None:
    first, second = rebuild(index, docs), rebuild(index, docs)
    bad = rebuild(index, docs)
    roll_back(FolderStore(index), second)
    newest = rebuild(index, docs)
    assert bad not in generation_ids(index)
    assert generation_ids(index) == [newest, second, first]
    assert roll_back(FolderStore(index)) == second


NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def set_clock(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setattr("indexer.publish.publish.secrets.randbelow", lambda limit: limit - 1)
    monkeypatch.setattr("indexer.publish.publish.datetime", SimpleNamespace(now=lambda zone: now))


@pytest.mark.parametrize(
    "hours",
    [
        pytest.param((0, 0, 0, 0), id="it stands"),
        pytest.param((0, -3, -2, -1), id="it is set back by hours"),
        pytest.param((0, 24 * 365 * 40, 1, 2), id="it is decades ahead for one build"),
    ],
)
def test_whatever_the_clock_says_ids_follow_the_order_of_publishing(
    index: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, hours: tuple[int, ...]
) -> None:
    ids = []
    for hour in hours:
        set_clock(monkeypatch, NOON + timedelta(hours=hour))
        ids.append(rebuild(index, docs, keep=3))
    assert ids == sorted(set(ids))
    assert generation_ids(index) == ids[:0:-1]
    assert roll_back(FolderStore(index)) == ids[-2]
    assert rebuild(index, docs) > ids[-1]
    assert roll_back(FolderStore(index)) == ids[-2]


@pytest.mark.parametrize(
    ("newest", "following"),
    [
        ("20991231T235958-0000ff", "20991231T235958-000100"),
        ("20991231T235958-ffffff", "20991231T235959-000000"),
        ("99999999T999999-ffffff", None),
    ],
)
@pytest.mark.parametrize("place", ["generations", "CURRENT"])
def test_an_id_follows_the_newest_one_however_late_that_is(
    index: Path, place: str, newest: str, following: str | None
) -> None:
    (index / "generations" / (newest if place == "generations" else "")).mkdir(parents=True)
    (index / "CURRENT").write_text(f"{newest}\n")
    with nullcontext() if following else pytest.raises(IndexUnwritable, match="no id follows"):
        assert start(index, 2).name == following


# Locks and disks


def test_an_index_is_made_where_nothing_else_is(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(path: Path, mkdir: Callable[..., None] = Path.mkdir, **options: Any) -> None:
        mkdir(path)  # by another process, at the same time
        mkdir(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", make)
        prepare(index / "a")
    for name in ("c.txt", "b.txt"):
        (index / "a" / name).touch()
    with pytest.raises(IndexUnwritable, match=r"is not an index and not empty \(it has 'b.txt'\)"):
        prepare(index / "a")
    with pytest.raises(IndexUnwritable, match=r"b\.txt is a file; name a folder"):
        prepare(index / "a" / "b.txt")
    with writer_lock(index / "a"):
        prepare(index / "a")
        assert json.loads((index / "a" / "lock").read_bytes())["brief"] is False


@pytest.mark.parametrize(
    ("is_held_briefly", "is_brief", "note", "seconds", "words"),
    [
        (True, False, None, 30, r"process \d+ on .*, since 20"),
        (False, False, None, 0, r"process \d+ on .*, since 20"),
        (True, True, None, 0, r"process \d+ on .*, since 20"),
        (True, False, b"garbage", 1, "just started"),
        (True, False, b'{"pid": 7, "host": "h", "since": "20"}', 0, "process 7 on h, since 20; wait for it to end"),
    ],
)
def test_a_writer_waits_for_a_brief_one_alone(
    index: Path, monkeypatch: pytest.MonkeyPatch, is_held_briefly: bool, is_brief: bool, note: bytes, seconds: int,
    words: str,
) -> None:  # fmt: skip
    prepare(index)
    clock = SimpleNamespace(now=0.0)
    sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)  # noqa: E731
    monkeypatch.setattr("indexer.publish.publish.time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    monkeypatch.setattr("indexer.publish.publish._POLL_SECONDS", 0.25)  # a sum of them is exact
    with writer_lock(index, is_brief=is_held_briefly):
        if note:
            (index / "lock").write_bytes(note)
        with pytest.raises(BuildLocked, match=words), writer_lock(index, is_brief=is_brief):
            pass
    assert clock.now == seconds
    assert (index / "lock").read_bytes() == b""
    assert not (index / "lock").stat().st_mode & 0o133


def test_a_lock_of_a_dropped_collection_is_none(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(handle: int, how: int, flock: Callable[[int, int], None] = fcntl.flock) -> None:
        flock(handle, how)
        (index / "lock").rename(index / "CURRENT")
        (index / "lock").touch()

    prepare(index)
    monkeypatch.setattr(fcntl, "flock", drop)
    with pytest.raises(BuildLocked, match="just been dropped"), writer_lock(index):
        pass


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space"), "the disk is full"),
        (OSError(errno.EDQUOT, "No quota"), "the disk is full"),
        (OSError(errno.EACCES, "Permission denied", "a/b"), r"cannot write .*index: Permission denied \(a/b\)\Z"),
        (OSError("odd"), r"cannot write .*index: odd\Z"),
        (sqlite3.OperationalError("locked"), r"cannot write .*index: locked; is the disk full"),
    ],
)
def test_errors_of_a_disk_are_one_line(index: Path, error: Exception, words: str) -> None:
    with pytest.raises(IndexUnwritable, match=words), disk_errors(index):
        raise error


@pytest.mark.parametrize(("missing", "is_enough"), [(0, True), (1, False)])
def test_a_generation_needs_its_size_and_a_reserve(
    index: Path, docs: Path, monkeypatch: pytest.MonkeyPatch, missing: int, is_enough: bool
) -> None:
    def check(needed: int | None, *arguments: Any) -> None:
        assert needed is not None
        free = needed + 64 * 1024 * 1024 - missing
        words = f"{free / 1e6:,.0f} MB free, and {(free + 1) / 1e6:,.0f} MB are needed"
        with (
            monkeypatch.context() as patch,
            nullcontext() if is_enough else pytest.raises(IndexUnwritable, match=words),
        ):
            patch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
            start(index, 2, *arguments)

    prepare(index)
    check(0)
    rebuild(index, docs)
    check(list_generations(index)[0].bytes)
    check(5 * 10**12, None, 5 * 10**12)


@pytest.mark.parametrize("name", ["manifest.json", "vectors.faiss"])
def test_a_damaged_generation_is_not_gone_back_to(index: Path, docs: Path, name: str) -> None:
    older, live = rebuild(index, docs), rebuild(index, docs)
    path = index / "generations" / older / name
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(IndexCorrupt, match=name):
        roll_back(FolderStore(index))
    assert current_id(index) == live


def test_what_cannot_be_read_back_is_not_published(index: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise IndexCorrupt("a bit has changed")

    live = rebuild(index, docs)
    monkeypatch.setattr("indexer.publish.publish.Generation", refuse)
    with pytest.raises(IndexUnwritable, match="check the disk: a bit has changed"):
        rebuild(index, docs)
    assert (current_id(index), generation_ids(index)) == (live, [live])


def test_verifying_names_each_check_and_what_fails(index: Path, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = index / "generations" / rebuild(index, docs)
    manifest, path = read_manifest(folder), folder / "manifest.json"

    def outcome() -> list[tuple[str, bool]]:
        return [(check.name, check.ok) for check in verify(folder)]

    opened = [("manifest", True), *((f"file {name}", True) for name in manifest.files)]
    (folder / "empty").mkdir()
    assert outcome() == [*opened, ("other files", True), ("counts", True)]
    files = manifest.files.values()
    with monkeypatch.context() as patch:
        patch.setattr("indexer.generation.generation.manifests.check_files", Mock(wraps=check_files))
        assert [check.detail for check in verify(folder)] == [
            f"schema version {manifest.schema_version}, {len(files)} files",
            *(f"{record.size:,} bytes, SHA-256 {record.sha256[:12]}…" for record in files),
            "none",
            f"3 documents and {manifest.counts.chunks} chunks in every file",
        ]
        assert manifests.check_files.call_count == len(files), "each file is read once"
    for name in ("y", "x"):
        (folder / "empty" / name).touch()
    assert outcome() == [*opened, ("other files", False)]
    assert "empty/x: is not part of the generation" in verify(folder)[-1].detail
    shutil.rmtree(folder / "empty")
    path.write_bytes(replace(manifest, counts=replace(manifest.counts, documents=9)).to_bytes())
    assert outcome() == [*opened, ("other files", True), ("counts", False)]
    path.write_text("{}")
    assert outcome() == [("manifest", False)]


def test_open_files_are_compared_with_the_manifest(index: Path, docs: Path) -> None:
    folder = index / "generations" / rebuild(index, docs)
    path, files = folder / "vectors.faiss", SelfCheck(folder, read_manifest(folder))
    content = path.read_bytes()
    files.sizes()
    files.contents()
    path.write_bytes(bytes(len(content)))
    files.sizes()
    with pytest.raises(IndexCorrupt, match=r"vectors\.faiss: differs from its checksum"):
        files.contents()
    path.write_bytes(content[:-1])
    sizes = f"has {len(content) - 1:,} bytes instead of {len(content):,}"
    with pytest.raises(IndexCorrupt, match=rf"vectors\.faiss: {sizes}"):
        files.sizes()
    path.unlink()
    SelfCheck(folder, files._manifest).sizes()  # a missing file is found by others


@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_a_lost_current_is_found_again(index: Path, docs: Path, content: bytes | None) -> None:
    newest = [rebuild(index, docs) for _ in range(2)][-1]
    (index / "CURRENT").unlink()
    if content is not None:
        (index / "CURRENT").write_bytes(content)
    assert roll_back(FolderStore(index)) == newest
    Generation.open(index).close()


# Trouble of the machine while an index is read: it says nothing about the index, and nothing is done about it


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Have files of a name fail to open."""

    def arm(name: str, code: int) -> None:
        real, real_os = Path.open, os.open

        def refuse(path: object) -> None:
            if str(path).endswith(name):
                raise OSError(code, os.strerror(code), str(path))

        def opened(path: Path, *args: Any, **kw: Any) -> Any:
            refuse(path)
            return real(path, *args, **kw)

        def handle(path: Any, *args: Any, **kw: Any) -> int:
            refuse(path)
            return real_os(path, *args, **kw)

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(os, "open", handle)

    return arm


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("name", ["documents.sqlite", "manifest.json", "CURRENT"])
def test_it_is_said_with_what_to_do(
    index: Path, docs: Path, failing: Callable[[str, int], None], name: str, code: int
) -> None:
    rebuild(index, docs)
    failing(name, code)
    for work in (lambda: Generation.open(index), lambda: rebuild(index, docs)):
        with pytest.raises(IndexUnreadable, match="may be intact") as caught:
            work()
        assert os.strerror(code) in str(caught.value)
        assert "rebuild the index" not in str(caught.value)


def test_a_generation_is_not_taken_for_damaged(
    index: Path, docs: Path, tmp_path: Path, failing: Callable[[str, int], None]
) -> None:
    live = [rebuild(index, docs) for _ in range(2)][-1]
    export_archive(index, tmp_path / "a.tar")
    inode = (index / "generations" / live).stat().st_ino
    failing(f"generations/{live}/vectors.faiss", errno.EMFILE)
    with pytest.raises(IndexUnreadable):
        verify(index / "generations" / live)
    with pytest.raises(IndexUnreadable):
        import_archive(index, tmp_path / "a.tar", keep_generations=2)
    with pytest.raises(IndexUnreadable):
        roll_back(FolderStore(index), live)
    assert current_id(index) == live
    assert (index / "generations" / live).stat().st_ino == inode, "it was not replaced"
    assert [entry.problem for entry in list_generations(index)] == ["", ""]
