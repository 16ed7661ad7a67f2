import shutil
import sys
from pathlib import Path

import pytest

from indexer.build import build
from indexer.config import BuildConfig
from indexer.generation import Generation
from indexer.progress import Progress
from tests.dummy import DummyEmbedder

ROOT = Path(__file__).resolve().parents[2]


def rebuild(index: Path, source: Path, keep: int = 2) -> str:
    config = BuildConfig(keep_generations=keep)
    return build([str(source)], index, DummyEmbedder(), config, progress=Progress(sys.stderr, "quiet")).generation


def check(index: Path) -> str:
    """The live generation opens, verifies and answers; returns its id."""
    generation = Generation.open(index)
    try:
        _, rows = generation.search(DummyEmbedder().encode(["fish"], role="query")[0], 2)
        assert "fish" in generation.chunks(rows)[0].text
        return generation.id
    finally:
        generation.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "cats.html").write_text("<h1>Cats</h1><p>Cats sleep.<h2 id=food>Food</h2><p>Cats eat fish.")
    (folder / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
    return folder


@pytest.fixture
def index(tmp_path: Path, source: Path) -> Path:
    """An index with two generations."""
    folder = tmp_path / "index"
    rebuild(folder, source)
    rebuild(folder, source)
    return folder


def copy(index: Path, name: str) -> Path:
    target = index.with_name(name)
    shutil.copytree(index, target)
    return target
