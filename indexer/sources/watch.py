"""Folders and files under observation: which have changed, reported when it has been quiet for a moment."""

import queue
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from watchfiles import Change, watch

from indexer.errors import SourceError
from indexer.read.access_list import FILE

_QUIET = 300  # milliseconds without a change after which changes are reported
_MAX_WAIT = 5_000  # milliseconds after which they are reported in any case
_START = 10.0  # seconds to begin; a large tree takes one


class Watcher:
    """Observes sources until it is closed, each in a thread; a path that is not there yet is left out.

    Names that begin with a dot are ignored, as the build ignores them, but those of access lists are not. All below
    `ignored` is: an index that lies in a folder it is made from must not set off a build by being written.
    """

    def __init__(self, sources: Iterable[str], ignored: Path) -> None:
        """Begin to observe folders and files."""
        self._ignored = ignored.expanduser().absolute()
        self._events: queue.Queue[str | SourceError] = queue.Queue()
        self._threads: dict[str, tuple[threading.Thread, threading.Event]] = {}
        for source in sources:
            self.renew(source)

    def renew(self, source: str) -> None:
        """Observe a source again, which may have been removed and put back."""
        self._end(source)
        root = Path(source).expanduser().absolute()
        if not root.exists():
            return
        began, stop = threading.Event(), threading.Event()
        arguments = (source, root, began, stop)
        thread = threading.Thread(target=self._watch, args=arguments, name=f"watch {source}", daemon=True)
        self._threads[source] = (thread, stop)
        thread.start()
        began.wait(_START)

    def wait(self, seconds: float | None) -> set[str]:
        """Return the sources that have changed; none after so many seconds. None waits until something changes.

        Raises SourceError if one cannot be observed any more.
        """
        changed: set[str] = set()
        with suppress(queue.Empty):
            event = self._events.get(timeout=seconds)
            while not isinstance(event, SourceError):
                changed.add(event)
                event = self._events.get_nowait()
            raise event
        return changed

    def close(self) -> None:
        """Stop observing."""
        for source in list(self._threads):
            self._end(source)

    def _end(self, source: str) -> None:
        if source in self._threads:
            thread, stop = self._threads.pop(source)
            stop.set()
            thread.join()

    def _watch(self, source: str, root: Path, began: threading.Event, stop: threading.Event) -> None:
        is_folder = root.is_dir()

        def concerns(_: Change, name: str) -> bool:
            path = Path(name)
            if not is_folder:
                return path == root
            steps = path.relative_to(root).parts
            hidden = any(step.startswith(".") for step in (steps[:-1] if path.name == FILE else steps))
            return not hidden and not path.is_relative_to(self._ignored)

        try:
            for changes in watch(
                root if is_folder else root.parent,  # editors replace a file, which ends a watch on the file itself
                watch_filter=concerns,
                debounce=_MAX_WAIT,
                step=_QUIET,
                rust_timeout=_QUIET,
                yield_on_timeout=True,  # the first of these says that it has begun
                stop_event=stop,
                recursive=is_folder,
                raise_interrupt=False,
            ):
                began.set()
                if changes:
                    self._events.put(source)
        except (OSError, RuntimeError) as error:
            advice = "have systemd or cron run index again instead"
            self._events.put(SourceError(f"cannot watch {source}: {error}; {advice}"))
        finally:
            began.set()
