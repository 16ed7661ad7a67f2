"""What a build says of itself while it runs."""

import io
import threading
import time
from pathlib import Path

import pytest

from indexer.config import BuildConfig, CrawlLimits
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress, progress_for
from tests.dummy import DummyEmbedder

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=20.0))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_counts_and_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    progress = Progress(io.StringIO(), "quiet")
    progress.phase("reading")
    assert progress.line() == "reading: looking for pages, 0 s"
    progress.found(100)
    progress.page()
    now += 4
    assert progress.line() == "reading: 1 of 100 pages (0 pages/s), 4 s"
    progress.chunks(waiting=1_500)
    progress.chunks(embedded=1_200)
    assert progress.line() == "reading: 1 of 100 pages, 1,200 of 1,500 chunks embedded (300 chunks/s), 4 s"


def test_lines_come_by_themselves_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while one call takes long, and tells nothing."""
    monkeypatch.setattr("indexer.pipeline.progress._LINES_EVERY", 0.01)
    enough = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if self.getvalue().count("\n") >= 2:
                enough.set()
            return super().write(text)

    stream = Stream()
    progress = progress_for(stream)
    progress.phase("reading")
    progress.found(3)
    assert enough.wait(10)
    progress.close()
    assert stream.getvalue().splitlines()[1] == "reading: 0 of 3 pages, 0 s"


def test_a_line_on_a_terminal_is_rewritten_and_left_clean(docs: Path, tmp_path: Path) -> None:
    stream = Terminal()
    progress = progress_for(stream)
    build([str(docs)], tmp_path / "index", DummyEmbedder(), CONFIG, progress=progress)
    progress.message("done")
    assert "\n" not in stream.getvalue().removesuffix("done\n")
    assert stream.getvalue().endswith("\r\x1b[Kdone\n")
    assert threading.active_count() == 1 or not any(
        thread.name == "pilotlight-display" for thread in threading.enumerate()
    )
