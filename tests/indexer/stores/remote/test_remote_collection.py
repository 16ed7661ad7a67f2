"""Places of generations: what is read from them, what their errors say, and how a generation gets there."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.generation.current import current_id
from indexer.generation.layout import CURRENT, GENERATIONS
from indexer.generation.manifest import DOCUMENTS, LARGEST, MANIFEST, VECTORS, FileRecord, Manifest, read_manifest
from indexer.stores.remote.remote_collection import RemoteCollection, path_of
from indexer.stores.remote.upload import upload
from tests.indexer.server import Reply
from tests.indexer.server import Site as Server
from tests.rag.conftest import Site


@pytest.fixture
def place(place_url: str) -> RemoteCollection:
    return RemoteCollection(place_url)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def manifest_of(site: Site) -> Manifest:
    return read_manifest(site.index / GENERATIONS / current_id(site.index))


def test_an_empty_place(place):
    with pytest.raises(IndexMissing, match=f"no index at {place.url}; publish one with: pilotlight push"):
        place.live_id()
    assert place.collections() == ["default"]
    assert place.generation_ids() == []


def test_what_is_uploaded_is_there_and_whole(place, site):
    generation = site.build()
    done = upload(site.index, place, keep=2)
    assert (done.manifest.id, done.removed) == (generation, [])
    assert done.sent == sum(record.size for record in done.manifest.files.values())
    assert place.live_id() == generation
    raw, manifest = place.manifest(generation)
    folder = site.index / GENERATIONS / generation
    assert raw == (folder / MANIFEST).read_bytes()
    for name, record in manifest.files.items():
        assert b"".join(place.blocks(generation, name, record)) == (folder / name).read_bytes()
        assert b"".join(place.blocks(generation, name, record, 100)) == (folder / name).read_bytes()[100:]
    assert upload(site.index, place, keep=2).sent == 0


def test_an_index_folder_is_a_place(site):
    generation = site.build()
    site.build(collection="manuals")
    place = RemoteCollection(f"file://{site.index}")
    assert place.live_id() == generation
    assert place.collections() == ["default", "manuals"]
    assert place.collection("manuals").live_id() == current_id(site.index / "collections" / "manuals")


def test_an_upload_that_is_interrupted_is_invisible_and_gone_on_with(place, site, monkeypatch):
    first = site.build()
    upload(site.index, place, keep=2)
    second = site.build()
    put = RemoteCollection.put

    def failing(self, name, content):
        if name.endswith(VECTORS):
            raise StoreUnreachable("gone")
        put(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(RemoteCollection, "put", failing)
        with pytest.raises(StoreUnreachable):
            upload(site.index, place, keep=2)
    assert place.live_id() == first
    assert place.generation_ids() == [second, first]
    with pytest.raises(IndexCorrupt, match=f"{second}/manifest.json: is missing"):
        place.manifest(second)
    done = upload(site.index, place, keep=2)
    assert place.live_id() == second
    assert done.sent == manifest_of(site).files[VECTORS].size


def test_only_what_arrived_becomes_live(place, site, monkeypatch):
    first = site.build()
    upload(site.index, place, keep=2)
    site.build()
    put = RemoteCollection.put
    monkeypatch.setattr(
        RemoteCollection, "put", lambda self, name, content: put(self, name, b"x" if VECTORS in name else content)
    )
    with pytest.raises(IndexCorrupt, match=r"vectors\.faiss: is not what was sent"):
        upload(site.index, place, keep=2)
    assert place.live_id() == first


def test_a_damaged_generation_is_not_uploaded(place, site):
    site.publish_broken() if site.build() else None
    with pytest.raises(IndexCorrupt, match=VECTORS):
        upload(site.index, place, keep=2)
    assert place.generation_ids() == []


def test_a_generation_that_is_removed_while_it_is_sent(place, site, monkeypatch):
    generation = site.build()
    folder = site.index / GENERATIONS / generation
    monkeypatch.setattr("indexer.stores.remote.upload.check_files", lambda *_: (folder / VECTORS).unlink())
    with pytest.raises(StoreUnreachable, match=r"vectors\.faiss: cannot be written, as a file or the place was"):
        upload(site.index, place, keep=2)
    with pytest.raises(IndexMissing):
        place.live_id()


def test_older_generations_go_and_so_do_uploads_that_did_not_end(place, site):
    ids = [site.build()]
    upload(site.index, place, keep=2)
    half = "20200101T000000-000000"
    place.put(path_of(half, DOCUMENTS), b"half")
    ids.append(site.build())
    assert upload(site.index, place, keep=2).removed == [half]
    ids.append(site.build())
    assert upload(site.index, place, keep=2).removed == [ids[0]]
    assert place.generation_ids() == [ids[2], ids[1]]
    # going back: what is newer stays
    assert upload(site.index, place, keep=2, generation_id=ids[1]).removed == []
    assert place.live_id() == ids[1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda raw: raw.replace(b'"documents": 3', b'"documents": 4'), "does not match its checksum"),
        (lambda raw: raw[:-10], "is not JSON"),
        (lambda raw: b"x" * (LARGEST + 1), "is far too large"),
    ],
    ids=["altered", "cut", "huge"],
)
def test_a_manifest_that_is_not_as_it_was_published(tmp_path, site, change, told):
    (tmp_path / "shared").mkdir()
    place = RemoteCollection(f"file://{tmp_path}/shared")
    generation = site.build()
    upload(site.index, place, keep=2)
    place.put(path_of(generation, MANIFEST), change((site.index / GENERATIONS / generation / MANIFEST).read_bytes()))
    with pytest.raises(IndexCorrupt, match=f"shared/generations/{generation}/manifest.json: {told}"):
        place.manifest(generation)


@pytest.mark.parametrize("name", ["../../CURRENT", "/etc/passwd", "lexical/../../x", "a\\b/c", ".hidden"])
def test_a_manifest_cannot_name_files_elsewhere(place, site, name):
    generation = site.build()
    manifest = manifest_of(site)
    forged = replace(manifest, files={**manifest.files, name: FileRecord("0" * 64, 1)})
    place.put(path_of(generation, MANIFEST), forged.to_bytes())
    with pytest.raises(IndexCorrupt, match="has no valid files"):
        place.manifest(generation)


def test_objects_that_are_missing_or_changed(place, site):
    generation = site.build()
    upload(site.index, place, keep=2)
    record = manifest_of(site).files[VECTORS]
    place.put(path_of(generation, VECTORS), b"short")
    with pytest.raises(IndexCorrupt, match=r"vectors\.faiss: has 5 bytes instead of"):
        list(place.blocks(generation, VECTORS, record))
    with pytest.raises(IndexCorrupt, match=f"{place.url}/generations/{generation}/nothing.sqlite: is missing"):
        list(place.blocks(generation, "nothing.sqlite", record))
    place.put(CURRENT, b"../../etc\n")
    with pytest.raises(IndexCorrupt, match="CURRENT: does not name a generation"):
        place.live_id()


def test_a_bucket_that_is_not_there(bucket):
    place = RemoteCollection("s3://never-made/indexes")
    for ask in (place.live_id, place.collections):
        with pytest.raises(StoreUnreachable, match="s3://never-made/indexes: there is no such bucket"):
            ask()


def test_a_store_that_cannot_be_reached(bucket, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("indexer.stores.remote.client._RETRY", {"max_retries": 0})
    told = set()
    for _ in range(3):
        with pytest.raises(StoreUnreachable) as caught:
            RemoteCollection(bucket).live_id()
        told.add(str(caught.value))
    [only] = told  # the same every time, so that a log says it once
    assert only.startswith(f"{bucket}/CURRENT: the store does not answer as it should (HTTP error: ")
    with pytest.raises(StoreUnreachable, match=f"^{bucket}: the store does not"):
        RemoteCollection(bucket).collections()


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_are_refused(bucket, monkeypatch, status):
    server = Server()
    server.routes["/bucket/x/CURRENT"] = Reply(b"<Error><Code>SignatureDoesNotMatch</Code></Error>", status)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    try:
        with pytest.raises(StoreRefused, match=r"s3://bucket/x/CURRENT: .*AWS_SECRET_ACCESS_KEY"):
            RemoteCollection("s3://bucket/x").live_id()
    finally:
        server.close()


def test_a_shared_folder_that_is_not_mounted(tmp_path, site):
    place = RemoteCollection(f"file://{tmp_path}/mnt")
    with pytest.raises(StoreUnreachable, match="there is no folder"):
        place.collections()
    assert not (tmp_path / "mnt").exists()
    generation = site.build()
    upload(site.index, RemoteCollection(place.url), keep=1)
    assert place.live_id() == generation


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://host/index", "s3://BUCKET/PREFIX or file:///FOLDER"),
        ("s3:///index", "the bucket is missing"),
        ("file://host/index", "whole path"),
        ("file:///", "whole path"),
        ("s3://id:secret@bucket/x", "takes no user"),
        ("s3://bucket/x?key=secret", "takes no user"),
    ],
)
def test_addresses_that_cannot_be_used(url, told):
    with pytest.raises(StoreAddressError, match=told) as caught:
        RemoteCollection(url)
    assert "secret" not in str(caught.value).lower().replace("aws_secret_access_key", "")


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(StoreAddressError, match=r"pip install 'pilotlight\[remote\]'"):
        RemoteCollection("s3://bucket/x")


def test_an_index_in_a_folder_needs_no_client_of_stores():
    modules = "rag.commands.cli, rag.serving.replica_retriever, rag.commands.upkeep, indexer.build.build"
    code = f"import sys, {modules}; sys.exit('obstore' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
