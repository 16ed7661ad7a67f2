"""Trouble of the machine while an index is read: it says nothing about the index, and nothing is done about it."""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.config import BuildConfig
from indexer.errors import IndexUnreadable
from indexer.generation.generation import Generation
from indexer.generation.manifest import current_id
from indexer.pipeline.build import build
from indexer.pipeline.progress import Progress
from indexer.publish.archive import export_archive, import_archive
from indexer.publish.publish import list_generations, roll_back, verify
from tests.dummy import DummyEmbedder

FAULTS = [errno.EMFILE, errno.EIO]


def rebuild(index: Path, docs: Path, **kw: Any) -> str:
    quiet = Progress(sys.stderr, quiet=True)
    return build([str(docs)], index, DummyEmbedder(), BuildConfig(**kw), progress=quiet).generation


@pytest.fixture
def index(tmp_path: Path, docs: Path) -> Path:
    rebuild(tmp_path / "index", docs)
    rebuild(tmp_path / "index", docs, full=True)
    return tmp_path / "index"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """Have files of a name fail to open."""

    def arm(name: str, code: int) -> None:
        real, real_os = Path.open, os.open

        def refuse(path: object) -> None:
            if str(path).endswith(name):
                raise OSError(code, os.strerror(code), str(path))

        def opened(path: Path, *args: Any, **kw: Any) -> Any:
            refuse(path)
            return real(path, *args, **kw)

        def handle(path: Any, *args: Any, **kw: Any) -> int:
            refuse(path)
            return real_os(path, *args, **kw)

        monkeypatch.setattr(Path, "open", opened)
        monkeypatch.setattr(os, "open", handle)

    return arm


@pytest.mark.parametrize("code", FAULTS)
@pytest.mark.parametrize("name", ["documents.sqlite", "manifest.json", "CURRENT"])
def test_it_is_said_with_what_to_do(
    index: Path, docs: Path, failing: Callable[[str, int], None], name: str, code: int
) -> None:
    failing(name, code)
    for work in (lambda: Generation.open(index), lambda: rebuild(index, docs)):
        with pytest.raises(IndexUnreadable, match="may be intact") as caught:
            work()
        assert os.strerror(code) in str(caught.value)
        assert "rebuild the index" not in str(caught.value)


def test_a_generation_is_not_taken_for_damaged(
    index: Path, tmp_path: Path, failing: Callable[[str, int], None]
) -> None:
    live = current_id(index)
    export_archive(index, tmp_path / "a.tar")
    inode = (index / "generations" / live).stat().st_ino
    failing(f"generations/{live}/vectors.faiss", errno.EMFILE)
    with pytest.raises(IndexUnreadable):
        verify(index / "generations" / live)
    with pytest.raises(IndexUnreadable):
        import_archive(index, tmp_path / "a.tar", keep_generations=2)
    with pytest.raises(IndexUnreadable):
        roll_back(index, live)
    assert current_id(index) == live
    assert (index / "generations" / live).stat().st_ino == inode, "it was not replaced"
    assert [entry.problem for entry in list_generations(index)] == ["", ""]
