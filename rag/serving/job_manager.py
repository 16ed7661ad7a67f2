"""Builds of the index that a server is asked for: each a process of its own, which outlives the one that began it.

What is known of a job lies in a folder, so that every worker of the server can tell it:

INDEX/jobs/lock        held while a job is begun or stopped
INDEX/jobs/<id>/lock   held for as long as the job's process lives, however it ends
    job.json           what was asked for
    pid, cancel        its process; there once it was told to stop
    progress.json      how far it is
    end.json           how it ended, with the report of the build
    log.txt            what it said
"""

import dataclasses
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from indexer.errors import BuildLocked, IndexUnwritable, SourceError
from indexer.generation.layout import DEFAULT, GENERATIONS, JOBS, LOCK, collection_dir, current_id, is_collection_name
from indexer.generation.manifest import is_generation_id, read_manifest
from indexer.publish.collections import live_id, writer_lock
from indexer.publish.publish import check_space, disk_errors, prepare
from indexer.sources.addresses import full_name, refuse_secret
from indexer.urls import is_below, places
from rag.errors import JobConflict, JobMissing, JobRefused, StorageFull
from rag.settings import Settings

JOB, END, PROGRESS, CANCEL = "job.json", "end.json", "progress.json", "cancel"
KEPT = 20  # jobs that have ended
RUNNER = (sys.executable, "-m", "rag.commands.jobs")
_UNPRINTABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff]")  # which no address has, and no file that can be named
_BEGUN = {"running", "cancelling"}


class JobManager:
    """Begins jobs, tells how far they are, and stops them. Any number of processes may do so at once."""

    def __init__(self, settings: Settings, runner: Sequence[str] = RUNNER) -> None:
        """Take the command that does a job, given its folder."""
        self._settings = settings
        self._runner = runner
        self._folder = settings.index_dir / JOBS

    def start(
        self, *, sources: Sequence[str] = (), add: bool = False, full: bool = False, collection: str = DEFAULT
    ) -> dict[str, Any]:
        """Begin to build a collection from sources, none for those of the live index; return the job as `get` does.

        Those that the index has not had lie below `job_sources`. `add` keeps the sources of the live index as well;
        `full` reads and cuts pages again that have not changed. Nothing is waited for. Raises JobRefused for what is
        not allowed, JobConflict where a job is under way, another process is building, or there is no source, and
        StorageFull.
        """
        names, within = self._checked(sources, add, collection)
        folder = collection_dir(self._settings.index_dir, collection)
        with writing(self._settings.index_dir, folder):
            self._folder.mkdir(exist_ok=True)
            with self._locked():
                jobs = self.all()
                if running := [job["id"] for job in jobs if job["state"] in _BEGUN]:
                    raise JobConflict(f"job {running[0]} is running: wait for it to end, or cancel it")
                try:
                    with writer_lock(folder, is_brief=True):
                        pass
                except BuildLocked as error:
                    raise JobConflict(str(error)) from error
                for job in jobs[KEPT - 1 :]:
                    shutil.rmtree(self._folder / job["id"])
                created = datetime.now(UTC)
                job_id = f"{created:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
                asked = {"collection": collection, "sources": names, "add": add, "full": full, "within": within}
                self._begin(
                    self._folder / job_id, asked | {"id": job_id, "created_at": f"{created:%Y-%m-%dT%H:%M:%SZ}"}
                )
        return self.get(job_id)

    def _begin(self, folder: Path, job: dict[str, Any]) -> None:
        """Start the process of a job; where that fails, nothing of the job stays."""
        try:
            folder.mkdir()
            # inherited, and so held until the process ends, from before anybody can know of the job
            with (folder / LOCK).open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                write(folder / JOB, job)
                settings = dataclasses.replace(self._settings, collection=job["collection"])
                pid = start_process([*self._runner, str(folder)], settings, lock, folder / "log.txt")
                (folder / "pid").write_text(str(pid))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def all(self) -> list[dict[str, Any]]:
        """Return the jobs that are remembered, newest first."""
        try:
            names = sorted(filter(is_generation_id, os.listdir(self._folder)), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        jobs = []
        for name in names:
            with suppress(JobMissing):  # just begun, or just forgotten
                jobs.append(self.get(name))
        return jobs

    def get(self, job_id: str) -> dict[str, Any]:
        """Return a job, JSON-ready: what was asked for, its state, progress, report and error. Raises JobMissing."""
        folder = self._folder / job_id
        asked: dict[str, Any] | None = _read(folder / JOB) if is_generation_id(job_id) else None
        if asked is None:
            raise JobMissing(job_id)
        lives = _is_held(folder / LOCK)
        end: dict[str, Any] | None = _read(
            folder / END
        )  # after the look at the lock: a process writes this before it gives the lock back
        told_to_stop = (folder / CANCEL).exists()
        if end is None and lives:
            end = {"state": "cancelling" if told_to_stop else "running"}
        elif end is None:
            why = None if told_to_stop else f"its process died; see {folder / 'log.txt'}"
            end = {"state": "cancelled" if told_to_stop else "failed", "error": why}
        asked.pop("within", None)  # what the operator allows is not for those who ask
        unknown = {"progress": _read(folder / PROGRESS), "ended_at": None, "report": None, "error": None}
        return asked | unknown | end

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Tell a job to stop; the live index stays as it is. Return the job. Raises JobMissing or JobConflict."""
        if self.get(job_id)["state"] in _BEGUN:
            with self._locked():
                if self.get(job_id)["state"] in _BEGUN:  # its process lives then, and has this number
                    (self._folder / job_id / CANCEL).touch()
                    with suppress(ProcessLookupError):
                        os.kill(int((self._folder / job_id / "pid").read_text()), signal.SIGINT)
                    return self.get(job_id)
        raise JobConflict(f"job {job_id} has ended")

    def _checked(self, sources: Sequence[str], add: bool, collection: str) -> tuple[list[str], dict[str, list[str]]]:
        """Full names of sources, and where those must stay that the index has not had before."""
        if not is_collection_name(collection):
            raise JobRefused("collection", "is not a name that a collection can have")
        if any(map(_UNPRINTABLE.search, sources)):
            raise JobRefused("sources", "must not contain control characters")
        try:
            for source in sources:
                refuse_secret(source)
        except SourceError as error:
            raise JobRefused("sources", "must not have a user name or password in an address") from error
        folder = collection_dir(self._settings.index_dir, collection)
        own = []
        if live_id(folder):
            own = read_manifest(folder / GENERATIONS / current_id(folder)).sources
        if not sources and (add or not own):
            why = "add needs sources" if own else "sources must name what to read: nothing is indexed there yet"
            raise JobConflict(why)
        names = list(dict.fromkeys(map(full_name, sources)))
        allowed = places(self._settings.job_sources)
        new = [name for name in names if name not in own]
        for name in new:
            if not is_below(name, allowed):
                raise JobRefused("sources", "may only name sources of the index, or places that the operator allows")
        return names, {name: list(allowed) for name in new}

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep others from beginning or stopping a job meanwhile, which takes a moment."""
        with (self._folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def writing(index_dir: Path, folder: Path, size: int = 0) -> Iterator[None]:
    """Make the folders of an index and a collection; raise StorageFull where there is no room for so many bytes."""
    try:
        with disk_errors(index_dir):
            prepare(index_dir)
            prepare(folder)
            check_space(folder, size)
            yield
    except IndexUnwritable as error:
        raise StorageFull(str(error)) from error


def start_process(command: Sequence[str], settings: Settings, lock: IO[str], log: Path) -> int:
    """Start a process that builds, with the settings and a lock that it holds until it ends; return its number."""
    with log.open("w") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env=os.environ | settings.as_environment(),
            start_new_session=True,  # so that a signal to the server is not one to the build
            pass_fds=[lock.fileno()],
        )
    threading.Thread(target=process.wait, name="pilotlight-build", daemon=True).start()  # no zombie stays
    return process.pid


def write(path: Path, content: dict[str, Any]) -> None:
    """Put a file in its place whole."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content), encoding="utf-8")
    os.replace(new, path)


def _read(path: Path) -> Any:
    with suppress(FileNotFoundError):
        return json.loads(path.read_text(encoding="utf-8"))


def _is_held(path: Path) -> bool:
    try:
        with suppress(FileNotFoundError), path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
