"""Tokens through the life of an index: made once, taken over, kept by copies and archives, left out when told."""

import io
from pathlib import Path

import numpy as np
import pytest

from indexer.config import BuildConfig
from indexer.generation.generation import Generation
from indexer.generation.layout import current_id
from indexer.generation.manifest import TOKEN_OFFSETS, TOKENS
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.publish.publish import problems_of, verify
from tests.dummy import DummyEmbedder


class Kept:
    """An index of a folder of pages, and how its builds go."""

    def __init__(self, root: Path) -> None:
        self.pages, self.index, self.embedder = root / "pages", root / "index", DummyEmbedder()
        self.pages.mkdir()
        for name in ("one", "two", "three"):
            self.write(name, f"The {name} page is about {name} matters.")

    def write(self, name: str, text: str) -> None:
        (self.pages / f"{name}.md").write_text(f"# {name}\n\n{text}\n")

    def build(self, tokens: bool | None = None) -> tuple[int, int, bool]:
        """Return how many passages were embedded and taken over, and whether the build published."""
        self.said = io.StringIO()
        config, progress = BuildConfig(tokens=tokens), Progress(self.said, "shown")
        report = build([str(self.pages)], self.index, self.embedder, config, progress=progress)
        return report.embedded, report.carried, report.published

    @property
    def folder(self) -> Path:
        return self.index / "generations" / current_id(self.index)

    def tokens(self) -> dict[str, bytes]:
        """The signs of the live generation, by the text of the passage; each is as the embedder makes it."""
        assert problems_of(verify(self.folder)) == []
        generation = Generation.open(self.index)
        rows = np.arange(generation.manifest.counts.chunks)
        texts = [chunk.text for chunk in generation.chunks(rows)]
        assert generation.tokens is not None
        found = {text: generation.tokens.read(rows[i : i + 1])[0].tobytes() for i, text in enumerate(texts)}
        generation.close()
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_they_are_taken_over_as_vectors_are(kept: Kept) -> None:
    assert kept.build(tokens=True) == (3, 0, True)
    before = kept.tokens()
    assert kept.build() == (0, 0, False)
    kept.write("two", "Something else stands here now, with other words in it.")
    assert kept.build() == (1, 2, True)
    after = kept.tokens()
    assert len(before.items() & after.items()) == 2
    assert (kept.folder / TOKENS).stat().st_size < len(b"".join(after.values())) + 200


def test_an_index_without_them_stays_so_until_told(kept: Kept) -> None:
    assert kept.build() == (3, 0, True)
    assert not (kept.folder / TOKENS).exists()
    assert kept.build() == (0, 0, False)
    assert kept.build(tokens=True) == (3, 0, True)
    assert "tokens no -> yes: reading and embedding every page again" in kept.said.getvalue()
    assert len(kept.tokens()) == 3
    assert kept.build(tokens=False) == (0, 3, True)
    assert not (kept.folder / TOKENS).exists()
    assert not (kept.folder / TOKEN_OFFSETS).exists()
    assert kept.build(tokens=False) == (0, 0, False)
