"""Two writers of one name: one of them is refused, and changes nothing; what a killed one held runs out."""

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from indexer.errors import BuildLocked
from indexer.stores.milvus import lease as milvus_lease
from indexer.stores.milvus.milvus_store import MilvusStore
from tests.indexer.stores.milvus.test_milvus import entry, manifest

LIVE, NEXT = "20260101T000000-000000", "20260102T000000-000000"
_WRITER = """
import sys
from dataclasses import replace
from indexer.stores.milvus.milvus_store import MilvusStore
from tests.indexer.stores.milvus.test_milvus import entry, manifest

def entries():
    yield entry("a")
    print("writing", flush=True)
    sys.stdin.read()
    yield entry("b")

MilvusStore.at(sys.argv[1]).write(replace(manifest(), id=sys.argv[2]), entries())
"""


@pytest.fixture
def store(milvus):
    with closing(MilvusStore.at(milvus.place(f"docs_{secrets.token_hex(4)}"))) as store:
        yield store


def write(store, id):
    store.write(replace(manifest(), id=id), [entry("a"), entry("b")])


def leases(store):
    return milvus_lease._leases(store._milvus)


def test_a_second_writer_is_refused_until_the_first_has_ended_or_its_lease_has(store, monkeypatch):
    write(store, LIVE)
    store.make_live(LIVE)
    assert leases(store) == []
    line = [sys.executable, "-c", _WRITER, store.name, NEXT]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        said = rf"is writing {re.escape(store.name)}: process {writer.pid} on .+, since 2.+ wait for it to end"
        for use in (
            lambda: write(store, "20260103T000000-000000"),
            lambda: store.make_live(LIVE),
            lambda: store.remove(LIVE),
            lambda: store.keep(1),
        ):
            with pytest.raises(BuildLocked, match=said):
                use()
        assert (store.live_id(), store.ids()) == (LIVE, [LIVE])
        assert len(leases(store)) == 1
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(timeout=30)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(milvus_lease, "_machine", lambda: "0" * 8)  # from where nobody sees that it is no more
        with pytest.raises(BuildLocked, match=r"If it was killed, its right to write ends at 2"):
            write(store, NEXT)
    write(store, NEXT)
    store.make_live(NEXT)
    assert (store.live_id(), store.ids(), leases(store)) == (NEXT, [NEXT, LIVE], [])


def test_a_writer_that_lost_its_lease_publishes_nothing(store, monkeypatch):
    with closing(MilvusStore.at(store.name)) as other:

        def entries():
            yield entry("a")
            later = time.time() + milvus_lease.LEASE_S + 2
            with monkeypatch.context() as clock:  # this process seems to have hung meanwhile
                clock.setattr(milvus_lease, "_now", lambda: later)
                write(other, NEXT)
                other.make_live(NEXT)
            yield entry("b")

        with pytest.raises((BuildLocked, milvus_lease.IndexMissing)):  # its collection is gone as well
            store.write(manifest(), entries())
    assert (store.live_id(), store.ids(), leases(store)) == (NEXT, [NEXT], [])


def test_a_lease_is_renewed_while_it_is_held(store, monkeypatch):
    monkeypatch.setattr(milvus_lease, "RENEWED_S", 0.01)
    begun = time.time()
    with milvus_lease.writer_lease(store._milvus) as held:
        [first] = leases(store)
        monkeypatch.setattr(milvus_lease, "_now", lambda: begun + 1000)
        until = time.monotonic() + 30
        while leases(store) in ([], [first]):
            assert time.monotonic() < until
            threading.Event().wait(0.01)
        [renewed] = leases(store)
        assert (renewed.token, renewed.until > begun + 1000) == (first.token, True)
        held.confirm()
    assert leases(store) == []


def test_a_lease_that_was_dropped_is_told_at_once(store):
    with milvus_lease.writer_lease(store._milvus) as held:
        held.check()
        store._milvus.call("drop_collection", leases(store)[0].collection)
        for use in (held.confirm, held.check):
            with pytest.raises(BuildLocked, match=r"not heard of for 60 seconds.*the live generation is unchanged"):
                use()


def test_of_writers_that_begin_together_no_two_hold_the_lease(store, monkeypatch):
    monkeypatch.setattr(milvus_lease, "_PAUSE_S", 0.05)
    most, inside, guard = 0, 0, threading.Lock()
    together = threading.Barrier(4)

    def attempt(_):
        nonlocal most, inside
        together.wait()
        try:
            with milvus_lease.writer_lease(store._milvus):
                with guard:
                    inside += 1
                    most = max(most, inside)
                leases(store)  # a while, in which another could come in
                with guard:
                    inside -= 1
        except BuildLocked as error:
            return str(error)
        return "held"

    with ThreadPoolExecutor(4) as pool:
        outcomes = [outcome for _ in range(3) for outcome in pool.map(attempt, range(4))]
    assert most == 1
    assert "held" in outcomes
    assert all(outcome == "held" or "another process is writing" in outcome for outcome in outcomes)
    assert leases(store) == []


def test_leases_of_other_names_do_not_count(store, milvus):
    with (
        closing(MilvusStore.at(store.name + "_writer")) as longer,
        milvus_lease.writer_lease(store._milvus),
        milvus_lease.writer_lease(longer._milvus),
    ):
        assert store.ids() == longer.ids() == []
        assert len(leases(store)) == len(leases(longer)) == 1
