"""Files that say who may read what lies beside and below them: `.access.toml`, and `NAME.access.toml` for one file.

The nearest one counts. One that is there and cannot be read is a list of nobody.
"""

import os
import stat
from pathlib import Path

from indexer.errors import ParseError
from indexer.read.access_list import FILE, NOBODY, read_list
from indexer.records import Failure, Readers
from indexer.sources.folders.folder_tree import Tree

_LARGEST = 100_000  # bytes


class Lists:
    """Reads the files of lists of a folder, and notes in `troubles` which could not be."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.troubles: list[Failure] = []

    def of_folder(self, folder: Path, inherited: Readers) -> Readers:
        """Return who may read what is in a folder, where no list of its own says so: as in the folder above."""
        return self._read(folder / FILE, inherited)

    def of_file(self, path: Path, inherited: Readers) -> Readers:
        """Return who may read a file; without a list of its own, whoever may read its folder."""
        return self._read(path.with_name(path.name + FILE), inherited)

    def _read(self, path: Path, inherited: Readers) -> Readers:
        try:
            with open(self._tree.open(path), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ParseError("is no file")
                body = file.read(_LARGEST + 1)
            if len(body) > _LARGEST:
                raise ParseError(f"is larger than {_LARGEST:,} bytes")
            return read_list(body)
        except FileNotFoundError:
            return inherited
        except (OSError, ParseError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.troubles.append(Failure(path.as_uri(), f"{reason}: nobody may read what it is for"))
            return NOBODY
