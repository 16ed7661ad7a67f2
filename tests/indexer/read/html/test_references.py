"""Rows of references stay rows; controls that hold text are read, and bars, messages and last lines are not."""

import pytest

from indexer.read.html.main_content import extract
from tests.indexer.read.html.test_main_content import text
from tests.indexer.read.html.test_unfold import PROSE, page

GRID = "".join(
    f'<div class="type alt{row}"><a href=t>Type{row}</a></div><div class="name alt{row}"><a href=n>get{row}</a></div>'
    for row in range(2)
)
READ = {
    "a table by its roles": (
        "<div role=table><div role=row><b role=columnheader>Field</b><b role=columnheader>Type</b></div>"
        "<div role=row><span role=cell><a href=a>lamp</a></span><span role=cell><a href=b>Lamp</a></span></div></div>",
        "Field | Type\nlamp | Lamp",
    ),
    "a grid by its classes": (f"<div>{GRID}</div>", "Type0 | get0\nType1 | get1"),
    "headings among rows": (
        "<table><tr><td colspan=2><h3>Readers</h3><tr><td><a href=a>Buffer</a><td><a href=b>open</a>(path)</table>",
        "Buffer | open(path)",
    ),
    "a signature in cells": (
        "<table><tr><td>int tie<td>(<td>Rope<td>rope,</tr><tr><td><td><td>int<td>turns<td>)</table>",
        "int tie ( Rope rope, int turns )",
    ),
    "code in rows": ("<table><tr><td><pre>-a</pre><td>all<tr><td><pre>-b</pre><td>best</table>", "-a | all\n-b | best"),
    "a signature of links": ("<div>static <a href=x>TideTable</a> <a href=y>standard</a></div>", "static TideTable st"),
    "an operator": ('<dl><dt><a href="#plus">(+)</a> :: Tide</dt><dd>Adds.</dl>', "(+) :: Tide"),
    "a button that holds an operation": ("<button><b>GET</b><code>/ships</code></button>", "GET /ships"),
    "buttons that name a response and an operation": (
        "<button><b>404 </b><i>No such port</i></button><div><button><i>get</i><span>/ports/{id}</span></button></div>",
        "404 No such port\n\nget /ports/{id}",
    ),
    "names of tabs": (
        "<div><input type=radio id=a><label for=a>Unix</label><input type=radio id=b><label for=b>Windows</label></div>"
        "<div><div><pre>sh</pre></div><div><pre>cmd</pre></div></div>",
        "Unix\n\nsh\n\nWindows\n\ncmd",
    ),
    "a shadow root": (
        "<x-a><template shadowrootmode=open><p>Root, <slot></slot><slot name=b>none</slot></template>"
        "one<i slot=b>two</i></x-a>",
        "Root, onetwo",
    ),
    "a slot passed on to another root": (
        "<x-a><TEMPLATE ShadowRootMode=open><slot name=t></slot><x-b><template shadowrootmode=open><h3>Inner</h3>"
        "<p><slot></slot></p></template><slot></slot></x-b></template><h2 slot=t>Outer</h2>Light</x-a>",
        "Light",
    ),
    "a call that is all link": (
        "<div><h2>Calls</h2><div><div><a href=#a>read(port)</a></div><div><p>Once.</p></div></div>"
        "<div><div><a href=#b>reset(port)</a></div></div></div>",
        "Once.\n\nreset(port)",
    ),
    "a cell that opens a row": (
        "<table><tr><td><button aria-expanded=false>North quay</button><td>12<tr><td>South quay<td>9</table>",
        "North quay | 12",
    ),
    "panels that refer to their tabs": (
        "<div role=tablist><b role=tab id=u>Unix</b><b role=tab id=w>Windows</b></div><hr>"
        "<p role=tabpanel aria-labelledby=u>sh</p><p role=tabpanel aria-labelledby=w hidden>cmd</p>",
        "Unix\n\nsh\n\nWindows\n\ncmd",
    ),
    "questions in rows like a grid": (
        "<div>"
        + "".join(
            f"<div class=q role=button aria-controls={n}>Why {n}?</div><div class=a id={n}>So.</div>" for n in "xy"
        )
        + "</div>",
        "Why x?\n\nSo.\n\nWhy y?\n\nSo.",
    ),
    "tabs beside their panels": (
        "<div><input type=radio id=a><label for=a>Unix</label><input type=radio id=b><label for=b>Windows</label>"
        "<div><div><pre>sh</pre></div><div><pre>cmd</pre></div></div></div>",
        "Unix\n\nsh\n\nWindows\n\ncmd",
    ),
    "a label and a paragraph with one emphasis": (
        "<div><label><a href='#7'>7</a></label><p>First <b>open</b> the valve.</p></div>",
        "First open the valve.",
    ),
    "two labels and a paragraph with two emphases": (
        "<div><label>Valve</label> <label>Pump</label> <p>First <b>open</b> the valve, then <b>start</b> it.</p></div>",
        "First open the valve, then start it.",
    ),
    "a list after a heading that another end tag closes": (
        "<h2>Files</h1><ul><li><a href=a>About</a> <span>a file</span></ul>",
        "- About a file",
    ),
    "a line that is an address": (
        "<div>See there. <div>→ <a href='http://a.example/1'>http://a.example/1</a></div></div>",
        "http://a.example/1",
    ),
    "a button with a status and its meaning": (
        "<button><b>404 </b><span><p>There is no such rope.</p></span></button>",
        "404 There is no such rope.",
    ),
    "an answer of a question": (
        "<label><input type=radio>The red one, seen from ahead of it</label>",
        "The red one, seen",
    ),
    "a link that opens a text": (
        "<div><a href=\"javascript:show('p1')\">When?</a></div><div id=p1 style='display:none'>At noon.</div>",
        "When?\n\nAt noon.",
    ),
    "values at the ends of rows": (
        "<ul>" + "".join(f"<li>tie{n} : <a href={n}>Rope</a>" for n in "abc") + "</ul>",
        "- tiea : Rope\n- tieb : Rope\n- tiec : Rope",
    ),
}
FURNITURE = {
    "links by their relations": "<div>Next: <a rel=next href=n>NO</a>, Up: <a accesskey=u href=u>NO</a></div>",
    "a table of links by their relations": (
        "<table><tr><td><a accesskey=p href=p>NO</a><td><a accesskey=n href=n>NO</a><tr><td>NO hulls<td>NO sails"
        "</table>"
    ),
    "words that no slot shows": "<x-a><template shadowrootmode=open>Root</template><h1>NO</h1></x-a>",
    "a note of a copy button": "<span><i class=icon></i><span class=tooltip>NO</span></span>",
    "states of a search": "<div><div id=out></div><p id=s1>NO</p><p id=s2>NO</p></div>",
    "buttons": "<button><div>NO</div></button><button>NO</button>",
    "links at the ends of rows": (
        "<table>"
        + "".join(f"<tr><td>tie{n}() <a href={n}>NO</a> <a href=#{n}>#</a><td>Ties." for n in "abc")
        + "</table>"
    ),
    "an inert template": "<template><p>NO</p></template>",
}


@pytest.mark.parametrize(("markup", "expected"), READ.values(), ids=READ)
def test_rows_and_controls_that_hold_text_are_read(markup: str, expected: str) -> None:
    assert expected in text(page(markup))


@pytest.mark.parametrize("markup", FURNITURE.values(), ids=FURNITURE)
def test_bars_and_messages_are_left_out(markup: str) -> None:
    found = text(page(markup))
    assert "NO" not in found
    assert "harbour office" in found


def test_the_last_line_is_left_out() -> None:
    last = "<hr><address>NO, made with <a href=https://t.test>a tool</a></address>"
    found = text(f"<h1>T</h1>{PROSE}<p>Read <a href=c>more</a>.</p>{last}")
    assert found.endswith("Read more.")
    assert "NO" not in found


def test_lines_of_links_at_both_ends_and_a_trail_that_ends_with_the_title_are_left_out() -> None:
    line = "<p>Next: <a href=b>Bells</a>, Previous: <a href=a>Anchors and chains</a>, Up: <a href=i>Harbour</a></p>"
    trail = "<div><a href=/>Home</a> &gt; <a href=/s>Ships</a> &gt; Buoys</div>"
    assert text(f"{line}{trail}<h3>Buoys</h3>{PROSE}<hr>{line}") == text(f"<h3>Buoys</h3>{PROSE}")


def test_a_heading_without_text_stands_behind_what_is_before_it() -> None:
    found = extract("<h1>T</h1><h2>A</h2><p>one<h4>B</h4><p>two<h3>Empty</h3><h2>C</h2><p>three").sections
    assert [section.text for section in found] == ["one", "two\n\nEmpty", "three"]
