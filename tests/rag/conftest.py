from pathlib import Path

import pytest

from indexer.build import build
from indexer.config import BuildConfig
from indexer.progress import progress_for
from tests.dummy import DummyEmbedder

PAGES = {
    "partial.md": "# Partial indexes\n\nA partial index covers only the rows of a table that satisfy a predicate.\n",
    "vacuum.md": "# Vacuum\n\nVacuum reclaims the storage that dead tuples occupy.\n",
    "fsync.md": "# Durability\n\nTurning fsync off risks data corruption when power fails.\n",
}


class Site:
    """A folder of pages and an index built from it with the dummy embedder."""

    def __init__(self, root: Path) -> None:
        self.source = root / "source"
        self.index = root / "index"
        self.source.mkdir()
        for name, text in PAGES.items():
            (self.source / name).write_text(text, encoding="utf-8")

    def build(self, embedder: DummyEmbedder | None = None) -> str:
        """Build a generation and return its id."""
        import io

        progress = progress_for(io.StringIO(), quiet=True)
        report = build([str(self.source)], self.index, embedder or DummyEmbedder(), BuildConfig(), progress=progress)
        return report.generation


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
