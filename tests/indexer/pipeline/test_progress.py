"""What a build says of itself while it runs."""

import io
import threading
from collections.abc import Iterator
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


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Iterator[Progress]:
    found = Progress(io.StringIO(), "quiet", clock)
    found.phase("reading")
    yield found
    found.close()


def go_on(progress: Progress, clock: Clock, pages: int, seconds: float, *, chunks: int = 10) -> list[str]:
    """Do pages one after another, each in so many seconds and with so many chunks; what was said after each."""
    said = []
    for _ in range(pages):
        clock.now += seconds
        progress.page()
        embedded = progress.as_dict()["chunks_embedded"] + chunks
        progress.chunks(waiting=0, embedded=embedded, tokens=100 * embedded, tokens_waiting=0)
        said.append(progress.line())
    return said


def test_rates_and_the_time_left(progress: Progress, clock: Clock) -> None:
    progress.found(10_000)
    assert go_on(progress, clock, 1_000, 0.1)[-1].endswith("(100 chunks/s, 10,000 tokens/s), about 15 min left")


def test_no_time_is_told_while_pages_are_being_found(progress: Progress, clock: Clock) -> None:
    said = []
    for step in range(1, 101):
        progress.found(5 * step)
        said += go_on(progress, clock, 1, 0.5)
    assert all(" left" not in line for line in said)
    assert said[-1].endswith(
        "100 of 500 pages, 1,000 chunks embedded (20 chunks/s, 2,000 tokens/s), and more are being found"
    )
    assert "about" in go_on(progress, clock, 100, 0.5)[-1], "that is over"


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
