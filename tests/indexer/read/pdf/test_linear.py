"""Pages made to do harm are read in linear time."""

from collections.abc import Callable

import pytest

from indexer.read.pdf.document import read
from tests.indexer.read.pdf.drawn import drawn, rule, script, text
from tests.linear import check_linear

TOP = 1_000_000
PROSE = "some words of a text that goes on, as it were"


def grid(i: int) -> str:
    """Two drawn cells with text."""
    x, y = 10 + i % 30 * 110, 1_000 + i // 30 * 110
    return f"{x} {y} 80 20 re S {x} {y} 40 20 re S " + text(x + 3, y + 6, "a") + text(x + 45, y + 6, "b")


def ruled(y: int) -> str:
    """A small table between drawn lines, and a text that is none of it."""
    cells = [text(x, y - row, word) for row in (0, 12) for x, word in ((20, "cell"), (300, "b"))]
    return "\n".join([rule(10, y + 9, 590, y + 9), rule(10, y - 18, 590, y - 18), *cells, text(20, y - 24, PROSE)])


PAGES: dict[str, tuple[int, Callable[[int], str]]] = {  # how many pieces, and one of them by its number
    "lines": (1_500, lambda i: text(10, TOP - 12 * i, PROSE)),
    "hyphens": (1_500, lambda i: text(10, TOP - 12 * i, "some word and then side-")),
    "columns": (1_500, lambda i: text(10 + i % 2 * 400, TOP - i // 2 * 12, "a line of the running text that fills it")),
    "shadows": (2_000, lambda i: text(10, TOP - i // 2 * 12 + i % 2 * 0.5, "word and word")),
    "one line": (3_000, lambda i: text(10 + 30 * i, 700, "word")),
    "letters": (4_000, lambda i: text(10 + 12 * i, 700, chr(65 + i * 7 % 26))),
    "sizes": (2_000, lambda i: text(10, TOP - 30 * i, "word and word", size=6 + i % 20, bold=i % 2 == 0)),
    "code": (1_500, lambda i: text(10 + i % 9 * 6, TOP - 12 * i, "x = y + z; foo bar", fixed=True)),
    "cells": (4_000, lambda i: text(10 + i % 3 * 200, TOP - i // 3 * 12, "cell")),
    "from the right": (3_000, lambda i: script(10 + 8 * i, 700, "\u05d0") if i % 2 else text(10 + 8 * i, 700, "(")),
    "grids": (500, lambda i: grid(i) + "".join(text(10 + 900 * k, TOP - 12 * i, "word") for k in range(8))),
    "tables": (400, lambda i: ruled(TOP - 60 * i)),
    "drawn lines": (3_000, lambda i: rule(10, TOP - 8 * i, 590, TOP - 8 * i) + text(20, TOP - 8 * i + 1, "a", size=5)),
}
DOCUMENTS: dict[str, Callable[[int], bytes]] = {
    "notes": lambda n: drawn("", annotations=[f"/Subtype /Text /Rect [1 1 9 9] /Contents (n {i})" for i in range(n)]),
    "fields": lambda n: drawn(
        text(9, 9, "a"), annotations=[f"/Subtype /Widget /FT /Tx /Rect [1 {i} 99 {i + 9}] /V (v {i})" for i in range(n)]
    ),
    "bookmarks": lambda n: drawn(text(9, 9, "title 1"), bookmarks=[(f"title {i % 7}", 0) for i in range(4 * n)]),
    "pages": lambda n: drawn(*[text(50, 700 + i % 9, f"{i} {PROSE} {i + 1}") for i in range(n)]),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_read_in_linear_time(name: str) -> None:
    count, piece = PAGES[name]
    check_linear(
        lambda body: read(body, None),
        lambda size: drawn("\n".join(map(piece, range(size))), size=(200_000, TOP + 100)),
        2 * count,
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_read_in_linear_time(name: str) -> None:
    check_linear(lambda body: read(body, None), DOCUMENTS[name], 1_200)
