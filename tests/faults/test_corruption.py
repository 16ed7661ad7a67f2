"""Every file of an index is damaged in every way; the error names the file, and nothing hostile is ever opened."""

import json
import os
import re
import shutil
from pathlib import Path

import faiss
import pytest

from indexer import manifest as manifests
from indexer.errors import IndexCorrupt, IndexMissing
from indexer.generation import Generation, current_id
from tests.faults.conftest import check, rebuild

FILES = ["manifest.json", "documents.sqlite", "vectors.faiss"]


def live(index: Path, name: str) -> Path:
    return index / "generations" / current_id(index) / name


def assert_corrupt(index: Path, path: Path) -> None:
    with pytest.raises(IndexCorrupt, match=f"^{re.escape(str(path))}: ") as caught:
        Generation.open(index)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; rebuild the index, or roll back to an older generation")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncate", "empty", "zero", "append", "delete", "folder", "swap halves"])
def test_damaged_files_are_named(index: Path, name: str, damage: str) -> None:
    path = live(index, name)
    content = path.read_bytes()
    path.unlink()
    half = len(content) // 2
    made = {
        "truncate": content[:half],
        "empty": b"",
        "zero": bytes(len(content)),
        "append": content + b"\n",
        "swap halves": content[half:] + content[:half],
    }
    if damage in made:
        path.write_bytes(made[damage])
    elif damage == "folder":
        path.mkdir()
    assert_corrupt(index, path)


@pytest.mark.parametrize("name", FILES)
def test_one_changed_bit_is_found(index: Path, name: str) -> None:
    path = live(index, name)
    content = path.read_bytes()
    step = 1 if name == "manifest.json" else max(1, len(content) // 50)
    for position in range(0, len(content), step):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        assert_corrupt(index, path)
    path.write_bytes(content)
    check(index)


def test_faiss_never_reads_an_unverified_file(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object) -> None:
        raise AssertionError("read_index was called")

    monkeypatch.setattr(faiss, "read_index", forbidden)
    path = live(index, "vectors.faiss")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert_corrupt(index, path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"../../etc\n", b"/etc\n", b"20260101T000000-zzzzzz\n", b"x" * 1000, b"\xff\xfe", b"\x00" * 23],
)
def test_current_that_names_no_generation(index: Path, content: bytes) -> None:
    (index / "CURRENT").write_bytes(content)
    assert_corrupt(index, index / "CURRENT")


def test_current_that_names_a_missing_generation(index: Path) -> None:
    path = live(index, "manifest.json")
    shutil.rmtree(path.parent)
    assert_corrupt(index, path)


def test_current_deleted_is_no_index(index: Path) -> None:
    (index / "CURRENT").unlink()
    with pytest.raises(IndexMissing):
        Generation.open(index)


def test_a_generation_under_another_name(index: Path) -> None:
    path = live(index, "manifest.json")
    other = path.parent.with_name("20260101T000000-000000")
    path.parent.rename(other)
    (index / "CURRENT").write_text(f"{other.name}\n")
    assert_corrupt(index, other / "manifest.json")


def rewrite(path: Path, change: dict[str, object]) -> None:
    """Change fields of a manifest and make its checksum right again."""
    content = json.loads(path.read_bytes())
    content.pop("checksum")
    content |= change
    path.write_bytes(manifests._dump({"checksum": manifests._checksum(content), **content}))


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2}, {"schema_version": None}, {"schema_version": "1"}, {"id": 3}, {"counts": []},
        {"counts": {"documents": 2}}, {"counts": {"documents": "2", "chunks": 3, "dimension": 64}}, {"files": {}},
        {"files": {"documents.sqlite": {"sha256": "x", "size": 1}}}, {"files": {"../../etc/passwd": {}}},
        {"fingerprint": None}, {"sources": [1]}, {"sources": "x"}, {"report": 1}, {"settings": []}, {"created_at": 1},
    ],
)  # fmt: skip
def test_manifests_that_say_nonsense(index: Path, change: dict[str, object]) -> None:
    path = live(index, "manifest.json")
    rewrite(path, change)
    assert_corrupt(index, path)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null", b"[" * 100_000, b'{"schema_version": 1}', b"\xff"])
def test_manifests_that_are_something_else(index: Path, content: bytes) -> None:
    path = live(index, "manifest.json")
    path.write_bytes(content)
    assert_corrupt(index, path)


@pytest.mark.parametrize(
    ("field", "name"), [("chunks", "vectors.faiss"), ("dimension", "vectors.faiss"), ("documents", "documents.sqlite")]
)
def test_counts_must_agree(index: Path, field: str, name: str) -> None:
    path = live(index, "manifest.json")
    counts = json.loads(path.read_bytes())["counts"]
    rewrite(path, {"counts": counts | {field: counts[field] + 1}})
    assert_corrupt(index, live(index, name))


def test_rolling_back_and_rebuilding_both_help(index: Path, source: Path) -> None:
    path = live(index, "vectors.faiss")
    os.truncate(path, 10)
    older = min(entry.name for entry in (index / "generations").iterdir())
    Generation.open(index, older).close()
    rebuild(index, source)
    check(index)
