"""Main text and navigation of real manuals, where they are installed."""

from pathlib import Path

import pytest

from tests.quality.extraction import GENERATORS, PAGES, Generator, measure

FEWEST = 30  # pages, as one of the manuals has no more that are text


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.name)
@pytest.mark.filterwarnings("ignore::bs4.XMLParsedAsHTMLWarning")
def test_main_text_and_nothing_else(generator: Generator) -> None:
    if not (Path("/") / generator.folder).is_dir():
        pytest.skip(f"{generator.package} is not installed")
    shares = measure(generator)
    assert FEWEST <= shares.pages <= PAGES
    assert shares.kept >= 0.98
    assert shares.navigation <= 0.03
