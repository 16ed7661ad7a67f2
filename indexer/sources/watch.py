"""Folders and files under observation: which have changed, reported when it has been quiet for a moment."""

import time
from collections.abc import Iterable
from pathlib import Path

from watchfiles._rust_notify import RustNotify

from indexer.errors import SourceError
from indexer.read.access_list import FILE

_QUIET = 300  # milliseconds without a change after which changes are reported
_MAX_WAIT = 5_000  # milliseconds after which they are reported in any case


class Watcher:
    """Observes sources until it is closed; a path that is not there yet is left out.

    Names that begin with a dot are ignored, as the build ignores them, but those of access lists are not. All below
    `ignored` is: an index that lies in a folder it is made from must not set off a build by being written.
    """

    def __init__(self, sources: Iterable[str], ignored: Path) -> None:
        """Begin to observe folders and files. Raises SourceError."""
        self._ignored = ignored.expanduser().absolute()
        self._observed: dict[str, tuple[Path, RustNotify]] = {}
        for source in sources:
            self.renew(source)

    def renew(self, source: str) -> None:
        """Observe a source again, which may have been removed and put back. Raises SourceError."""
        if source in self._observed:
            self._observed.pop(source)[1].close()
        root = Path(source).expanduser().absolute()
        if not root.exists():
            return
        is_folder = root.is_dir()
        place = root if is_folder else root.parent  # editors replace a file, which ends a watch on the file itself
        try:
            self._observed[source] = root, RustNotify([str(place)], False, False, _QUIET, is_folder, False)
        except (OSError, RuntimeError) as error:
            advice = "have systemd or cron run index again instead"
            raise SourceError(f"cannot watch {source}: {error}; {advice}") from error

    def wait(self, seconds: float | None) -> set[str]:
        """Return the sources that have changed; none after so many seconds. None waits until something changes."""
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            changed = {source for source, (root, notify) in self._observed.items() if self._has_changed(root, notify)}
            if changed or time.monotonic() > end:
                return changed
            if not self._observed:
                time.sleep(_QUIET / 1_000)

    def close(self) -> None:
        """Stop observing."""
        for _, notify in self._observed.values():
            notify.close()
        self._observed.clear()

    def _has_changed(self, root: Path, notify: RustNotify) -> bool:
        found = notify.watch(_MAX_WAIT, _QUIET, _QUIET, None)
        return isinstance(found, set) and any(self._concerns(root, Path(name)) for _, name in found)

    def _concerns(self, root: Path, path: Path) -> bool:
        if path == root:
            return True
        if not path.is_relative_to(root):  # beside a file
            return False
        steps = path.relative_to(root).parts
        hidden = any(step.startswith(".") for step in (steps[:-1] if path.name == FILE else steps))
        return not hidden and not path.is_relative_to(self._ignored)
