"""Hostile repetitions in HTML take time in proportion to their length, and empty lines in any text do too."""

from collections.abc import Callable

import pytest

from indexer.read.extraction import clean, tidy
from indexer.read.html.main_content import read
from indexer.read.links import page_parts
from tests.linear import check_linear, repeated

WANTED = {"links": True, "is_drawn": True, "blocks": True, "text": True, "template": "", "reader": "html"}
HEADS = {"plain": "<body>", "single": "<meta property=og:title content=x><body><p>x"}
UNITS = [
    "<div>", "<p>a", "<b><i><u><p>", "<ul><li>", "<dl><dt id=a>t<dd>", "<table><tr><td>", "<tr id=a><td>x<td>y",
    "<tr><td rowspan=65000>a<td colspan=1000>b", "<section></section>", "<h1>a<h2>b<h3>c<h4>d<h5>e<h6>f", "<p id=a>b",
    '<p a="b" c="d" class="e f" id=g>h</p>', '<p a="', "<!-- ", "<", "&nbsp;", "\n\n\n\n",
    "<a href=/" + "a" * 1_000 + ">b</a>",
    "<a href=x><span>", '<ul><li><a href="#a">a</a>', '<ul><li>aaaa<a href="#a">a</a>', "<div hidden>a b c d e f g",
    "<button aria-controls=x class=b>a</button><div class=c id=x>word</div>", "<aside epub:type=footnote><p>a",
    "<main><aside><p>a b c", "<form><p>a", "<div class=refnamediv><h2>a</h2>b</div>", "<pre><a id=x>a</a>\n",
    "<div><div class=line>a</div>", "<math><msup>", '<script type="math/tex">a</script>', "<span class=katex>a",
    '<span><img alt="one two three four five">', "a.<br><b id=x><script>w</script></b>", "<div id=comments><p>x",
    "<div class=related>x ", "<math>", '<h2><a href="#" onclick="x()">',
    "<h3>q</h3><div class=a hidden>some words that are five</div>",
    "<script>location='a';</script>", "<frameset><frame src=a>",
]  # fmt: skip


def check(act: Callable[[str], object], unit: str, head: str = "") -> None:
    check_linear(act, repeated(unit, head), 80_000)


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit[:40])
def test_html_is_read_in_linear_time(unit: str, head: str) -> None:
    check(lambda text: list(page_parts(text.encode(), WANTED | {"charset": "utf-8"})), unit, head)


@pytest.mark.parametrize("unit", ["\n", " \n", "\t\n", "\u00a0\n", "a\n\n\n", "\u200b\n"])
def test_empty_lines_take_linear_time(unit: str) -> None:
    check(lambda text: clean(tidy(text)), unit * 10)
    check(lambda text: read(text.encode(), "utf-8"), unit, "<pre>a")
