"""What a reader sees after a click is text; what only serves a page is not."""

import pytest

from indexer.text import reader_notes
from tests.indexer.read.html.test_main_content import sections, text

PROSE = "<p>The harbour office opens at seven and closes when the last ferry has left.</p>"
SHOWN = {
    "Docusaurus tabs": '<div role=tabpanel class=tabItem>one</div><div role=tabpanel class=tabItem hidden="">YES</div>',
    "Bootstrap tabs": (
        '<ul class="nav nav-tabs"><li><a href="#a" data-toggle=tab>A</a><li><a href="#b" data-toggle=tab>B</a></ul>'
        '<div class=tab-content><div class="tab-pane active" id=a>one</div>'
        '<div class=tab-pane id=b style="display: none">YES</div></div>'
    ),
    "W3C accordion": (
        "<h3><button aria-expanded=false aria-controls=s1 id=b1>How?</button></h3>"
        "<div id=s1 role=region aria-labelledby=b1 hidden><p>YES</p></div>"
    ),
    "definitions": "<dl><dt>Can I?</dt><dd hidden>YES, whenever the office is open.</dd></dl>",
    "a handler": "<span onclick=\"show('#x1')\">Show</span><div id=x1 style='visibility:hidden'>YES</div>",
    "slides": (
        '<ul><li class="slide now" aria-hidden=false>The first slide.</li>'
        "<li class=slide aria-hidden=true>YES, the second.</li></ul>"
    ),
    "details": "<details><summary>How?</summary><p>YES</p></details>",
    "MediaWiki collapsible": (
        '<table class="mw-collapsible mw-collapsed"><tr><th>Title<th>b</tr><tr style="display:none">'
        "<td>YES<td>c</table>"
    ),
}
TITLES = {
    "a button in a heading": "<h3><button aria-expanded=false aria-controls=x>TITLE</button></h3><p id=x>Text.</p>",
    "a link in a heading": '<h3><a href="#" class=toggle>TITLE</a></h3><p>Text.</p>',
    "Bootstrap 3": (
        '<div role=tablist><div role=tab><h4><a role=button data-toggle=collapse href="#c1">TITLE</a></h4></div>'
        "<div id=c1 role=tabpanel><p>Text.</p></div></div>"
    ),
}
LINES = {
    "a button that opens": "<div><button aria-expanded=false aria-controls=x>TITLE</button></div><p id=x>Text.</p>",
    "a tab among others": "<ul role=tablist><li role=tab aria-controls=x>TITLE<li role=tab aria-controls=y>U</ul>"
    "<pre id=x>Text.</pre><p id=y hidden>Y.</p>",
    "a label": (
        "<input type=checkbox id=i0><label for=i0 class=l>TITLE</label><div class=c><p>Text.</p></div><input "
        "type=checkbox id=i1><label for=i1 class=l>Other</label><div class=c><p>Text.</p></div>"
    ),
    "a term with a role": "<dl><dt role=button aria-expanded=false>TITLE</dt><dd>Text.</dd></dl>",
}
LEFT_OUT = {
    "a message": "<p>Send it.</p><div class=error hidden>NO</div>",
    "a menu": "<button aria-controls=m aria-haspopup=true>Menu</button><ul id=m hidden><li><a href=/n>NO</a></ul>",
    "a tooltip": '<a href="#t">word</a><div id=t role=tooltip hidden>NO</div>',
    "a button beside a heading": "<h3>Title <button>NO</button></h3><p>Text.</p>",
    "buttons that do the same": "".join(
        f"<button class=b>NO</button><div class=c><p>Text {n}.</p></div>" for n in range(3)
    ),
    "lightbox": '<a href="#lb">x</a><div id=lb class=lightbox style="display:none"><p>NO</p></div>',
}


def page(markup: str) -> str:
    return f"<main><h1>T</h1>{PROSE}{markup}</main>"


@pytest.mark.parametrize("markup", TITLES.values(), ids=TITLES)
def test_a_heading_that_contains_a_control_is_a_heading(markup: str) -> None:
    assert (("T", "TITLE"), "Text.") in [(path, said) for path, _, said in sections(page(markup))]


ASIDES = [
    "<aside>YES</aside>",
    "<div role=complementary><p>YES</p></div>", "<div class=notice role=alert>YES</div>",
    "<blockquote><p>Words.</p><footer>YES, a writer</footer></blockquote>",
    '<aside epub:type=footnote id=fn1><p>YES</p></aside>',
    "<div role=status>YES, the office is closed on the first Monday of each month, and open on all others.</div>",
]  # fmt: skip
FURNITURE = [
    "<aside><ul><li>NO: defined in <a href=/src>tidewater/index.ts:27</a></ul></aside>",
    "<aside><h3>NO</h3><form><input name=mail><button>Send</button></form></aside>",
]


@pytest.mark.parametrize("markup", [*SHOWN.values(), *LINES.values(), *ASIDES])
def test_what_a_click_shows_what_opens_it_and_boxes_are_text(markup: str) -> None:
    assert ("TITLE" if "TITLE" in markup else "YES") in text(page(markup))


def test_hidden_text_that_is_left_out_is_noted() -> None:
    reader_notes.take()
    text(page(f"<div hidden>{PROSE} {PROSE}</div>"))
    assert reader_notes.take() == ("hidden text was left out: no control on the page shows it",)
    text(page(f"<div hidden>NO</div><div role=tabpanel hidden>{PROSE} {PROSE}</div>"))
    assert reader_notes.take() == ()


@pytest.mark.parametrize("markup", [*LEFT_OUT.values(), *FURNITURE])
def test_menus_dialogs_messages_and_boxes_that_lead_elsewhere_stay_left_out(markup: str) -> None:
    found = str(sections(page(markup)))
    assert "NO" not in found
    assert "harbour office" in found


def test_controls_in_cleared_bars_are_skipped() -> None:
    bar = "<div class={}><div><button>{}</button></div> <a href=/1 rel=prev>1</a> <a href=/2 rel=next>2</a></div>"
    labels = "<label for=a>One</label><label for=b>Two</label>"
    for control in (bar.format("a", "Go"), bar.replace("<div><button>{}</button></div>", labels).format("b")):
        assert "YES" in text(page(control + "<p>YES</p>"))
