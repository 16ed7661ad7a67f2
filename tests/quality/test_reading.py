"""What is read against gold: manuals, single articles and pages of PDFs; and how that is judged."""

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.quality import articles, layout
from tests.quality.extraction import CACHE, Counts, load, measure
from tests.quality.gold import Generator, read_generators
from tests.quality.packages import folder_of

GENERATORS = read_generators()
MADE = [generator for generator in GENERATORS if "made" in generator.package]
FETCHED = [generator for generator in GENERATORS if "made" not in generator.package]


def measured(generator: Generator, cache: Path) -> Counts:
    if "debian" in generator.package and not folder_of(generator.package, cache).is_dir():
        pytest.skip(f"{generator.package['debian']} was not fetched: python -m tests.quality.extraction")
    return measure(load(generator, cache))


@pytest.mark.parametrize("generator", MADE, ids=lambda generator: generator.name)
def test_pages_that_are_kept_here_are_read_as_they_are(generator: Generator, tmp_path: Path) -> None:
    counts = measured(generator, tmp_path)
    assert counts.kept >= 0.97 * counts.own
    assert counts.anchored >= 0.95 * counts.passages
    assert counts.code_kept == counts.code
    assert not counts.dropped
    assert counts.let_in <= 0.02 * counts.interface


@pytest.mark.parametrize("generator", FETCHED, ids=lambda generator: generator.name)
def test_manuals_are_read_whole(generator: Generator) -> None:
    counts = measured(generator, CACHE)
    assert counts.kept >= 0.96 * counts.own
    assert not counts.dropped


@pytest.mark.parametrize("half", articles.HALVES)
def test_articles_are_read_without_their_furniture(half: str) -> None:
    found = articles.measure(half)
    assert len(found) == 30
    assert fmean(found.values()) >= 0.93
    assert min(found.values()) >= 0.7


LAYOUTS = layout.read_layouts()


@pytest.mark.parametrize("pages", LAYOUTS, ids=lambda pages: pages["name"])
def test_documents_are_read_in_order(pages: dict[str, Any]) -> None:
    if not folder_of(pages["package"], CACHE).is_dir():
        pytest.skip(f"{pages['package']['debian']} was not fetched: python -m tests.quality.layout")
    counts = layout.measure(pages, layout.load(pages, CACHE))
    if "fault" in pages:
        assert counts.right < 0.9 * counts.blocks, "it is mended: take `fault` away"
        pytest.xfail(pages["fault"])
    assert counts.right >= 0.9 * counts.blocks
    assert counts.kept >= 0.99 * counts.words
    assert counts.let_in == 0
