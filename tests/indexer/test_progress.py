import io
from pathlib import Path

import pytest

from indexer.build import build
from indexer.config import BuildConfig, ChunkConfig, CrawlLimits
from indexer.errors import (
    IndexerError,
)
from indexer.progress import progress_for
from tests.dummy import DummyEmbedder

CONFIG = BuildConfig(crawl=CrawlLimits(allow_private=True, timeout=5.0))


def test_progress_lines(docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.progress._LINE_EVERY", 0.0)
    stream = io.StringIO()
    build([str(docs)], tmp_path / "index", DummyEmbedder(), CONFIG, progress=progress_for(stream))
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("0 of 3 pages, 0 chunks embedded")
    assert lines[-1].startswith("3 of 3 pages, 5 chunks embedded")
    assert "left" in lines[-1]


def test_progress_bars_on_a_terminal(docs: Path, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    progress = progress_for(stream)
    build([str(docs)], tmp_path / "index", DummyEmbedder(), CONFIG, progress=progress)
    progress.message("done")
    assert "3/3" in stream.getvalue()
    assert "5/5" in stream.getvalue()
    assert "pages/s" in stream.getvalue() or "pages" in stream.getvalue()


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
