"""Single pages without a template: where the text stands, and which boxes around it are furniture."""

import re

import pytest

from indexer.read.html.main_content import read

P = "The ferry leaves the northern quay at seven, and whoever comes late has to wait for the mail boat in the evening."
Q = "In winter the timetable is shorter, because the captain does not cross after dark unless a doctor is on board."
TEXT = f"<p>{P}</p><p>{Q}</p><p>{P}</p><p>{Q}</p>"
OG = '<meta property="og:type" content="article">'


def page(markup: str, head: str = OG) -> str:
    content = read(f"<html><head><title>T</title>{head}</head><body>{markup}</body></html>".encode(), None)
    return "\n".join("\n".join((*section.path, section.text)) for section in content.sections)


def links(count: int) -> str:
    return "".join(f'<li><a href="/{n}">NO headline number {n}</a></li>' for n in range(count))


MANY = "".join(f'<div class="comment"><p>NO {n}! {P} {Q}</p></div>' for n in range(6))
CARDS = "".join(
    f"<article><h3><a href=/{n}>NO {n}</a></h3><p>{P.replace('quay', 'pier')}</p></article>" for n in range(5)
)
BOXES = {
    "comments longer than the text": f'<div class="comments"><h3>NO</h3>{MANY}</div>',
    "teasers longer than the text": f"<div>{CARDS}</div>",
    "a linked title": "<p>NO: <a href=/x>NO other story about the harbour</a></p>",
    "comments": f'<div id="comments"><h3>NO</h3><div class="item"><p>NO! {P} {Q}</p></div></div>',
    "comments in German": f'<section class="kommentare"><p>NO! {P}</p></section>',
    "tags": '<div class="post-tags"><a href="/t">NO</a> <a href="/u">NO</a></div>',
}


@pytest.mark.parametrize("box", BOXES.values(), ids=BOXES.keys())
@pytest.mark.parametrize("place", ["{text}{box}", "{box}{text}"])
def test_boxes_of_articles_are_left_out(box: str, place: str) -> None:
    found = page(f"<div class=page>{place.format(text=TEXT, box=box)}</div>")
    assert "NO" not in found
    assert found.count("northern quay") == 2


FEEDBACK = "<div><p>Was this page helpful?</p><textarea></textarea></div>"
STEP = "<{tag} class=step>KEPT {n} <{code}>make {n}</{code}><button>Copy</button></{tag}>"
STEPS = "".join(STEP.format(tag="li", code="pre", n=n) for n in range(3))
OPTIONS = "".join(f"<div class=param><code>--opt{n}</code> <a href='#opt{n}'>Link</a> KEPT {n}</div>" for n in range(3))
ROWS = "".join(f"<tr><td>KEPT {n}<td><a href='?id={n}'>Details</a></tr>" for n in range(3))
SLIDES = "".join(f"<div class=slide>KEPT {n}, {P}<button>Larger</button></div>" for n in range(3))


@pytest.mark.parametrize("head", [OG, ""])
@pytest.mark.parametrize(
    "content",
    [
        f"<ol>{STEPS}</ol>{FEEDBACK}",
        f"<div>{OPTIONS}</div>{FEEDBACK}",
        f"<table>{ROWS}</table>{FEEDBACK}",
        f"<h2>Set up in 3 steps</h2><div>{STEPS.replace('li', 'div')}</div>",
        f"<h2>The 3 quays</h2><div>{SLIDES}</div>",
    ],
)
def test_steps_options_and_rows_with_equal_controls_are_no_comments(content: str, head: str) -> None:
    found = page(f"<h1>Ferry</h1><p>{P}</p>{content}", head)
    assert all(f"KEPT {n}" in found for n in range(3))


@pytest.mark.parametrize(
    "line",
    [
        "Languages: <a href=/c>C</a> <a href=/r>R</a> <a href=/d>D</a>",
        "<a href=/a>\u5b89\u88c5</a> <a href=/b>\u914d\u7f6e</a> <a href=/c>\u90e8\u7f72</a>",
        "<a href=#x>x</a>, <a href=#y>y</a>, <a href=#z>z</a>",
    ],
)
def test_a_line_of_short_words_with_links_is_text(line: str) -> None:
    words = re.sub(r"<[^>]*>", "", line)
    assert words in page(f"<h1>Ferry</h1>{TEXT}<p>{line}</p>{TEXT}", "")


def test_cells_of_an_article_with_links_stay_in_their_rows() -> None:
    row = "<tr><td><a href=/quay>The northern quay of the town</a><td>3 boats</tr>"
    table = f"<table><tr><th>Place<th>Boats</tr>{row * 2}</table>"
    assert "The northern quay of the town | 3 boats" in page(f"<h1>Ferry</h1><div>{TEXT}{table}</div>")


def test_a_page_that_is_a_discussion_keeps_its_comments() -> None:
    posts = "".join(f'<div class="comment"><p>{P} {n}</p></div>' for n in range(8))
    found = page(
        f'<h1>Question</h1><p>Why?</p><div class="comments">{posts}</div>', '<meta property="og:title" content="x">'
    )
    assert found.count("northern quay") == 8


def test_boxes_that_are_the_page_stay() -> None:
    teasers = "".join(f'<div class="teaser"><h3><a href="/{n}">Story {n}</a></h3><p>{P}</p></div>' for n in range(9))
    assert page(f"<main>{teasers}</main>", '<meta property="og:type" content="website">').count("northern quay") == 9
    assert page(f'<div class="sidebar-layout"><div class="newsletter">{TEXT}</div></div>').count("northern quay") == 2


AROUND = [
    "<article class=card><h3><a href=/x>Teaser</a></h3><p>NO</p></article><div>{}</div>",
    "<div id=content></div><div>{}</div>",
    "<header><div>{}</div></header>",
    "<form action=/ ><div>{}</div></form>",
    "<div class=toc><div role=dialog>x</div>{}</div>",
]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("head", ["", OG])
def test_what_stands_around_everything_is_no_furniture(around: str, head: str) -> None:
    assert page(around.format(TEXT), head).count("northern quay") == 2


def test_a_hidden_box_with_the_only_prose_is_not_the_page() -> None:
    members = "".join(f"<tr><td>Method</td><td>berth_{n}</td></tr>" for n in range(9))
    assert "quay" not in page(f"<div style='display: none'><p>{P}</div><h1>Ferry</h1><table>{members}</table>")


def test_the_lead_stands_before_the_text() -> None:
    lead = f"<h1>T</h1><p class=lead>{P.replace('ferry', 'steamer')}</p><div class=byline>NO May 2</div>"
    found = page(f"<div>{lead}<div class=article-body>{TEXT}</div></div>")
    assert found.startswith("T\nThe steamer")
    assert "NO" not in found


def test_cells_around_the_text_of_an_old_page_are_menus() -> None:
    menu = "".join(f"<a href=/{n}>NO {n}</a><br>" for n in range(6))
    layout = f"<table><tr><td width=100>{menu}</td><td valign=top><h1>T</h1>{TEXT}</td></tr></table>"
    assert "NO" not in page(layout, "")


@pytest.mark.parametrize(
    ("markup", "says"),
    [
        ('<p>See the <a href="javascript:open(1)">list of members</a> for details.</p>', "See the list of members for"),
        ('<p>It is kept by the <a onclick="x()">harbour office</a></p>', "harbour office"),
        ('<p>The <a href="#" class=glossary>lee</a> <a href="#" class=glossary>side</a> is dry.</p>', "lee side is"),
        ('<div><a href="javascript:print()">NO</a> | <a href="#" onclick="x()">NO</a></div><p>Dry.</p>', "Dry."),
    ],
)
def test_words_in_links_to_scripts_stay_in_their_sentence(markup: str, says: str) -> None:
    found = page(markup, "")
    assert says in found
    assert "NO" not in found


SHORT = "<h2>Arguments</h2><dl><dt>name</dt><dd>Of the key.</dd></dl><pre>make key</pre>"


def test_short_blocks_next_to_the_only_prose_are_text() -> None:
    found = page(f"<main><div><h1>Keys</h1></div><div>{SHORT}<p>{P}</p></div></main>", '<meta property="og:title">')
    for text in ("Keys", "Arguments", "Of the key.", "make key", P):
        assert text in found


def test_ingredients_of_a_recipe_made_of_divisions_are_text() -> None:
    ingredients = "<div class=recipe-ingredients><div>400 g beans</div><div>2 carrots</div></div>"
    steps = f"<div class=recipe-steps><div>{P}</div><div>{Q}</div></div>"
    head = "<div>Bean soup</div><div class=recipe-date>For Sunday, 4 May</div>"
    found = page(f"<div class=recipe>{head}{ingredients}{steps}</div>", '<meta property="og:title">')
    assert "Bean soup" in found
    assert "4 May" in found
    assert "2 carrots" in found


def test_a_callout_between_paragraphs_is_text() -> None:
    assert "Back up" in page(f"<main><p>{P}</p><aside class=callout><p>Back up first.</p></aside><p>{Q}</p></main>")


def test_paid_text_is_text() -> None:
    assert Q in page(f"<article><h1>Stock falls</h1><p>{P}</p><div class=paywall><p>{Q}</p></div><p>{P}</p></article>")


def test_a_menu_that_was_not_closed_before_the_page_is_no_menu() -> None:
    found = page(f"<nav><ul><li><a href=/a>NO</a></li></ul><article><h1>Ferry</h1>{TEXT}</article></nav>")
    assert P in found


def test_a_small_bar_marked_as_main_is_not_the_page() -> None:
    assert P in page(f"<main><p>Accept all cookies?</p></main><div><h1>Ferry</h1>{TEXT}</div>")


def test_captions_of_a_gallery_are_read_once() -> None:
    slides = "".join(f"<div><div><p>{Q}</p></div></div>" for _ in range(3))
    assert page(f"<article><h1>Ferry</h1><div>{slides}</div><p>{P}</p><p>{P} Again.</p></article>").count(Q) == 1


def test_lists_of_other_stories_are_left_out_of_an_article() -> None:
    item = "<li><a href=/{n}>NO the captain of the ferry</a> The mail boat came late in the evening.</li>"
    box = f"<div><h3>Latest</h3><ul>{''.join(item.format(n=n) for n in range(4))}</ul></div>"
    assert "the captain of the ferry" not in page(f"<article><h1>Ferry</h1>{TEXT}{box}{TEXT}</article>")


TEX = r"<p><img class=latex alt='\mathrm{cormorant}^2'></p>"


def test_images_that_stand_alone_say_nothing_in_an_article() -> None:
    image = "<img src=/a.jpg alt='a cormorant that dries its wings'>"
    assert "cormorant" not in page(
        f"<article><h1>Ferry</h1><p>{image}</p>{TEXT}<figure><a href=/>{image}</a></figure></article>"
    )
    for value in (f"<p>{P} Here is {image}</p>", f"<table><tr><td>1<td>{image}</table>", f"<ul><li>{image}</ul>", TEX):
        assert "cormorant" in page(f"<article><h1>Ferry</h1>{value}{TEXT}</article>")


STORIES = "".join(
    f"<div><h1><a href=/{n}>NO news</a></h1><p>NO more than <b>a few</b> words.</p></div>" for n in range(60)
)
RELATED = "".join(f"<p><a href=/{n}>NO, the captain of ferry {n}</a></p><p>NO, {P} {Q}</p>" for n in range(25))
COMMENTS = "".join(
    f"<article class=comment><p class=comment-author>Ann</p><p>NO, {word} {P}</p></article>" for word in ("one", "two")
)


@pytest.mark.parametrize(
    "markup",
    [
        f"<main><h1>Ferry</h1>{TEXT}<section class=comment-list><h2>Comments</h2>{COMMENTS}</section></main>",
        f"<h1>Ferry</h1><div>{TEXT}</div><div><h3>NO letter yet?</h3><form><p>NO</p><input type=email></form></div>",
        f"<div><h1>Ferry</h1><div class=post-meta>NO: 3 May</div></div><div>{TEXT}</div>",
        f"<div><h1>Ferry</h1><p>{P}</p><div class=post-meta>NO: 3 May</div>{TEXT}</div>",
        f"<h1>Ferry</h1><div>{TEXT * 6}</div><div class=comment-list><h2>Comments</h2>{COMMENTS * 20}</div>",
        f"<h1>Ferry</h1><div>{TEXT * 6}</div><section>{STORIES}</section>",
        f"<div><section>{STORIES}</section></div><div><h1>Ferry</h1>{TEXT * 6}</div>",
        f"<h1>Ferry</h1><div>{TEXT * 6}</div><div class=related><h4>NO</h4>{RELATED}</div>",
        f"<h1>Ferry</h1><div>{TEXT}</div><div class=site-footer><p>NO desk is open on Sundays.</p></div>",
    ],
    ids=[
        *("a few comments", "a form", "a line below the heading", "a line within the text"),
        *(
            "comments longer than the post",
            "many other stories",
            "many other stories before the text",
            "related stories longer than the post",
            "a footer by name",
        ),
    ],
)
def test_furniture_by_form_and_place_is_left_out(markup: str) -> None:
    found = page(markup)
    assert P in found
    assert "Ferry" in found
    assert "NO" not in found


@pytest.mark.parametrize(
    "box",
    [
        "<div class=meta><pre>make key</pre></div>",
        "<div class=tools><ul><li>One saw</ul></div>",
        "<div class=><p>make key</p></div>",
        "<div class=section id=s-similar-keys><p>make key</p></div>",
        f"<div class=header><p>{Q}</p></div>",
    ],
)
def test_boxes_named_like_furniture_keep_code_lists_and_prose(box: str) -> None:
    found = page(f"<h1>Ferry</h1>{box}<div>{TEXT}</div>", '<meta property="og:title" content="t">')
    for text in ("make key", "One saw", Q):
        assert text in found or text not in box
