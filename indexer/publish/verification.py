"""Checks of a published generation: its manifest, the checksum of every file, its counts, and that every file opens."""

import hashlib
import os
import weakref
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from indexer.errors import IndexCorrupt, counted
from indexer.generation.generation import Generation
from indexer.generation.manifest import MANIFEST, Manifest, check_files, corrupt, read_manifest

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    what: str  # the finding, or the fault if it is not ok


def verify(folder: Path) -> list[Check]:
    """Check the folder of a generation; nothing is opened unless every checksum is right.

    Raises IndexUnreadable if a file cannot be read for a reason that says nothing about it.
    """
    try:
        manifest = read_manifest(folder)
    except IndexCorrupt as error:
        return [Check("manifest", False, str(error))]
    found = f"schema version {manifest.schema_version}, {len(manifest.files)} files"
    checks = [Check("manifest", True, found)]
    for name, record in manifest.files.items():
        try:
            check_files(folder, replace(manifest, files={name: record}))
            checks.append(Check(f"file {name}", True, f"{record.size:,} bytes, SHA-256 {record.sha256[:12]}…"))
        except IndexCorrupt as error:
            checks.append(Check(f"file {name}", False, str(error)))
    known = {folder / name for name in (MANIFEST, *manifest.files)}
    strangers = sorted(path for path in folder.rglob("*") if not path.is_dir() and path not in known)
    what = str(corrupt(strangers[0], "is not part of the generation")) if strangers else "none"
    checks.append(Check("other files", not strangers, what))
    if not problems_of(checks):
        try:
            with closing(Generation(folder, are_checked=True)) as generation:
                counts = generation.manifest.counts
            found = f"{counted(counts.documents, 'document')} and {counted(counts.chunks, 'chunk')} in every file"
            checks.append(Check("counts", True, found))
        except IndexCorrupt as error:
            checks.append(Check("counts", False, str(error)))
    return checks


def problems_of(checks: list[Check]) -> list[str]:
    """Return the problems that checks found, a line each."""
    return [check.what for check in checks if not check.ok]


class SelfCheck:
    """Checks the files of a generation that is being served, a few blocks at a time.

    The files stay open: one that is deleted, or has another in its place, is still what is served, and does no harm.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the files; one that cannot be opened now is left out."""
        self._folder = folder
        self._manifest = manifest
        self._files: dict[str, int] = {}
        for name in manifest.files:
            with suppress(OSError):
                self._files[name] = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, lambda files: list(map(os.close, files)), tuple(self._files.values()))

    def sizes(self) -> None:
        """Compare the size of every file with its record. Raises IndexCorrupt."""
        for name, file in self._files.items():
            size, wanted = os.fstat(file).st_size, self._manifest.files[name].size
            if size != wanted:
                raise corrupt(self._folder / name, f"has {size:,} bytes instead of {wanted:,}")

    def contents(self) -> Iterator[int]:
        """Compare every file with its checksum; yield the bytes of each block that was read. Raises IndexCorrupt."""
        for name, file in self._files.items():
            digest, size = hashlib.sha256(), 0
            while block := os.pread(file, _BLOCK, size):
                digest.update(block)
                size += len(block)
                yield len(block)
            if digest.hexdigest() != self._manifest.files[name].sha256:
                raise corrupt(self._folder / name, "differs from its checksum")
