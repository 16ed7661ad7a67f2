import pytest

from indexer.read.markup.asciidoc import read
from indexer.read.markup.includes import is_asciidoc
from indexer.read.text import read_plain
from indexer.text import reader_notes

PIECES = {
    "paragraphs": ("One\ntwo.\n\nThree.", "One two.\n\nThree."),
    "marks": ("*b* _i_ `c` **b**c H~2~O x^2^ [.role]#m# a_b_c 2 * 3 * 4", "b i c bc H2O x2 m a_b_c 2 * 3 * 4"),
    "marks that are text": (r"\*b* `+{a}+` +++<u>u</u>+++ pass:[*p*] ++a*b*++ $$<a@b>$$", "*b* {a} u *p* a*b* <a@b>"),
    "attributes": (":a: rope\n:b: {a}{nbsp}x\n\n{b} {c} \\{a}", "rope x {c} {a}"),
    "an attribute over two lines": (":a: one \\\n  two\n\n{a}", "one two"),
    "an attribute that is unset": (":a: x\n:!a:\n\n{a}", "{a}"),
    "an attribute as address": (":u: https://a.test\n\nSee {u}[ours], {u}/x[the page].", "See ours, the page."),
    "links": ("https://a.test[A,role=x] link:b.html[B^] xref:c[C] mailto:d@e.test[] <<f,F>>", "A B C d@e.test F"),
    "a reference by id": ("<<_x>> <<knots>>\n\n[[knots]]\n== Of knots", "x Of knots\n\nOf knots"),
    "macros": ("kbd:[Ctrl+C] menu:File[Save] linkgit:git-log[1] icon:x[] foo:bar[words] ((t)) (((h, i)))",
               "Ctrl+C File > Save git-log(1) words t"),
    "a footnote": ("Text.footnote:[More.]", "Text. (More.)"),
    "a line end": ("one +\ntwo", "one\ntwo"),
    "lists": ("* one\n** two\nlines\n* three\n\n. [x] four\n1. five", "- one\n- two lines\n- three\n- four\n- five"),
    "blocks in a list": ("* one\n+\n----\ncode\n----\n+\nmore\n* two", "- one\ncode\nmore\n- two"),
    "terms": ("CPU:: brain\nRAM::\n  memory\n\nDisk::\n+\n--\nopen\n--", "CPU: brain\n\nRAM: memory\n\nDisk: open"),
    "code": ("[source,c]\n----\na *b* <c>\n\n  d\n----", "a *b* <c>\n\n  d"),
    "literals": ("....\na\n....\n\n b\n  c", "a\n\n b\n  c"),
    "code of Markdown": ("```sh\nrun\n```", "run"),
    "code with attributes": (":v: 2\n\n[subs=attributes+]\n----\nx{v}\n----", "x2"),
    "a verse": ("[verse, Ann]\n*one*\n  two", "one\n  two\n\nAnn"),
    "a quote": ("[quote, Ann, Book]\n____\nSaid.\n____", "Said.\n\nAnn, Book"),
    "admonitions": ("NOTE: one\n\n[TIP]\n====\ntwo\n====\n\n[WARNING]\nthree",
                    "NOTE: one\n\nTip\n\ntwo\n\nWarning: three"),
    "blocks in blocks": ("=====\none\n\n====\ntwo\n====\n=====\n\n****\nthree\n****", "one\n\ntwo\n\nthree"),
    "an open block": ("====\none", "one"),
    "labels": (".A label\n----\ncode\n----", "A label\n\ncode"),
    "comments": ("a\n// NO\nb\n\n////\nNO\n////\n\n[comment]\nNO", "a b"),
    "raw": ("++++\n<b>NO</b>\n++++\n\n[stem]\n++++\nx^2\n++++", "x^2"),
    "conditions": ("ifdef::x[]\nNO\nendif::[]\nifndef::x[]\nyes\nendif::[]\nifdef::x[NO]\n\n:y:\nifdef::y[one line]",
                   "yes\n\none line"),
    "a picture": ("Text.\n\nimage::a.png[A long rope with knots,200]\n\nMore.",
                  "Text.\n\nA long rope with knots\n\nMore."),
    "an unknown block": ("[unknown]\n--\ntext\n--\n\nfoo::bar[words,x=1]", "text\n\nwords"),
    "rules": ("a\n\n'''\n\n<<<\n\ntoc::[]\n\nb", "a\n\nb"),
    "a table": ("|===\n|Name |Age\n\n|Ann |3\n|Bob\n|4\n|Cleo |5\n|===", "Name | Age\nAnn | 3\nBob | 4\nCleo | 5"),
    "columns and spans": ('[cols="1,a"]\n|===\n2+|both\n.2+|tall|* x\n|b \\| c\n|===', "both\ntall | x\ntall | b | c"),
    "a table of CSV": (',===\na,"b, c"\n1,2\n,===', "a | b, c\n1 | 2"),
    "repeated cells": ("|===\n3*|x\n|===", "x | x | x"),
}  # fmt: skip


def read_text(text: str) -> str:
    return "\n\n".join(section.text for section in read(f"= T\n\n{text}\n".encode(), None).sections)


@pytest.mark.parametrize(("text", "expected"), PIECES.values(), ids=PIECES)
def test_pieces(text: str, expected: str) -> None:
    assert read_text(text) == expected


@pytest.mark.parametrize("title", ["= Ropes\nAnn <a@b.test>\nv1.2, 2024-03-01\n", "Ropes\n=====\nAnn\n2024-03-01\n"])
def test_sections(title: str) -> None:
    text = f"// NO\n\n{title}:x: y\n\nPreamble {{x}}.\n\n[[wet]]\n== Wet ropes\n\na\n\n"
    text += "Dry ropes\n---------\nb\n\n=== Hemp [[h]]\n\nc\n"
    content = read(text.encode(), None)
    assert (content.title, content.declared.date) == ("Ropes", "2024-03-01")
    assert [(section.path, section.anchor, section.text) for section in content.sections] == [
        (("Ropes",), "_ropes", "Preamble y."),
        (("Ropes", "Wet ropes"), "wet", "a"),
        (("Ropes", "Dry ropes"), "_dry_ropes", "b"),
        (("Ropes", "Dry ropes", "Hemp"), "h", "c"),
    ]


def test_nothing_is_included() -> None:
    reader_notes.take()
    assert read_text("a\n\ninclude::/etc/passwd[]\ninclude::b.adoc[]\n\n----\ninclude::c.py[]\n----\nb") == "a\n\nb"
    assert reader_notes.take() == ("a file that AsciiDoc includes was left out",)


def test_attributes_do_not_multiply() -> None:
    bomb = ":a0: " + "x" * 900 + "\n" + "".join(f":a{n}: {{a{n - 1}}}{{a{n - 1}}}\n" for n in range(1, 50))
    assert len(read_text(bomb + "\n" + "{a49}" * 20_000)) < 2_000_000


def test_asciidoc_in_plain_text() -> None:
    manual = "rope(1)\n=======\n\nNAME\n----\nrope - tie\n\n[verse]\n'rope' -t\n\nSee linkgit:knot[1] and <<x,y>>.\n"
    assert is_asciidoc(manual)
    assert [section.path[-1] for section in read_plain(manual.encode(), None).sections] == ["NAME"]
    for other in (
        "Title\n=====\n\nText [1].\n",
        "= 5\n\n* a\n",
        "Title\n=====\n\n.. note:: a\n\n`b <https://c.test>`_\n",
    ):
        assert not is_asciidoc(other)
