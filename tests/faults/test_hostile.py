"""A generation that is wrong although every checksum is right: what the program can tell, it tells by name."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import numpy.typing as npt
import pytest
import tantivy

from indexer.errors import IndexCorrupt
from indexer.generation import manifest as manifests
from indexer.generation.generation import Generation
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.manifest import MANIFEST, current_id, read_manifest, record_file
from indexer.generation.vectors import _new_store
from tests.faults.conftest import SEGMENT


@pytest.fixture
def folder(index: Path) -> Path:
    """Of the live generation."""
    return index / "generations" / current_id(index)


def sign(folder: Path) -> None:
    """Make every checksum right."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    records = {path.relative_to(folder).as_posix(): record_file(path) for path in files}
    (folder / MANIFEST).write_bytes(replace(read_manifest(folder), files=records).to_bytes())


def rewrite(folder: Path, change: dict[str, object]) -> None:
    """Change fields of the manifest and make its own checksum right."""
    path = folder / MANIFEST
    content = json.loads(path.read_bytes())
    content.pop("checksum")
    content |= change
    path.write_bytes(manifests._dump({"checksum": manifests._checksum(content), **content}))


def assert_refused(folder: Path, name: str) -> None:
    with pytest.raises(IndexCorrupt) as caught:
        Generation(folder)
    assert str(caught.value).startswith(f"{folder / name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 1}, {"schema_version": "1"}, {"id": 3}, {"counts": {"documents": 2}}, {"files": {}},
        {"files": {"documents.sqlite": {"sha256": "x", "size": 1}}}, {"files": {"../../etc/passwd": {}}},
        {"sources": [1]}, {"settings": []}, {"analysis": 1}, b"[]", b"[" * 100_000, b"\xff",
    ],
)  # fmt: skip
def test_manifests_that_say_nonsense(folder: Path, change: dict[str, object] | bytes) -> None:
    if isinstance(change, bytes):
        (folder / MANIFEST).write_bytes(change)
    else:
        rewrite(folder, change)
    assert_refused(folder, MANIFEST)


@pytest.mark.parametrize("field", ["chunks", "dimension", "documents"])
@pytest.mark.parametrize("more", [1, -1])
def test_counts_must_agree(folder: Path, field: str, more: int) -> None:
    counts = json.loads((folder / MANIFEST).read_bytes())["counts"]
    rewrite(folder, {"counts": counts | {field: counts[field] + more}})
    first = {"chunks": "token_offsets.npy", "documents": "documents.sqlite", "dimension": "vectors.faiss"}  # to be read
    assert_refused(folder, first[field])


@pytest.mark.parametrize(
    ("name", "named"),
    [("documents.sqlite", MANIFEST), ("vectors.faiss", MANIFEST), ("rows.npy", MANIFEST), ("lexical", "lexical"),
     ("lexical/meta.json", "lexical"), ("lexical/*.idx", "lexical"), ("lexical/*.fast", "lexical")],
)  # fmt: skip
def test_files_that_are_missing_from_the_manifest_too(folder: Path, name: str, named: str) -> None:
    [path] = folder.glob(name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    sign(folder)
    assert_refused(folder, named)


def sql(script: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "documents.sqlite")) as database:
            database.executescript(script)

    return damage


def rows(array: Callable[[npt.NDArray[np.void]], npt.NDArray[Any]]) -> Callable[[Path], None]:
    return lambda folder: np.save(folder / "rows.npy", array(np.load(folder / "rows.npy")), allow_pickle=True)


def vectors(make: Callable[[int], faiss.Index]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        counts = read_manifest(folder).counts
        index = make(counts.dimension)
        index.add(np.ones((counts.chunks, index.d), np.float32))
        faiss.write_index(index, str(folder / "vectors.faiss"))

    return damage


def words(numbers: Callable[[int], Iterable[int]]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        shutil.rmtree(folder / "lexical")
        writer = LexicalWriter(folder / "lexical")
        for row in numbers(read_manifest(folder).counts.chunks):
            writer.add(row, title="Fish", section="", text="fish")
        writer.finish()

    return damage


NONSENSE = (lambda old: b"nonsense" * 20, lambda old: old[: len(old) // 2], lambda old: b"")  # instead of content


def other_schema(folder: Path) -> None:
    shutil.rmtree(folder / "lexical")
    (folder / "lexical").mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("words")
    index = tantivy.Index(builder.build(), str(folder / "lexical"))
    writer = index.writer()
    for _ in range(read_manifest(folder).counts.chunks):
        writer.add_document(tantivy.Document(words="fish"))
    writer.commit()
    writer.wait_merging_threads()
    for path in (folder / "lexical").glob(".*"):
        path.unlink()


def overwrite(name: str, content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        [path] = folder.glob(name)
        path.write_bytes(content(path.read_bytes()))

    return damage


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (sql("DELETE FROM chunks WHERE row > 0"), "documents.sqlite"),
        (sql("UPDATE documents SET chunks = chunks + 1"), "documents.sqlite"),
        (sql("DELETE FROM documents WHERE id = 0"), "documents.sqlite"),
        (sql("DROP TABLE documents"), "documents.sqlite"),
        (sql("DROP TABLE chunks"), "documents.sqlite"),
        (rows(lambda stored: stored[1:]), "rows.npy"),
        (rows(lambda stored: stored["signature"]), "rows.npy"),
        (rows(lambda stored: stored[:, np.newaxis]), "rows.npy"),
        (rows(lambda stored: np.array([os.system] * len(stored))), "rows.npy"),
        (vectors(lambda dimension: faiss.IndexFlatL2(dimension)), "vectors.faiss"),
        (vectors(lambda dimension: faiss.IndexFlatIP(dimension)), "vectors.faiss"),
        (vectors(lambda dimension: faiss.IndexHNSWFlat(dimension, 16)), "vectors.faiss"),
        (vectors(lambda dimension: _new_store(dimension + 2)), "vectors.faiss"),
        (vectors(lambda dimension: faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_bf16)),
         "vectors.faiss"),
        (words(lambda count: range(count - 1)), "lexical"),
        (words(lambda count: range(count + 1)), "lexical"),
        (words(lambda count: []), "lexical"),
        (other_schema, "lexical"),
        *((overwrite(name, how), name) for name in ("rows.npy", "vectors.faiss") for how in NONSENSE),
        *((overwrite("documents.sqlite", how), "documents.sqlite") for how in NONSENSE[::2]),
        *((overwrite(name, how), "lexical") for name in ("lexical/meta.json", *SEGMENT) for how in NONSENSE[:2]),
        *((overwrite(name, NONSENSE[2]), "lexical") for name in SEGMENT),
    ],
)  # fmt: skip
def test_files_that_say_nonsense(folder: Path, damage: Callable[[Path], None], name: str) -> None:
    damage(folder)
    sign(folder)
    assert_refused(folder, name)
