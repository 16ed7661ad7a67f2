import pytest

from indexer.read.html.html_tree import parse_html
from indexer.read.html.main_content import extract
from indexer.read.web_page import needs_rendering
from indexer.records import Extraction, Section, anchor_at


def text(markup: str) -> str:
    return "\n\n".join(section.text for section in extract(markup).sections)


def sections(markup: str) -> list[tuple[tuple[str, ...], str | None, str]]:
    return [(section.path, section.anchor, section.text) for section in extract(markup).sections]


def test_headings_open_sections_with_their_path() -> None:
    assert sections(
        "<p>before<h1 id=top>Top</h1><p>one<h2 id=a>A</h2><p>two<h3 id=b>B</h3><p>three<h2 id=c>C</h2><p>four"
    ) == [
        ((), None, "before"),
        (("Top",), "top", "one"),
        (("Top", "A"), "a", "two"),
        (("Top", "A", "B"), "b", "three"),
        (("Top", "C"), "c", "four"),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        '<h2 id="x">T</h2>',
        '<h2><a name="x"></a>T</h2>',
        '<section id="x"><span id="old"></span><h2>T<a class="headerlink" href="#x">¶</a></h2>',
        '<div class="sect1" id="x"><div class="titlepage"><div><div><h2 class="title">T</h2></div></div></div>',
        '<h2 id="x">T<a href="#x">#</a></h2>',
    ],
)
def test_headings_find_an_anchor(heading: str) -> None:
    assert sections(f"<p>intro</p>{heading}<p>text")[1] == (("T",), "x", "text")


def test_the_nearest_anchor_is_taken_whatever_stands_between() -> None:
    assert sections('<div id="a"><p>some text</p><h2>T</h2><p>text</div>')[1] == (("T",), "a", "text")
    assert sections('<p>x<section id="m"><span>1.0</span><i>y</i><h4>fn m()</h4></section><p>text')[1][1] == "m"
    assert sections('<p>x<a id="p" class="headerlink" href="#p">¶</a><div><h2>T</h2></div><p>text')[1][1] == "p"


def test_a_heading_above_a_heading_without_text_is_the_anchor() -> None:
    found = sections("<main><h1>Add</h1><p>One.</p><h2 id=f64>impl f64</h2><h3 id=out>type Output = f64</h3></main>")
    assert found[-1][1:] == ("f64", "type Output = f64")


def test_anchors_within_a_section_are_marked() -> None:
    [section] = extract("<h2 id=t>T</h2><p>one<p id=b>two<p>three<span id=c></span><p>four").sections
    assert section.anchor == "t"
    assert [(section.text[place:][:4].strip(), anchor) for place, anchor in section.marks] == [
        ("two", "b"),
        ("four", "c"),
    ]
    assert [anchor_at(section, section.text.index(word)) for word in ("one", "two", "three", "four")] == [*"tbbc"]


def test_paragraphs_lists_breaks_and_white_space() -> None:
    assert text(
        "<p>one\n  two&nbsp;three<b>four</b><p>a<br>b <br/> c<ul><li>x<li><p>y</p><ul><li>z</ul></ul><p>end"
    ) == ("one two threefour\n\na\nb\nc\n\n- x\n- y\n- z\n\nend")


def test_tables_are_rows_of_cells() -> None:
    assert text(
        "<p>t</p><table><tr><th>Name<th>Mode</tr><tr><td>on<td><p>safe</p><p>slow</p></tr><tr><td>off<td></tr>"
        "<tr><td></td><td>•</td></tr></table><p>after"
    ) == ("t\n\nName | Mode\non | safe slow\noff\n\nafter")


def wholes(markup: str) -> list[tuple[str, str | None]]:
    """What is to stay whole, and of tables what names their columns."""
    [section] = extract(markup).sections
    return [(section.text[start:end], head) for start, end, head in section.blocks]


def test_code_and_tables_are_known() -> None:
    row = "<tr><td>on<td>safe</tr><tr><td>off<td>fast</tr>"
    rows = "on | safe\noff | fast"
    head = "<tr><th>Name<th>Mode</tr>"
    assert wholes(f"<p>a<pre>\nb\n\n\nc</pre><p>d<table>{head}{row}</table><p>e") == [
        ("b\n\n\nc", None),
        (f"Name | Mode\n{rows}", "Name | Mode"),
    ]
    assert wholes(f"<p>a<table>{row}</table><table>{row}</table>") == [(rows, ""), (rows, "")]
    in_head = f"<table><thead><tr><td>Name<td>Mode</thead><tbody>{row}</table>"
    assert wholes(f"<p>a{in_head}") == [(f"Name | Mode\n{rows}", "Name | Mode")]
    assert wholes("<p>a<table><tr><th>Age<td>3</tr><tr><th>Size<td>4</tr></table>") == [("Age | 3\nSize | 4", "")]
    lines = "<table><tr><th>Function</tr><tr><td><p>f()<p>does</tr><tr><td><p>g()<p>too</tr></table>"
    assert wholes(f"<p>a{lines}") == [("Function\nf()\ndoes", ""), ("g()\ntoo", "")]


@pytest.mark.parametrize(
    "noise",
    [
        "<script>NO</script>", "<header>NO</header>", "<aside>NO</aside>", "<header><h1>NO</h1></header>",
        "<form><input value=NO>NO</form>",
        "<div hidden>NO</div>", "<div style='Display : NONE'>NO</div>",
        "<div role=navigation>NO</div>",
        "<!-- NO -->",
        "<button>NO</button>", "<a class=headerlink href='#x'>NO</a>",
    ],
)  # fmt: skip
def test_what_is_not_text_is_left_out(noise: str) -> None:
    found = text(f"<body>{noise}<p>yes</p></body>")
    assert "NO" not in found
    assert "yes" in found


@pytest.mark.parametrize(
    "wrapped",
    [
        "<main>yes</main>", "<div role=main>yes</div>",
        "<main><header><h1>T</h1></header>yes</main>", "<div id=main-content>yes</div>",
    ],
)  # fmt: skip
def test_the_main_part_is_preferred(wrapped: str) -> None:
    assert text(f"<body><div>NO</div>{wrapped}<div>NO</div></body>") == "yes"


def test_an_empty_main_part_is_not_believed() -> None:
    assert text("<main></main><div>yes</div>") == "yes"


def test_boxes_open_no_section() -> None:
    assert sections('<h1>A</h1><p>x</p><div class="note"><h3 class="title">Note</h3><p>mind</p></div><p>y</p>') == [
        (("A",), None, "x\n\nNote\n\nmind\n\ny")
    ]


LONG = "long enough to stand alone " * 10


def test_long_definitions_are_sections_of_their_own() -> None:
    markup = (
        f"<h2>Settings</h2><p>Intro.<dl><dt id=fsync>fsync (boolean)</dt><dd><p>{LONG}</dd>"
        f"<dt id=a>short one</dt><dd>few words</dd><dt id=b>short two</dt><dd>few</dd>"
        f"<dt id=wal>wal_level</dt><dt id=wal2>wal_level_2</dt><dd>{LONG}</dd></dl><p>After."
    )
    assert sections(markup) == [
        (("Settings",), None, "Intro.\n\nAfter."),
        (("Settings", "fsync (boolean)"), "fsync", f"fsync (boolean)\n{LONG.strip()}"),
        (("Settings",), "a", "short one\nfew words\n\nshort two\nfew"),
        (("Settings", "wal_level"), "wal", f"wal_level\nwal_level_2\n{LONG.strip()}"),
    ]


def test_a_head_without_an_end_tag_ends_before_the_first_element_of_the_body() -> None:
    page = "<!doctype html><title>Sails</title><nav><a href=/a>A</a></nav><main><h1>Jib</h1><p>Cut.</p></main>"
    assert [(path, words) for path, _, words in sections(page)] == [(("Jib",), "Cut.")]


def test_a_line_between_two_lists_stays_there() -> None:
    lists = [f"<dl><dt id={name}>{name}</dt><dd>{LONG}</dd></dl>" for name in ("help", "news")]
    found = sections(f"<h2>Help</h2><p>Intro.</p>{lists[0]}<p>For new things, use news.</p>{lists[1]}")
    assert [section[2].split()[0] for section in found] == ["Intro.", "help", "For", "news"]


def test_signatures_are_named_by_their_id() -> None:
    markup = (
        '<h1>json</h1><dl class="py class"><dt class="sig py" id="json.Decoder">class json.Decoder(*, a)</dt>'
        f'<dd><p>{LONG}</p><dl class="py method"><dt class="sig" id="json.Decoder.decode">decode(s)</dt>'
        f"<dd><p>{LONG}</p></dd></dl><p>New in 3.1.</p></dd></dl>"
    )
    found = sections(markup)
    assert [(path, anchor) for path, anchor, _ in found] == [
        (("json", "json.Decoder"), "json.Decoder"),
        (("json", "json.Decoder", "json.Decoder.decode"), "json.Decoder.decode"),
    ]
    assert found[0][2].startswith("class json.Decoder(*, a)\nlong")
    assert found[0][2].endswith("New in 3.1.")
    short = sections(markup.replace(LONG, "Short."))
    assert (("json", "json.Decoder", "json.Decoder.decode"), "json.Decoder.decode", "decode(s)\nShort.") in short


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        (
            "<title>json — Encoder — Python docs</title><h1>json — Encoder<a class=headerlink href=#x>¶</a></h1>",
            "json — Encoder",
        ),
        ("<title> a\n b\u200b </title>", "a b"),
    ],
)
def test_title(markup: str, title: str | None) -> None:
    assert extract(markup).title == title


def test_a_page_of_links_is_known() -> None:
    links = "".join(f"<li><a href=/{i}>Entry number {i} of the index</a>, {i}" for i in range(400))
    assert extract(f"<ul>{links}</ul>").is_link_list
    assert not extract("<p>" + "plain words and <a href=x>a link</a>. " * 400).is_link_list
    assert not extract("<ul><li><a href=x>short</a></ul>").is_link_list
    assert not extract(f"<table>{links}</table>".replace("<li><a href=/", "<tr><td><a href=#")).is_link_list


@pytest.mark.parametrize("markup", ["", "<", "plain words", "<!-- -->", "<html></html>"])
def test_next_to_nothing(markup: str) -> None:
    assert isinstance(extract(markup), Extraction)


def test_depth_costs_nothing() -> None:
    found = extract("<div>" * 100_000 + "deep" + "</div>" * 100_000)
    assert all(isinstance(section, Section) for section in found.sections)
    assert extract("<table><tr><td>" * 3_000 + "deep").sections[0].text == "deep"
    assert extract("<dl><dt id=a>t<dd>" * 3_000 + "deep").sections
    assert extract("<ul><li>" * 3_000 + "deep").sections[0].text.endswith("deep")


def test_what_a_page_is_about_stands_with_what_follows() -> None:
    """On its own, "CREATE INDEX — define a new index" answers every question about indexes and says nothing."""
    markup = (
        '<div class="refnamediv" id="REF"><h2>CREATE INDEX</h2><p>CREATE INDEX — define a new index</p></div>'
        "<div class=refsynopsisdiv><h2>Synopsis</h2><pre>CREATE INDEX name</pre></div>"
    )
    assert sections(markup) == [(("Synopsis",), "REF", "CREATE INDEX — define a new index\n\nCREATE INDEX name")]
    assert text("<h1>Links</h1><a href=x>only a link</a>") == "only a link"


def test_page_of_headings_and_pictures_has_text() -> None:
    figures = "<figure><img src=a.png><h3>Bowline</h3></figure><figure><img src=b.png><h3>Sheet bend</h3></figure>"
    assert text(f"<h1>Knots</h1>{figures}") == "Bowline\n\nSheet bend"


TABLES = {
    "rows of a group": (
        "<tr><th>Zone<th>Ticket<th>Price<tbody><tr><th scope=row rowspan=2>Harbour<td>Day<td>6<tr><td>Week<td>19",
        ["Zone | Ticket | Price", "Harbour | Day | 6", "Harbour | Week | 19"],
    ),
    "units": (
        "<tr><th>Station<th>Height<th>Rain<tr><th><th>m<th>mm<tr><td>Pier<td>4<td>12",
        ["Station | Height m | Rain mm", "Pier | 4 | 12"],
    ),
}
HEADS = {
    "an empty corner": ("<tr><td><th>2022<th>2023<tr><th>North<td>5<td>6", " | 2022 | 2023"),
    "words over numbers": ("<tr><td>Region<td>Seats<tr><td>North<td>510", "Region | Seats"),
    "nothing but words": ("<tr><td>-v<td>more<tr><td>-q<td>less", ""),
    "rows with heads of their own": ("<tr><th>Age<td>3<tr><th>Size<td>4", ""),
}


def lines(table: str) -> list[str]:
    return extract(f"<p>Before.<table>{table}</table>").sections[0].text.split("\n")[2:]


@pytest.mark.parametrize(("table", "expected"), TABLES.values(), ids=TABLES)
def test_a_row_says_what_spans_it(table: str, expected: list[str]) -> None:
    assert lines(table) == expected


@pytest.mark.parametrize(("table", "expected"), HEADS.values(), ids=HEADS)
def test_the_names_of_columns_go_with_the_last_row(table: str, expected: str) -> None:
    (whole,) = extract(f"<p>Before.<table>{table}</table>").sections[0].blocks
    assert whole.head == expected


def test_a_table_within_a_cell_has_spans_of_its_own() -> None:
    inner = "<table><tr><td rowspan=2>a<td>b<tr><td>c</table>"
    assert lines(f"<tr><td>{inner}<td>d") == ["a | b", "a | c", "", "d"]


APP = '<script src="/static/app.js"></script>'
MODULE = '<script type="module" crossorigin src="/assets/index-3f.js"></script>'
HEAD = f"<!doctype html><html lang=en><head><meta charset=utf-8><title>Docs</title>{MODULE}</head><body>"
NAV = "<nav><a href=/>Home</a> <a href=/guide>The guide, in all its parts</a></nav>"
WORDS = "Lamps have a wick, which draws the oil upwards; trim it when it burns with a yellow flame. "
PIXEL = '<noscript><img height=1 width=1 style="display:none" src="https://t.test/tr?id=1"></noscript>'

DRAWN = {
    "react": f"{HEAD}<noscript>You need to enable JavaScript to run this app.</noscript><div id=root></div>",
    "blazor": f"{HEAD}<div id=app>Loading...</div><div id=blazor-error-ui>An unhandled error has occurred. "
    f"<a href='' class=reload>Reload</a></div>{APP}",
    "svelte": f"{HEAD}<div style='display: contents'><script>import('/_app/start.js')</script></div>",
}
WRITTEN = {
    "server-side": f"{HEAD}{NAV}<div id=root><main><h1>Lamps</h1><p>{WORDS * 6}</p></main></div>{APP}",
    "short with a pixel": f"{HEAD}<article><h1>Lamps</h1><p>{WORDS * 2}</p></article>{PIXEL}{APP}",
    "links": f"{HEAD}<h1>All pages</h1><ul>{'<li><a href=/lamp>A lamp of brass</a>' * 30}</ul>{APP}",
    "moved": f"{HEAD}<h1>Moved</h1><p>This handbook has moved to another place, where all of its pages are kept up to "
    f"date by their writers: <a href=/new>the new handbook</a>.</p>{APP}",
}


@pytest.mark.parametrize("name", [*DRAWN, *WRITTEN])
def test_pages_that_scripts_draw_and_those_that_are_written(name: str) -> None:
    assert needs_rendering(parse_html((DRAWN | WRITTEN)[name])) == (name in DRAWN)


@pytest.mark.parametrize(
    ("listed", "lines"),
    [
        ("<dt>--name<dd>Of the key.<dt>--days<dd>How long.", ["--name: Of the key.", "--days: How long."]),
        ("<dt><code>-n</code></dt><dd><p>Of the key.</p><p>More.</p></dd>", ["-n: Of the key.", "More."]),
        ("<dt>Colour:</dt><dd>red</dd><dt>Why?</dt><dd>So.</dd>", ["Colour: red", "Why? So."]),
        (r"<dt>\\</dt><dd>a backslash</dd>", [r"\\ a backslash"]),
        ("<dt>one</dt><dt>two</dt><dd>Both.</dd>", ["one", "two", "Both."]),
        ("<dt>kinds</dt><dd><ul><li>a<li>b</ul></dd>", ["kinds", "- a", "- b"]),
        (f"<dt>long</dt><dd>{LONG}</dd>", ["long", LONG.strip()]),
    ],
)
def test_short_definitions_stand_on_the_line_of_their_term(listed: str, lines: list[str]) -> None:
    assert [line for line in text(f"<h1>T</h1><dl>{listed}</dl>").split("\n") if line] == lines


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("<h1>knot(1)</h1><h2>NAME</h2><div><p>knot - tie ropes</p></div>", [("knot(1)", "NAME"), ("knot(1)", "USE")]),
        ("<h1>Boats</h1><p>All about boats.</p>", [("USE",)]),
    ],
)
def test_section_between_title_and_content(header: str, expected: list[tuple[str, ...]]) -> None:
    page = f'<div id="header">{header}</div><div id="content"><h2>USE</h2><p>{"Tie it. " * 20}</p></div>'
    assert [path for path, _, _ in sections(page)] == expected
