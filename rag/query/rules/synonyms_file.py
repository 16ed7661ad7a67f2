"""The file of synonyms, read again when it has changed."""

import logging
import os
import time
from pathlib import Path

from indexer.errors import SynonymsError
from indexer.generation.lexical.synonyms import NO_SYNONYMS, Synonyms

_LOOKED_AT = 1.0  # seconds for which the file is taken to be as it was
_log = logging.getLogger(__name__)


class SynonymsFile:
    """The rules of a file as it is now. Safe to share between threads."""

    def __init__(self, path: str) -> None:
        """Read it; an empty path is no file. Raises SynonymsError, which names the file and, for a rule, its line."""
        self._path = Path(path).expanduser() if path else None
        self._stamp: tuple[int, ...] = ()
        self._rules = NO_SYNONYMS
        self._looked = 0.0
        if self._path:
            self._stamp = self._stamp_of(self._path)
            self._rules = self._read(self._path)
            self._looked = time.monotonic()

    def current(self) -> Synonyms:
        """Return the rules; while a changed file cannot be read, those before the change, and the log says why."""
        if self._path and time.monotonic() - self._looked >= _LOOKED_AT:
            self._looked = time.monotonic()
            try:
                stamp = self._stamp_of(self._path)
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._rules = self._read(self._path)
                    _log.info("synonyms were read again from %s", self._path)
            except SynonymsError as error:
                _log.warning("%s; the synonyms stay as they were", error)
        return self._rules

    @staticmethod
    def _stamp_of(path: Path) -> tuple[int, ...]:
        try:
            found = os.stat(path)
        except OSError as error:
            raise SynonymsError(f"{path}: {error.strerror}") from error
        return found.st_mtime_ns, found.st_size, found.st_ino

    @staticmethod
    def _read(path: Path) -> Synonyms:
        try:
            return Synonyms.parse(path.read_text(encoding="utf-8-sig"), str(path))
        except OSError as error:
            raise SynonymsError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SynonymsError(f"{path}: it is not UTF-8 ({error.reason} at byte {error.start:,})") from error
