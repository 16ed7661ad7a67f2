"""Damage that comes while an index is served is found, told by readiness, and left for the generation before."""

from pathlib import Path

import pytest

from embedder.errors import EmbedderError
from indexer.errors import IndexCorrupt
from indexer.generation.layout import GENERATIONS
from indexer.generation.manifest import DOCUMENTS, ROWS, VECTORS, read_manifest
from indexer.publish.verification import SelfCheck
from rag.errors import NotReady
from rag.query.request import SearchRequest
from rag.serving.live import FEWEST_OUTCOMES
from tests.rag.conftest import Site, wait_for


def flip(path: Path) -> None:
    """Change one byte in the middle of a file."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


# What may happen to a published file; the mapped ones may not be cut, which ends a process that reads them.
FAULTS = [(flip, VECTORS), (flip, DOCUMENTS), (flip, ROWS), (cut, DOCUMENTS)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("rag.serving.follower.ROUND_SECONDS", 0.05)


@pytest.mark.parametrize(("damage", "name"), FAULTS)
def test_a_damaged_generation_is_left_for_the_one_before(site: Site, live, damage, name) -> None:
    first, second = site.build(), site.build()
    live.start()
    wait_for(lambda: live.ready)
    assert live.status()["generation"] == second
    damage(site.index / GENERATIONS / second / name)
    wait_for(lambda: live.status()["generation"] == first and live.status()["reason"])
    assert live.search(SearchRequest("partial index")).generation == first
    status = live.status()
    assert status["ready"]
    assert name in status["reason"]
    assert f"meanwhile generation {first} is served" in status["reason"]


def test_a_search_that_meets_damage_is_not_ready_and_has_it_looked_at(site: Site, live, monkeypatch) -> None:
    monkeypatch.setattr("rag.serving.follower.ROUND_SECONDS", 1e9)  # it is not found by itself
    first, second = site.build(), site.build()
    live.start()
    wait_for(lambda: live.ready)
    flip(site.index / GENERATIONS / second / VECTORS)

    def damaged(*_):
        raise IndexCorrupt("documents.sqlite: cannot be read")

    monkeypatch.setattr(live._follower.collections["default"].retriever.generation, "chunks", damaged)
    with pytest.raises(NotReady, match="cannot be read"):
        live.search(SearchRequest("partial index"))
    wait_for(lambda: live.status().get("generation") == first)


def test_files_that_are_gone_or_replaced_are_no_damage(site: Site) -> None:
    folder = site.index / GENERATIONS / site.build()
    manifest = read_manifest(folder)
    check = SelfCheck(folder, manifest)
    whole = sum(record.size for record in manifest.files.values())
    (folder / "other").write_bytes(b"another")
    (folder / "other").replace(folder / VECTORS)  # what is open stays open
    (folder / ROWS).unlink()
    check.sizes()
    assert sum(check.contents()) == whole
    SelfCheck(folder / "nowhere", manifest).sizes()


def test_searches_that_fail_take_the_worker_out_and_time_brings_it_back(site: Site, live, monkeypatch) -> None:
    site.build()
    live.start()
    wait_for(lambda: live.ready)
    model = live._follower.model.embedder
    real = model.encode

    def broken(*_, **__):
        raise EmbedderError("no memory")

    monkeypatch.setattr(model, "encode", broken)
    for _ in range(FEWEST_OUTCOMES):
        with pytest.raises(EmbedderError):
            live.search(SearchRequest("partial index"))
    assert not live.ready
    assert f"{FEWEST_OUTCOMES} of the last {FEWEST_OUTCOMES} searches failed" in live.status()["reason"]
    monkeypatch.setattr(model, "encode", real)
    for _ in range(FEWEST_OUTCOMES + 1):
        live.search(SearchRequest("partial index"))
    assert live.ready
