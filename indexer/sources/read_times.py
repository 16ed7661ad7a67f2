"""When each source of an index was last read, on disk, so that a schedule goes on where a process left off."""

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from indexer.generation.layout import READINGS


class ReadTimes:
    """Times of readings that went well, by collection and source."""

    def __init__(self, index_dir: Path, clock: Callable[[], float] = time.time) -> None:
        """Use the file in an index folder, which is made with the first reading; `clock` is seconds of Unix time."""
        self._path = index_dir / READINGS
        self._clock = clock

    def age(self, collection: str, source: str, settings: str) -> float | None:
        """Seconds since a source was last read with these settings, None if it never was; not less than 0."""
        entry = self._load().get(collection, {}).get(source)
        try:
            [at, made] = [entry["at"], entry["settings"]] if entry is not None else [None, None]
            return max(0.0, self._clock() - float(str(at))) if made == settings else None
        except (TypeError, KeyError, ValueError):  # never read, or the file was cut off: then it is read again
            return None

    def note(self, collection: str, sources: Iterable[tuple[str, str]]) -> None:
        """Note that sources, each with a digest of its settings, have been read now; raises OSError."""
        readings = self._load()
        entries = readings.setdefault(collection, {})
        entries |= {source: {"at": round(self._clock(), 3), "settings": settings} for source, settings in sources}
        part = self._path.with_name(f"{READINGS}.new")
        part.write_text(json.dumps(readings, indent=1, ensure_ascii=False), encoding="utf-8", errors="replace")
        os.replace(part, self._path)

    def _load(self) -> dict[str, dict[str, dict[str, object]]]:
        try:
            content = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        found = content.items() if isinstance(content, dict) else ()
        return {name: entries for name, entries in found if isinstance(entries, dict)}
