"""Jobs of a server: builds of the index in separate processes. All workers read the state of jobs from files:

INDEX/jobs/lock        locked while a job is started or stopped
INDEX/jobs/<id>/lock   locked by the process of the job until it ends
    job.json           the request
    pid                id of the process
    cancel             exists if the job has been cancelled
    end.json           final state of the job, with the report of the build
    log.txt            output of the process
"""

import dataclasses
import fcntl
import json
import os
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

from indexer.errors import BuildLocked, IndexUnwritable
from indexer.generation.manifest import (
    DEFAULT,
    GENERATIONS,
    JOBS,
    LOCK,
    collection_dir,
    current_id,
    is_collection_name,
    is_generation_id,
    read_manifest,
)
from indexer.publish.publish import check_space, disk_errors, live_id, prepare, writer_lock
from rag.errors import JobConflict, JobMissing, RequestRefused, StorageFull
from rag.settings import Settings

RUNNER = (sys.executable, "-m", "rag.commands.jobs")
JOB, END, CANCEL = "job.json", "end.json", "cancel"
MAX_ENDED_JOBS = 20


class JobManager:
    """Starts, lists and stops jobs. Several processes may manage the same jobs."""

    def __init__(self, settings: Settings, runner: Sequence[str] = RUNNER) -> None:
        """Create a manager. `runner` is the command that runs a job. It receives the folder of the job as argument."""
        self._settings = settings
        self._runner = runner
        self._folder = settings.index_dir / JOBS

    def start(self, collection: str = DEFAULT, *, full: bool = False) -> dict[str, Any]:
        """Start a build of a collection from its sources, and return the job. `full` reprocesses unchanged pages too.

        Raises:
            RequestRefused: the name of the collection is invalid.
            JobConflict: another build is running, or the collection has no sources.
            StorageFull: the disk is full.
        """
        folder = folder_of(self._settings, collection)
        if not live_id(folder) or not read_manifest(folder / GENERATIONS / current_id(folder)).sources:
            raise JobConflict(f"collection {collection!r} has no sources: index some first")
        with writing(self._settings.index_dir, folder):
            self._folder.mkdir(exist_ok=True)
            with self._locked():
                ids = self._ids()
                if running := next(filter(self._is_running, ids), None):
                    raise JobConflict(f"job {running} is running: wait for it to end, or cancel it")
                try:
                    with writer_lock(folder, is_brief=True):
                        pass
                except BuildLocked as error:
                    raise JobConflict(str(error)) from error
                for old in ids[MAX_ENDED_JOBS - 1 :]:
                    shutil.rmtree(self._folder / old)
                created = datetime.now(UTC)
                job_id = f"{created:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
                at = f"{created:%Y-%m-%dT%H:%M:%SZ}"
                job = {"id": job_id, "created_at": at, "collection": collection, "full": full}
                self._begin(self._folder / job_id, job)
        return self.get(job_id)

    def _begin(self, folder: Path, job: dict[str, Any]) -> None:
        """Create the folder of a job and start its process. If this fails, the folder is removed."""
        try:
            folder.mkdir()
            # Lock before other processes can see the job. The process of the job inherits the lock until it ends.
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
        """Return the recorded jobs, newest first."""
        jobs = []
        for name in self._ids():
            with suppress(JobMissing):
                jobs.append(self.get(name))
        return jobs

    def _ids(self) -> list[str]:
        try:
            return sorted(filter(is_generation_id, os.listdir(self._folder)), reverse=True)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _is_running(self, job_id: str) -> bool:
        folder = self._folder / job_id
        return _is_locked(folder / LOCK) and not (folder / END).exists()

    def get(self, job_id: str) -> dict[str, Any]:
        """Return a job, JSON-ready: its request, state, report and error. Raises JobMissing if the id is unknown."""
        folder = self._folder / job_id
        request: dict[str, Any] | None = _read(folder / JOB) if is_generation_id(job_id) else None
        if request is None:
            raise JobMissing(job_id)
        is_alive = _is_locked(folder / LOCK)  # must precede reading END, which is written before the lock is released
        end: dict[str, Any] | None = _read(folder / END)
        is_cancelled = (folder / CANCEL).exists()
        if end is None and is_alive:
            end = {"state": "cancelling" if is_cancelled else "running"}
        elif end is None and is_cancelled:
            end = {"state": "cancelled"}
        elif end is None:
            end = {"state": "failed", "error": f"its process died; see {folder / 'log.txt'}"}
        return request | {"ended_at": None, "report": None, "error": None} | end

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Tell a job to stop, and return the job. Raises JobMissing if it is unknown, JobConflict if it has ended."""
        self.get(job_id)
        with self._locked():
            if not self._is_running(job_id):
                raise JobConflict(f"job {job_id} has ended")
            with suppress(OSError):
                (self._folder / job_id / CANCEL).touch()
            with suppress(ProcessLookupError):  # the process may have just ended
                os.kill(int((self._folder / job_id / "pid").read_text()), signal.SIGINT)
            return self.get(job_id)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Prevent other processes from starting or stopping jobs until the `with` block ends."""
        with (self._folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextmanager
def writing(index_dir: Path, folder: Path, size: int = 0) -> Iterator[None]:
    """Create both folders, and check that `size` bytes are free. Raises StorageFull, also if the block cannot write."""
    try:
        with disk_errors(index_dir):
            prepare(index_dir)
            prepare(folder)
            check_space(folder, size)
            yield
    except IndexUnwritable as error:
        raise StorageFull(str(error)) from error


def start_process(command: Sequence[str], settings: Settings, lock: IO[str], log: Path) -> int:
    """Start a build process, and return its id. The file `lock` stays locked until the process ends."""
    with log.open("w") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env=os.environ | settings.as_environment(),
            start_new_session=True,  # signals to the server must not reach the build
            pass_fds=[lock.fileno()],
        )
    threading.Thread(target=process.wait, name="pilotlight-build", daemon=True).start()  # prevents a zombie process
    return process.pid


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content), encoding="utf-8")
    os.replace(new, path)


def _read(path: Path) -> Any:
    with suppress(FileNotFoundError):
        return json.loads(path.read_text(encoding="utf-8"))


def _is_locked(path: Path) -> bool:
    try:
        with suppress(FileNotFoundError), path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def folder_of(settings: Settings, collection: str) -> Path:
    """Return the folder of a collection. Raises RequestRefused for an invalid name."""
    if not is_collection_name(collection):
        raise RequestRefused("collection", "is not a valid collection name")
    return collection_dir(settings.index_dir, collection)
