"""What is read of PDF pages, against gold: how a page is judged, and real documents where they were fetched."""

from typing import Any

import pytest

from tests.quality.extraction import CACHE
from tests.quality.layout import judge, load, measure, read_layouts
from tests.quality.packages import folder_of

LAYOUTS = read_layouts()
PAGE = {"heads": ["Zoo guide", "7"], "blocks": ["Cats sleep … day", "Dogs bark … night", "They eat"]}
OWN = "Zoo guide\nCats sleep all day\nDogs bark all night\nThey eat\n7"


def test_a_page_is_judged_by_its_gold() -> None:
    right = judge(PAGE, OWN, "Cats sleep all day\n\nDogs bark all night\n\nThey eat")
    assert (right.blocks, right.right, right.words, right.kept, right.let_in) == (3, 3, 10, 10, 0)
    mixed = judge(PAGE, OWN, "Zoo guide\nCats sleep Dogs bark all day all night\n7")
    assert (mixed.right, mixed.kept, mixed.let_in) == (1, 8, 2)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout["name"])
def test_documents_are_read_in_order(layout: dict[str, Any]) -> None:
    if not folder_of(layout["package"], CACHE).is_dir():
        pytest.skip(f"{layout['package']['debian']} was not fetched: python -m tests.quality.layout")
    counts = measure(layout, load(layout, CACHE))
    if "fault" in layout:
        assert counts.right < 0.9 * counts.blocks, "it is mended: take `fault` away"
        pytest.xfail(layout["fault"])
    assert counts.right >= 0.9 * counts.blocks
    assert counts.kept >= 0.99 * counts.words
    assert counts.let_in == 0
