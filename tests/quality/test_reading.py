"""What is read against gold: manuals, single articles and pages of PDFs; and how that is judged."""

from collections import Counter
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.quality import articles, layout
from tests.quality.extraction import CACHE, Counts, Passage, Reading, judge, load, measure
from tests.quality.gold import Annotated, Generator, gold, read_generators
from tests.quality.packages import folder_of

GENERATORS = read_generators()
MADE = [generator for generator in GENERATORS if "made" in generator.package]
FETCHED = [generator for generator in GENERATORS if "made" not in generator.package]
PAGE = Annotated("page.html", "", "main", ".button", ".list", "pre", "", "p.entry")
MARKUP = b"""<title>Pumps - Manual</title><nav>Home</nav>
<main id=top><h1>Pumps</h1><p>What they do.</p>
<section id=start><a class=button>source</a><h2>Starting</h2><p>Open the valve.</p><pre class=c>
if x:

    go()
</pre></section><p class=entry>pump <a id=stop>stop</a></p><p>It st<b>op</b>s.</p><ul class=list><li>Links</ul>
</main>"""


def test_the_gold_of_a_page_follows_from_its_annotations() -> None:
    found = gold(MARKUP, PAGE)
    assert " ".join(found.own) == "pumps what they do starting open the valve if x go pump stop it stops"
    assert found.interface == Counter(("home", "source"))
    assert found.either == Counter(("links",))
    assert found.code == (("if x:\n\n    go()", "if x:\n\n    go()"),)
    assert found.allowed(1) == {None, "top"}
    assert found.allowed(5) == {"start"}
    assert found.allowed(13) == {"stop"}


def test_a_page_is_judged_by_its_gold() -> None:
    found = gold(MARKUP, PAGE)
    passages = (Passage(None, "What they do."), Passage(None, "Open the valve."), Passage("stop", "It stops."))
    text = "What they do.\n\nsource\n\nOpen the valve.\n\nif x:\n\n    go()\n\npump stop\n\nIt stops.\n\nLinks"
    counts = judge(found, Reading(text, "Pumps - Manual", ("Starting",), passages))
    assert (counts.own, counts.kept) == (15, 15)
    assert (counts.interface, counts.let_in) == (found.interface.total(), 1)
    assert (counts.code, counts.code_kept) == (1, 1)
    assert (counts.passages, counts.anchored) == (3, 2)
    assert judge(found, None).kept == 0


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


def test_words_are_measured() -> None:
    assert articles.f1("one two", "one two", "") == 1
    assert articles.f1("one two more", "one two", "") == pytest.approx(4 / 5)
    assert articles.f1("Title one two", "one two", "Title") == 1


LAYOUTS = layout.read_layouts()
LAYOUT = {"heads": ["Zoo guide", "7"], "blocks": ["Cats sleep … day", "Dogs bark … night", "They eat"]}
OWN_LINES = "Zoo guide\nCats sleep all day\nDogs bark all night\nThey eat\n7"


def test_a_layout_is_judged_by_its_gold() -> None:
    right = layout.judge(LAYOUT, OWN_LINES, "Cats sleep all day\n\nDogs bark all night\n\nThey eat")
    assert (right.blocks, right.right, right.words, right.kept, right.let_in) == (3, 3, 10, 10, 0)
    mixed = layout.judge(LAYOUT, OWN_LINES, "Zoo guide\nCats sleep Dogs bark all day all night\n7")
    assert (mixed.right, mixed.kept, mixed.let_in) == (1, 8, 2)


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
