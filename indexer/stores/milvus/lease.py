"""The right to write to a name in Milvus, which one process at a time holds, and which lapses when that dies.

Milvus has no compare-and-set, and creates a collection anew without an error if it is there already. What it does do is
show every collection to whoever lists them after it was made. So a writer makes an empty collection of its own, whose
name says who it is and until when it counts, and then looks whether it is alone; of two that see each other both step
back. The holder renames its collection while it is at work. Whoever finds one that has run out drops it by its full
name: if it was renamed meanwhile, nothing is dropped.

The name is NAME_writer_TOKEN_UNTIL_SINCE_PID_MACHINE_HOST, with times in seconds since 1970 by the clock of the holder.
A holder on this machine that is no more does not count, however long its lease.
"""

import hashlib
import os
import random
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from indexer.errors import BuildLocked, IndexerError, IndexMissing, StoreError
from indexer.stores.milvus import schema
from indexer.stores.milvus.connection import MilvusConnection

LEASE_S = 60.0  # that a lease counts from its last renewal
RENEWED_S = 15.0  # between renewals
_TRIES = 4  # of writers that begin at the same moment
_PAUSE_S = 0.5
_HOST = 32  # characters of a name of 255
_CHANGING = 60.0  # seconds of one call that makes, renames or drops a collection


class _Lease(NamedTuple):
    collection: str
    token: str
    until: float
    since: float
    pid: int
    machine: str  # see `_machine`
    host: str  # its first characters, with _ for those that no collection may have in its name


class WriterLease:
    """A lease that is held; renewed by a thread until it is given back."""

    def __init__(self, milvus: MilvusConnection, lease: _Lease) -> None:
        self._milvus = milvus
        self._token = lease.token
        self._lost = False
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep, name="pilotlight-milvus-lease", daemon=True)

    def start(self) -> None:
        """Begin to renew it."""
        self._renewer.start()

    def check(self) -> None:
        """Raise BuildLocked if it has run out and another process may be writing; asks nobody."""
        if self._lost:
            raise BuildLocked(
                f"{self._milvus.address}: this process was not heard of for {LEASE_S:.0f} seconds, and its right to "
                "write has run out; the live generation is unchanged: begin again"
            )

    def confirm(self) -> None:
        """Ask whether it is still held, before a step that others see. Raises BuildLocked, or as a store does."""
        self._lost = self._lost or not any(lease.token == self._token for lease in _leases(self._milvus))
        self.check()

    def release(self) -> None:
        """Give it back, so far as it is still held; what cannot be given back now runs out."""
        self._ended.set()
        if self._renewer.ident:
            self._renewer.join()
        with suppress(StoreError, IndexMissing):
            for lease in _leases(self._milvus):
                if lease.token == self._token:
                    _drop(self._milvus, lease)

    def _keep(self) -> None:
        while not self._ended.wait(RENEWED_S) and not self._lost:
            with suppress(IndexerError):  # Milvus is away for now, or the next look says that it is lost
                self._renew()

    def _renew(self) -> None:
        for lease in _leases(self._milvus):
            if lease.token == self._token:
                renewed = _until_later(self._milvus, lease)
                self._milvus.call("rename_collection", lease.collection, renewed.collection, most=_CHANGING)
                return
        self._lost = True


@contextmanager
def writer_lease(milvus: MilvusConnection) -> Iterator[WriterLease]:
    """Hold the right to write to the name of an address.

    Raises:
        BuildLocked: another process holds it; the message says which, and until when.
        StoreUnreachable, StoreRefused: Milvus does not answer, or not so.
    """
    lease = WriterLease(milvus, _acquire(milvus))
    lease.start()
    try:
        yield lease
    finally:
        lease.release()


def _acquire(milvus: MilvusConnection) -> _Lease:
    host = re.sub(r"[^0-9A-Za-z]", "_", socket.gethostname())[:_HOST] or "unknown"
    mine = _until_later(milvus, _Lease("", secrets.token_hex(8), 0, int(_now()), os.getpid(), _machine(), host))
    for attempt in range(1, _TRIES + 1):
        if held := _other(milvus, mine.token):
            raise _locked(milvus, held)
        milvus.call("create_collection", mine.collection, schema=schema.lease_schema(), most=_CHANGING)
        held = _other(milvus, mine.token)
        if held is None:
            return mine
        _drop(milvus, mine)
        if attempt == _TRIES:
            raise _locked(milvus, held)
        time.sleep(random.uniform(0, _PAUSE_S * attempt))  # noqa: S311 - so that they do not meet again
        mine = _until_later(milvus, mine)
    raise AssertionError("the last attempt returns or raises")


def _other(milvus: MilvusConnection, token: str) -> _Lease | None:
    """Return the lease of another process, None if there is none; those that have run out are dropped."""
    held = None
    for lease in _leases(milvus):
        if lease.token == token:
            continue
        if lease.until >= _now() and not _is_gone(lease):
            held = lease
        else:
            _drop(milvus, lease)
    return held


def _leases(milvus: MilvusConnection) -> list[_Lease]:
    form = re.compile(
        rf"{milvus.address.name}_writer_([0-9a-f]{{16}})_(\d+)_(\d+)_(\d+)_([0-9a-f]{{8}})_(\w+)", re.ASCII
    )
    found = map(form.fullmatch, milvus.call("list_collections"))
    return [_Lease(of.string, of[1], int(of[2]), int(of[3]), int(of[4]), of[5], of[6]) for of in found if of]


def _until_later(milvus: MilvusConnection, lease: _Lease) -> _Lease:
    """Return the lease as it counts from now on."""
    until = int(_now() + LEASE_S) + 1
    _, token, _, since, pid, machine, host = lease
    name = f"{milvus.address.name}_writer_{token}_{until}_{since:.0f}_{pid}_{machine}_{host}"
    return lease._replace(collection=name, until=until)


def _drop(milvus: MilvusConnection, lease: _Lease) -> None:
    milvus.call("drop_collection", lease.collection, most=_CHANGING)


def _machine() -> str:
    """Return 8 hex digits that are the same for processes that see each other: of one start, in one container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256(f"{boot} {os.stat('/proc/self/ns/pid').st_ino}".encode()).hexdigest()[:8]
    except OSError:
        return secrets.token_hex(4)


def _is_gone(lease: _Lease) -> bool:
    if lease.machine != _machine():
        return False
    try:
        os.kill(lease.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # of another user
        return False
    return False


def _now() -> float:
    return time.time()


def _locked(milvus: MilvusConnection, lease: _Lease) -> BuildLocked:
    since, until = (datetime.fromtimestamp(moment, UTC).isoformat() for moment in (lease.since, lease.until))
    return BuildLocked(
        f"another process is writing {milvus.address}: process {lease.pid} on {lease.host}, since {since}; wait for it "
        f"to end, or stop it. If it was killed, its right to write ends at {until}, unless it is renewed"
    )
