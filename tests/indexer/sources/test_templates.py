"""What pages of a source have in common around their text: how it is learnt, and what becomes of it."""

from contextlib import closing
from pathlib import Path

import pytest

from indexer.generation.generation import Generation
from indexer.read.document_reader import read_document, validate_blocks
from indexer.read.html.html_tree import parse_html
from indexer.read.html.main_content import extract, prepare
from indexer.read.html.site_template import find_blocks
from indexer.records import Failure, Page, PageBlocks
from indexer.sources.reading import Templates, learn_template
from tests.indexer.conftest import make_page
from tests.indexer.pipeline.incremental import Work

HEAD = '<div class="top"><b>Acme manual</b> <a href="/">Home</a> <a href="/all">All pages</a></div>'
FOOT = '<p class="foot">Made by Acme on 2024-05-{n:02} with care.</p>'
BODY = """<html><head><title>{name}</title></head><body>
{head}<h1>{name}</h1>{way}<p>About {name} there is {name} to say.</p>{foot}
</body></html>"""
NAMES = ("Apples", "Pears", "Plums", "Cherries", "Quinces", "Medlars")
WAY = '<p class="way">See <a href="a">before {name}</a> | <a href="b">after {name}</a></p>'


def site(**parts: str) -> dict[str, str]:
    """Pages of a site, by name; parts replace those that pages have."""
    given = {"head": HEAD, "way": WAY, "foot": FOOT} | parts
    return {
        name: BODY.format(name=name, **{key: part.format(name=name, n=n) for key, part in given.items()})
        for n, name in enumerate(NAMES, 1)
    }


def blocks_of(page: str) -> PageBlocks:
    """Return the blocks of a page as the reader process finds them."""
    blocks = validate_blocks(find_blocks(prepare(parse_html(page), page)))
    assert blocks is not None
    return blocks


def read(pages: dict[str, str], name: str) -> str:
    """Text of a page, read with what all of them have in common."""
    learnt = learn_template(blocks_of(page) for page in pages.values())
    return "\n".join(section.text for section in extract(pages[name], learnt).sections)


def texts(work: Work) -> set[str]:
    """Texts of all passages of an index."""
    content = work.content()
    del content["pages"]
    return {chunk[2] for _, chunks, _, _ in content.values() for chunk in chunks}


TABLE = "<table><tr><td>{name}</td><td><a href=/s>sweet</a></td><td>{n} g</td></tr></table><p>So much of {name}.</p>"
ABOUT = "About Plums there is Plums to say."
SAID = "\n\n".join(["It is known that a fruit such as Plums is eaten in summer."] * 30)
PROSE = "<p>It is known that a fruit such as {name} is eaten in summer.</p>" * 30
LONG_BAR = "<p>" + "".join(f'<a href="{number}">Fruit of {number}</a>, ' for number in range(400)) + "</p>"
MENU = "<ul>" + "".join(f'<li><a href="{number}">The fruit {number}</a></li>' for number in range(20)) + "</ul>"
ROWS = (
    "<table><tr><td>Names of the fruit {name}<td><a href={n}>eat</a>, <a href=p>peel</a><tr><td><a href=f>Fruit</a>"
    "<td><a href=e>eat</a>, <a href=p>peel</a></table>"
)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, ABOUT),
        ({"head": "", "foot": ""}, ABOUT),  # links where others have theirs
        ({"way": "<p>On {name}.</p><p>Fruit is healthy.</p><p>More on {name}.</p>"},
         f"On Plums.\n\nFruit is healthy.\n\nMore on Plums.\n\n{ABOUT}"),
        ({"way": "<p>Measures of {name}:</p>" + TABLE},
         f"Measures of Plums:\n\nPlums | sweet | 3 g\n\nSo much of Plums.\n\n{ABOUT}"),
        ({"foot": "<div><ul><li>eat({name})</li><li>peel()</li></ul></div>" + FOOT},
         f"{ABOUT}\n\n- eat(Plums)\n- peel()"),
        ({"head": HEAD + "<main>", "foot": "<p>Grown by Acme.</p></main>" + FOOT}, f"{ABOUT}\n\nGrown by Acme."),
        ({"head": "<div>" * 3 + HEAD, "way": PROSE, "foot": FOOT + "</div>" * 3}, f"{SAID}\n\n{ABOUT}"),
        ({"head": LONG_BAR}, ABOUT),
        ({"head": "<div class=all>" + MENU, "way": "<p>A sentence about the fruit {name} alone.</p>", "foot": "</div>"},
         f"A sentence about the fruit Plums alone.\n\n{ABOUT}"),
        ({"foot": ROWS}, f"{ABOUT}\n\nNames of the fruit Plums | eat, peel\nFruit | eat, peel"),
    ],
    ids=["around the text", "links", "between texts", "cells", "rows among own rows", "in the main part",
         "in boxes with long text", "a long bar", "a box with more links than text", "rows of links"],
)  # fmt: skip
def test_what_pages_share_around_their_text_is_left_out_and_within_it_stays(parts: dict[str, str], text: str) -> None:
    assert read(site(**parts), "Plums") == text


def test_versions_of_a_page_do_not_make_its_text_a_template() -> None:
    same = {
        f"{n}": f"<title>Plums {n}</title><h1>Plums</h1><p>Plums are blue.</p><p>Version {n}.</p>" for n in range(9)
    }
    assert learn_template(blocks_of(page) for page in same.values()) is None
    assert learn_template([blocks_of(page) for page in site().values()][:3]) is None, "they are few"


@pytest.mark.parametrize("answer", [{}, {"about": 1}, {"about": 1, "blocks": [[1]]}, {"about": "x", "blocks": []}])
def test_what_a_reader_makes_up_is_refused(answer: dict[str, object]) -> None:
    assert validate_blocks(answer) is None


def test_a_build_learns_and_keeps_what_it_learnt(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    for name, page in site().items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    work = Work(tmp_path / "index")
    work.build(folder)
    before = texts(work)
    assert before == {f"About {name} there is {name} to say." for name in NAMES}
    (folder / "Figs.html").write_text(site()["Plums"].replace("Plums", "Figs"), encoding="utf-8")
    report = work.build(folder)
    assert report.unchanged == len(NAMES)
    assert texts(work) == {*before, "About Figs there is Figs to say."}


def test_a_new_design_is_learnt_and_a_few_changes_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()

    def write(pages: dict[str, str]) -> None:
        for name, page in pages.items():
            (folder / f"{name}.html").write_text(page, encoding="utf-8")

    def learnt() -> object:
        with closing(Generation.open(work.index)) as generation:
            return generation.manifest.settings["templates"]

    write(site())
    work = Work(tmp_path / "index")
    work.build(folder)
    before = learnt()
    write({"Plums": site()["Plums"].replace("there is", "there still is")})
    work.build(folder)
    assert learnt() == before
    write(site(foot='<div class="legal">Fruit Holdings, all rights reserved.</div>'))
    work.build(folder)
    assert learnt() != before
    assert texts(work) == {f"About {name} there is {name} to say." for name in NAMES}


def test_pages_of_a_site_keep_their_order_and_have_its_template() -> None:
    pages = [make_page(page, url=f"http://localhost/{name}") for name, page in site().items()]
    given = [Failure("http://localhost/x", "gone"), *pages, Failure("http://localhost/y", "gone")]
    found = list(Templates().attach("http://localhost/", given))
    assert [item.url for item in found] == [item.url for item in given]
    assert all(
        isinstance(item, Page) and read_document(item).sections[0].text.startswith("About") for item in found[1:-1]
    )
