"""An index of vectors that is not trained anew while little changes."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.config import BuildConfig
from indexer.generation import vectors
from indexer.generation.generation import Generation
from indexer.pipeline.build import build
from tests.dummy import DummyEmbedder
from tests.faults.world import quiet


def write(folder: Path, first: int, last: int) -> None:
    for number in range(first, last):
        words = " ".join(f"w{number * 7 + place}" for place in range(6))
        (folder / f"{number:04}.txt").write_text(f"Text {number}: {words}.")


def test_training_is_taken_over_until_much_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, index = tmp_path / "folder", tmp_path / "index"
    folder.mkdir()
    trained: list[int] = []
    sample = vectors.VectorWriter._sample
    monkeypatch.setattr(
        vectors.VectorWriter, "_sample", lambda self, size: (trained.append(self.count), sample(self, size))[1]
    )
    monkeypatch.setattr(vectors, "_PQ_FROM", 630)
    embedder = DummyEmbedder(dimension=16)

    def rebuilt(*, full: bool = False) -> dict[str, int]:
        config = BuildConfig(full=full)
        build([str(folder)], index, embedder, config, progress=quiet())
        with closing(Generation.open(index)) as generation:
            for row in (0, generation.manifest.counts.chunks - 1):  # an old one and the newest
                [vector] = generation.vectors(np.array([row]))
                assert row in generation.search_vectors(vector, 5)[1]
            found: dict[str, int] = generation.manifest.settings["trained"]
            return found

    write(folder, 0, 640)
    assert rebuilt() == {"vectors": 640, "changed": 0}
    write(folder, 640, 660)
    assert rebuilt() == {"vectors": 640, "changed": 20}
    (folder / "0000.txt").unlink()
    assert rebuilt() == {"vectors": 640, "changed": 21}
    assert trained == [640]
    write(folder, 660, 710)
    assert rebuilt() == {"vectors": 709, "changed": 0}
    assert rebuilt(full=True) == {"vectors": 709, "changed": 0}
    assert trained == [640, 709, 709]
