"""The copy of an index: how it follows its place, and what it does with what is half there or damaged."""

import errno
import itertools
import os
import shutil
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.errors import BuildLocked, IndexCorrupt, IndexMissing, IndexUnwritable, StoreUnreachable
from indexer.generation.current import current_id
from indexer.generation.generation import Generation
from indexer.generation.layout import BUILDING, CURRENT, GENERATIONS, collection_dir
from indexer.generation.manifest import DOCUMENTS, MANIFEST, VECTORS, read_manifest
from indexer.publish.collections import drop_collection, generation_ids, list_collections
from indexer.publish.lock import writer_lock
from indexer.publish.publish import roll_back
from indexer.publish.verification import problems_of, verify
from indexer.stores.remote.remote_collection import RemoteCollection, path_of
from indexer.stores.remote.replica import Replica
from indexer.stores.remote.upload import upload
from tests.rag.conftest import Site


class World:
    """An index that is built, the place where it is published, and a copy of that."""

    def __init__(self, root: Path, url: str) -> None:
        self.site = Site(root)
        self.place = RemoteCollection(url)
        self.copy = root / "copy"
        self._pages = itertools.count()

    def build(self, collection: str = "default") -> str:
        """Build a generation of which no file but one is that of another."""
        number = next(self._pages)
        (self.site.source / "new.md").write_text(f"# Page {number}\n\nThe fresh page number{number}.\n")
        return self.site.build(collection=collection)

    def publish(self, collection: str = "default") -> str:
        generation = self.build(collection)
        upload(collection_dir(self.site.index, collection), self.place.collection(collection), keep=3)
        return generation

    def update(self, keep: int = 2) -> None:
        Replica(self.place, self.copy, keep=keep).update()


@pytest.fixture
def world(tmp_path: Path, place_url: str) -> World:
    return World(tmp_path, place_url)


@pytest.fixture
def local(tmp_path: Path) -> World:
    """One whose place is a folder: where it makes no difference."""
    (tmp_path / "shared").mkdir()
    return World(tmp_path, f"file://{tmp_path}/shared")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes of each file that were asked for."""
    counted: dict[str, int] = {}
    blocks = RemoteCollection.blocks

    def counting(self, generation_id, file, record, start=0):
        for block in blocks(self, generation_id, file, record, start):
            counted[file] = counted.get(file, 0) + len(block)
            yield block

    monkeypatch.setattr(RemoteCollection, "blocks", counting)
    return counted


def folder_of(index: Path, generation: str) -> Path:
    return index / GENERATIONS / generation


def sizes(index: Path, generation: str) -> dict[str, int]:
    return {name: record.size for name, record in read_manifest(folder_of(index, generation)).files.items()}


def test_the_copy_is_the_index(world, sent):
    generation = world.publish()
    sent.clear()
    world.update()
    assert current_id(world.copy) == generation
    assert problems_of(verify(folder_of(world.copy, generation))) == []
    for path in folder_of(world.site.index, generation).rglob("*"):
        if path.is_file():
            copied = folder_of(world.copy, generation) / path.relative_to(folder_of(world.site.index, generation))
            assert copied.read_bytes() == path.read_bytes()
    assert sent == sizes(world.copy, generation)
    world.update()
    assert sent == sizes(world.copy, generation)  # nothing was asked for again
    assert list((world.copy / BUILDING).iterdir()) == []


def test_it_follows_forward_and_back_and_keeps_so_many(world, sent):
    ids = []
    for _ in range(3):
        ids.append(world.publish())
        world.update()
        assert current_id(world.copy) == ids[-1]
    assert generation_ids(world.copy) == [ids[2], ids[1]]
    sent.clear()
    older = roll_back(world.site.index)
    upload(world.site.index, world.place, keep=3)
    sent.clear()
    world.update()
    assert (current_id(world.copy), sent) == (older, {})


def test_half_a_generation_is_invisible(local):
    first = local.publish()
    local.update()
    second = local.build()
    local.place.put(path_of(second, DOCUMENTS), folder_of(local.site.index, second) / DOCUMENTS)
    local.update()
    assert generation_ids(local.copy) == [first]


def test_a_fetch_that_was_broken_off_is_gone_on_with(world, sent, monkeypatch):
    monkeypatch.setattr("indexer.stores.remote.remote_collection.BLOCK", 300)
    first = world.publish()
    world.update()
    second = world.publish()
    blocks = RemoteCollection.blocks

    def breaking(self, generation_id, file, record, start=0):
        for number, block in enumerate(blocks(self, generation_id, file, record, start)):
            if file == VECTORS and number == 1:
                raise StoreUnreachable("gone")
            yield block

    sent.clear()
    with monkeypatch.context() as patch:
        patch.setattr(RemoteCollection, "blocks", breaking)
        with pytest.raises(StoreUnreachable):
            world.update()
    assert current_id(world.copy) == first
    assert (folder_of(world.copy, first) / MANIFEST).exists()
    begun = dict(sent)
    assert begun[DOCUMENTS] == sizes(world.site.index, second)[DOCUMENTS]
    sent.clear()
    world.update()
    assert current_id(world.copy) == second
    assert sent == {VECTORS: sizes(world.copy, second)[VECTORS] - 300}
    assert problems_of(verify(folder_of(world.copy, second))) == []


def half(world: World, length: int | None = None) -> tuple[str, Path]:
    """Leave a file of a new generation half fetched, or something else of some length; its id and its folder."""
    generation = world.publish()
    building = world.copy / BUILDING / generation
    building.mkdir(parents=True)
    (world.copy / "lock").touch()
    shutil.copy(folder_of(world.site.index, generation) / MANIFEST, building)
    content = (folder_of(world.site.index, generation) / VECTORS).read_bytes()
    (building / VECTORS).write_bytes(content[:200] if length is None else b"x" * length)
    return generation, building


def test_half_a_file_is_completed(world, sent):
    generation, _ = half(world)
    sent.clear()
    world.update()
    assert sent[VECTORS] == sizes(world.copy, generation)[VECTORS] - 200
    assert problems_of(verify(folder_of(world.copy, generation))) == []


@pytest.mark.parametrize("length", [200, 1_000_000])
def test_half_a_file_that_is_something_else_is_fetched_anew(local, sent, length):
    generation, _ = half(local, length)
    sent.clear()
    local.update()
    assert sent[VECTORS] >= sizes(local.copy, generation)[VECTORS]
    assert problems_of(verify(folder_of(local.copy, generation))) == []


def test_what_is_left_of_another_generation_goes(local):
    _, building = half(local)
    generation = local.publish()
    local.update()
    assert current_id(local.copy) == generation
    assert not building.exists()


@pytest.mark.parametrize("damage", ["altered", "short", "missing", "manifest"])
def test_a_damaged_object_leaves_the_old_generation_live(world, damage):
    first = world.publish()
    world.update()
    second = world.publish()
    name = path_of(second, MANIFEST if damage == "manifest" else VECTORS)
    content = (folder_of(world.site.index, second) / VECTORS).read_bytes()
    if damage == "missing":
        manifest = read_manifest(folder_of(world.site.index, second))
        world.place.remove(second)
        for file in manifest.files:
            if file != VECTORS:
                world.place.put(path_of(second, file), folder_of(world.site.index, second) / file)
        world.place.put(path_of(second, MANIFEST), manifest.to_bytes())
    else:
        world.place.put(name, content[:-1] if damage == "short" else content[:-1] + b"x")
    with pytest.raises(IndexCorrupt, match=f"{world.place.url}/{name}: "):
        world.update()
    assert (current_id(world.copy), generation_ids(world.copy)) == (first, [first])
    upload(world.site.index, world.place, keep=2)
    world.update()
    assert current_id(world.copy) == second


def test_a_damaged_copy_is_mended_and_only_what_is_damaged_is_fetched(world, sent):
    generation = world.publish()
    world.update()
    path = folder_of(world.copy, generation) / VECTORS
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    sent.clear()
    world.update()
    assert sent == {VECTORS: len(content)}
    assert path.read_bytes() == content


def test_another_generation_of_the_same_name_takes_its_place(local):
    generation = local.publish()
    local.update()
    folder = folder_of(local.site.index, generation)
    manifest = replace(read_manifest(folder), sources=["elsewhere"])
    (folder / MANIFEST).write_bytes(manifest.to_bytes())
    upload(local.site.index, local.place, keep=2)
    local.update()
    assert Generation.open(local.copy).manifest.sources == ["elsewhere"]


def test_one_process_fetches(local):
    first = local.publish()
    local.update()
    local.publish()
    with writer_lock(local.copy), pytest.raises(BuildLocked):
        local.update()
    assert current_id(local.copy) == first


def test_a_full_disk(local, monkeypatch):
    first = local.publish()
    local.update()
    second = local.publish()
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(100, 99, 1))
        with pytest.raises(IndexUnwritable, match="the disk has 0 MB free"):
            local.update()

    def full(self, *arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    with monkeypatch.context() as patch:
        patch.setattr(RemoteCollection, "blocks", full)
        with pytest.raises(IndexUnwritable, match=f"{local.copy}: the disk is full"):
            local.update()
    assert current_id(local.copy) == first
    local.update()
    assert current_id(local.copy) == second


def test_collections_come_and_go(world, tmp_path):
    world.publish()
    manuals = world.publish("manuals")
    world.update()
    assert list(list_collections(world.copy)) == ["default", "manuals"]
    assert current_id(world.copy / "collections" / "manuals") == manuals
    world.place.collection("manuals").remove(manuals)
    world.place.collection("manuals").put(CURRENT, b"nonsense")
    with pytest.raises(IndexCorrupt, match="collections/manuals/CURRENT"):
        world.update()
    assert list(list_collections(world.copy)) == ["default", "manuals"]
    if world.place.url.startswith("file:"):
        drop_collection(tmp_path / "shared", "manuals")
        world.update()
        assert list(list_collections(world.copy)) == ["default"]


def test_a_collection_that_is_damaged_keeps_no_other_back(local):
    local.publish()
    broken = local.publish("broken")
    local.place.collection("broken").put(path_of(broken, VECTORS), b"x")
    manuals = local.publish("manuals")
    with pytest.raises(IndexCorrupt, match="collections/broken/"):
        local.update()
    assert list(list_collections(local.copy)) == ["default", "manuals"]
    assert current_id(local.copy / "collections" / "manuals") == manuals


def test_a_place_that_is_emptied_takes_nothing_away(world):
    generation = world.publish()
    world.update()
    world.place.put(CURRENT, b"")
    with pytest.raises(IndexCorrupt, match="CURRENT"):
        world.update()
    empty = Replica(RemoteCollection(f"{world.place.url}/nothing"), world.copy, keep=2)
    with pytest.raises((IndexMissing, StoreUnreachable)):
        empty.update()
    assert current_id(world.copy) == generation


def test_a_folder_with_something_else_in_it_is_left_alone(local):
    local.publish()
    local.copy.mkdir()
    (local.copy / "letters.txt").write_text("dear")
    with pytest.raises(IndexUnwritable, match=r"not empty \(it has 'letters.txt'\)"):
        local.update()
