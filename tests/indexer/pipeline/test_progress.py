"""What a build says of itself while it runs."""

import io
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from indexer.config import BuildConfig, ChunkConfig, CrawlLimits
from indexer.errors import (
    IndexerError,
)
from indexer.pipeline.build import build
from indexer.pipeline.progress import Display, Progress, progress_for
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


def seconds_left(line: str) -> int:
    number, unit = line.rpartition("about ")[2].split()[:2]
    return int(number) * (60 if unit == "min" else 1)


def test_the_rate_is_that_of_late(progress: Progress, clock: Clock) -> None:
    progress.found(10_000)
    assert "(100 chunks/s, 10,000 tokens/s)" in go_on(progress, clock, 1_000, 0.1)[-1]
    assert "(10 chunks/s, 1,000 tokens/s)" in go_on(progress, clock, 60, 1)[-1], "a minute of it is enough to be told"


def test_the_time_left_does_not_rise_while_nothing_slows_down(progress: Progress, clock: Clock) -> None:
    progress.found(600)
    told = [seconds_left(line) for line in go_on(progress, clock, 600, 0.5)[10:]]
    assert told == sorted(told, reverse=True)
    assert (told[0] // 60, told[-1]) == (4, 0)


def test_the_time_left_does_not_rise_where_the_longest_are_embedded_first(progress: Progress, clock: Clock) -> None:
    """As in each block of chunks: at so many tokens a second, the long ones are fewer chunks a second."""
    progress.found(100)
    told, embedded, tokens = [], 0, 0
    progress.chunks(waiting=100, embedded=0, tokens=0, tokens_waiting=10_000)
    for block in range(10):
        for _ in range(10):
            progress.page()
        given, total = 100 * (block + 1), 10_000 * (block + 1)
        for length in (150, 125, 100, 75, 50):
            clock.now += 20 * length / 500
            embedded, tokens = embedded + 20, tokens + 20 * length
            progress.chunks(waiting=given - embedded, embedded=embedded, tokens=tokens, tokens_waiting=total - tokens)
            told.append(seconds_left(progress.line()))
    assert told[5:] == sorted(told[5:], reverse=True)


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


def test_no_time_is_told_until_something_is_embedded(progress: Progress, clock: Clock) -> None:
    """Reading is quick; and what compiling the model takes is not to be taken for the pace of embedding."""
    assert progress.line() == "reading: looking for pages, 0 s"
    progress.found(300)
    for page in range(1, 31):
        clock.now += 0.2
        progress.page()
        progress.waiting(10 * page, 1_000 * page)
    assert progress.line() == "reading: 30 of 300 pages, 0 of 300 chunks embedded, 6 s"
    clock.now += 60
    progress.chunks(waiting=300, embedded=0, tokens=0, tokens_waiting=30_000)
    assert progress.line() == "reading: 30 of 300 pages, 0 of 300 chunks embedded, 66 s"
    clock.now += 5
    progress.chunks(waiting=200, embedded=100, tokens=10_000, tokens_waiting=20_000)
    assert progress.line() == (
        "reading: 30 of 300 pages, 100 of 300 chunks embedded (20 chunks/s, 2,000 tokens/s), about 2 min left"
    )


def test_the_time_left_does_not_rise_while_a_step_takes_no_longer_than_others(progress: Progress, clock: Clock) -> None:
    progress.found(10)
    progress.chunks(waiting=500, embedded=0, tokens=0, tokens_waiting=50_000)
    go_on(progress, clock, 10, 5.0, chunks=50)
    before = progress.line()
    clock.now += 4.9
    assert progress.line() == before
    clock.now += 60
    assert "(10 chunks/s" in before
    assert "(3 chunks/s" in progress.line(), "it has stopped"


def test_pages_that_need_no_embedding_have_a_rate_of_their_own(progress: Progress, clock: Clock) -> None:
    progress.found(1_000)
    assert (
        go_on(progress, clock, 500, 0.01, chunks=0)[-1] == "reading: 500 of 1,000 pages (100 pages/s), about 5 s left"
    )


def test_phases_are_named(progress: Progress, clock: Clock) -> None:
    progress.phase("writing the index")
    clock.now += 7
    assert progress.line() == "writing the index, 7 s"


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


def test_what_is_opened_meanwhile_takes_the_line() -> None:
    stream = Terminal()
    outer = Display(stream, lambda: "reading")
    inner = Display(stream, lambda: "compiling the model")
    stream.truncate(0)
    outer.show()
    assert "reading" not in stream.getvalue()
    inner.show()
    assert "compiling the model" in stream.getvalue()
    inner.close()
    outer.show()
    assert "reading" in stream.getvalue()
    outer.close()


def test_embedding_is_told_in_small_steps(tmp_path: Path) -> None:
    """A block takes many seconds where a model is slow."""
    (tmp_path / "long.md").write_text("".join(f"# Part {n}\n\n{'Cats sleep. ' * 20}\n\n" for n in range(600)))
    told: list[int] = []

    class Noted(Progress):
        def _changed(self) -> None:
            told.append(self.as_dict()["chunks_embedded"])

    progress = Noted(io.StringIO(), "quiet")
    report = build([str(tmp_path / "long.md")], tmp_path / "index", DummyEmbedder(), CONFIG, progress=progress)
    steps = [after - before for before, after in pairwise(told) if after != before]
    assert sum(steps) == report.embedded
    assert max(steps) <= 64


def test_quiet_progress_says_nothing(docs: Path, tmp_path: Path) -> None:
    stream = io.StringIO()
    build([str(docs)], tmp_path / "index", DummyEmbedder(), CONFIG, progress=progress_for(stream, quiet=True))
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "make",
    [
        lambda: CrawlLimits(max_pages=0), lambda: CrawlLimits(max_depth=-1), lambda: CrawlLimits(timeout=0),
        lambda: CrawlLimits(timeout=float("nan")), lambda: CrawlLimits(max_bytes=0), lambda: CrawlLimits(concurrency=0),
        lambda: CrawlLimits(concurrency=1000), lambda: CrawlLimits(delay=-1), lambda: CrawlLimits(max_pages=True),
        lambda: CrawlLimits(max_pages="9"), lambda: CrawlLimits(user_agent="a\nb"), lambda: CrawlLimits(user_agent=""),
        lambda: ChunkConfig(tokens=1), lambda: ChunkConfig(overlap=-1), lambda: ChunkConfig(tokens=50, overlap=26),
        lambda: BuildConfig(keep_generations=0), lambda: CrawlLimits(sites=0),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(IndexerError, match="must be"):
        make()
