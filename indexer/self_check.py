"""Looks after the files of a generation that is being served: sizes at once, contents a few blocks at a time.

A file that is gone is left alone: whoever serves the generation has it open, and deleting one does no harm.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from indexer.errors import IndexUnreadable
from indexer.manifest import Manifest, corrupt, unreadable

_BLOCK = 1 << 20


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compare the size of every file with its record. Raises IndexCorrupt."""
    for name, record in manifest.files.items():
        with suppress(OSError):
            size = (folder / name).stat().st_size
            if size != record.size:
                raise corrupt(folder / name, f"has {size:,} bytes instead of {record.size:,}")


def check_contents(folder: Path, manifest: Manifest) -> Iterator[int]:
    """Compare every file with its checksum; yield the bytes of each block that was read. Raises IndexCorrupt."""
    for name, record in manifest.files.items():
        path, digest, size = folder / name, hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
                    size += len(block)
                    yield len(block)
        except FileNotFoundError:
            continue
        except OSError as error:
            with suppress(IndexUnreadable):  # for now: the next look will tell
                raise unreadable(path, error) from error
            continue
        if (digest.hexdigest(), size) != (record.sha256, record.size):
            raise corrupt(path, "differs from its checksum")
