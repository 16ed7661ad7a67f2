"""What can go wrong with Milvus: every error names the address and says what to do, and none waits for long."""

import logging
import socket
import subprocess
import sys
import time
from concurrent import futures
from contextlib import closing, suppress

import grpc
import numpy as np
import pytest

from indexer.errors import IndexCorrupt, IndexMissing, StoreAddressError, StoreRefused, StoreUnreachable
from indexer.generation.manifest import Counts, Manifest
from indexer.generation.previous import ScannedDocument
from indexer.generation.writer import signature_of, word_hashes
from indexer.records import Chunk, Document
from indexer.stores import milvus as schema
from indexer.stores.milvus import MilvusAddress
from indexer.stores.milvus_store import MilvusStore
from tests.milvus_server import ids_of

ID = "20260101T000000-000000"
COLLECTION = "docs_20260101T000000_000000"
TOKEN = "root:a-secret"


@pytest.fixture
def store(milvus):
    with closing(MilvusStore(milvus.place("docs"))) as store:
        yield store
        if COLLECTION in call(store, "list_collections"):
            store.remove(ID)


@pytest.fixture
def live(store):
    write(store)
    store.make_live(ID)
    return store


def call(store, method, *args, **kwargs):
    return store._milvus.call(method, *args, **kwargs)


def manifest(count=2):
    counts = Counts(count, count, 4)
    return Manifest(ID, "2026-01-01T00:00:00+00:00", {"model": "m"}, counts, {}, {}, [], {})


def entry(name, text="some words"):
    url = f"https://t.test/{name}"
    document = Document(url, "s", "", (), "h", None, "", "2026-01-01T00:00:00+00:00", metadata={"a": ("x", "y")})
    chunk = Chunk(name, url, url, "", "", text, "", "h", 3, 0)
    return ScannedDocument(document, [chunk], [signature_of(word_hashes(text))], np.eye(4, dtype=np.float32)[:1])


def write(store):
    store.write(manifest(), [entry("a"), entry("b")])


def test_collections_of_other_stores_are_left_alone(live):
    address = live._address
    for other in ("docs", "docs_x_20260101T000000_000000", "docs_20260101T000000_000000_records", "other"):
        assert address.generation_of(other) is None
    with closing(MilvusStore(address.shown + "_2026")) as other:
        write(other)
        assert (ids_of(other), ids_of(live)) == ([ID], [ID])
        other.remove(ID)
    call(live, "alter_alias", f"{COLLECTION}_records", "docs")
    with pytest.raises(IndexCorrupt, match=f"names {COLLECTION}_records"):
        live.live_id()
    assert [listed.live for listed in live.published()] == [False]
    live.make_live(ID)
    assert live.live_id() == ID


def test_a_port_that_never_answers_and_one_that_is_closed(caplog):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"milvus://127.0.0.1:{silent.getsockname()[1]}/docs"
        start = time.monotonic()
        with pytest.raises(StoreUnreachable, match="in time"):
            MilvusStore(address, seconds_left=lambda: 0.2).live_id()
        assert time.monotonic() - start < 60  # far from the minutes that it would be without an end
    with pytest.raises(StoreUnreachable, match=rf"{address} .*check the address") as caught:
        MilvusStore(address, token=TOKEN).live_id()
    assert "a-secret" not in str(caught.value) + caplog.text


def test_a_server_that_goes_and_comes_back(fresh_milvus):
    left = 30.0
    with closing(MilvusStore(fresh_milvus.place("docs"), seconds_left=lambda: left)) as store:
        write(store)
        store.make_live(ID)
        generation = store.open()
        fresh_milvus.hang()
        left = 0.3
        with pytest.raises(StoreUnreachable):
            generation.search_vectors(np.eye(4, dtype=np.float32)[0], 1)
        fresh_milvus.wake()
        left = 30.0
        assert len(generation.search_vectors(np.eye(4, dtype=np.float32)[0], 1)[1]) == 1
        fresh_milvus.kill()
        with pytest.raises(StoreUnreachable):
            generation.search_terms(generation.read_query("words"), 1)
        fresh_milvus.start()
        until, found = time.monotonic() + 30, []
        while not len(found):
            assert time.monotonic() < until, "it never came back"
            with suppress(StoreUnreachable):
                found = generation.search_terms(generation.read_query("words"), 9).rows
        assert sorted(found.tolist()) == [0, 1]


def test_wrong_credentials(caplog):
    class Refusing(grpc.GenericRpcHandler):
        def service(self, details):
            said.append(dict(details.invocation_metadata).get("authorization", ""))
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure")
            )

    said = []
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with caplog.at_level(logging.DEBUG), pytest.raises(StoreRefused, match="PILOTLIGHT_MILVUS_TOKEN") as caught:
            MilvusStore(f"milvus://127.0.0.1:{port}/docs", token=TOKEN).live_id()
    finally:
        server.stop(None)
    assert said[0]  # they were sent
    assert "a-secret" not in str(caught.value) + caplog.text
    assert said[0] not in str(caught.value) + caplog.text


def test_what_a_killed_writer_left_goes_with_later_ones(store):
    older = "docs_20250101T000000_000000"
    call(store, "create_collection", older, schema=schema.passages_schema(4))
    call(store, "create_collection", COLLECTION, schema=schema.passages_schema(4))
    call(store, "create_collection", f"{COLLECTION}_records", schema=schema.records_schema())
    assert ids_of(store) == []
    with pytest.raises(IndexMissing):
        store.make_live(ID)
    write(store)
    store.make_live(ID)
    store.keep(1)
    assert sorted(call(store, "list_collections")) == [COLLECTION, f"{COLLECTION}_records"]
    assert ids_of(store) == [ID]


def test_passages_that_are_lost_are_found(live):
    call(live, "delete", COLLECTION, ids=[1])
    with pytest.raises(IndexCorrupt, match="1 chunks instead of 2"):
        live.open()


def test_a_manifest_that_is_not_as_it_was(live):
    class Changed(Manifest):
        def to_bytes(self):
            return super().to_bytes().replace(b'"model": "m"', b'"model": "n"')

    written = live.open().manifest
    records = schema.manifest_records(Changed(*(getattr(written, name) for name in written.__slots__)))
    call(live, "upsert", f"{COLLECTION}_records", records)
    with pytest.raises(IndexCorrupt, match=rf"docs collection {COLLECTION}: .*does not match its checksum.*rebuild"):
        live.open()
    [listed] = live.published()
    assert "does not match" in listed.problem


def test_nothing_of_milvus_is_imported_without_need():
    code = """
import sys
import indexer.stores, rag.commands.cli, rag.serving.live, rag.stores, web.app
assert not {"pymilvus", "milvus_lite", "grpc"} & set(sys.modules)
sys.modules["pymilvus"] = None
from indexer.errors import StoreAddressError
from indexer.stores.milvus_store import MilvusStore
try:
    MilvusStore("milvus://host/docs").live_id()
except StoreAddressError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "pip install 'pilotlight[milvus]'" in ran.stdout


def test_addresses():
    for text, uri, name, database in (
        ("milvus://host/docs", "http://host:19530", "docs", ""),
        ("milvuss://host:443/docs?database=x", "https://host:443", "docs", "x"),
        ("milvus://[::1]:1/_d", "http://[::1]:1", "_d", ""),
    ):
        address = MilvusAddress.parse(text)
        assert (address.uri, address.name, address.database, str(address)) == (uri, name, database, text)
        assert address.generation_of(address.collection(ID)) == ID
    for text in (
        *("milvus://host", "milvus://host/1docs", "milvus://host/a/b", "milvus://host:port/docs", "milvus:///docs"),
        *("milvus://host/docs?index=x", "milvus+lite:///a/m.db/docs", "s3://bucket/docs"),
    ):
        with pytest.raises(StoreAddressError, match=r"milvus://HOST:19530/NAME"):
            MilvusStore(text)
    with pytest.raises(StoreAddressError, match="PILOTLIGHT_MILVUS_TOKEN") as caught:
        MilvusStore(f"milvus://{TOKEN}@host/docs")
    assert "a-secret" not in str(caught.value)
