import json

import pytest

from indexer.errors import ParseError
from indexer.read.document_reader import read_document
from indexer.read.formats import content_type_of, effective_type
from indexer.read.text import read_csv
from indexer.records import Document, Section, SectionBlock
from indexer.text import reader_notes
from tests.indexer.conftest import make_page
from tests.indexer.files import NOTEBOOK


def read(name: str, text: str) -> Document:
    content_type = content_type_of(name)
    assert content_type is not None
    return read_document(make_page(text, content_type, f"http://t.test/{name}"))


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("a.HTML", "text/html"), ("x/b.tar.gz", "application/gzip"), ("b.tgz", "application/gzip"), ("b.gz", None),
        ("v1.2.pdf", "application/pdf"), ("README", None), (".py", None), ("a.exe", None), ("a.b.py", "text/x-python"),
    ],
)  # fmt: skip
def test_types_of_names(name: str, content_type: str | None) -> None:
    assert content_type_of(name) == content_type


def test_archives_are_read_from_folders_only() -> None:
    with pytest.raises(ParseError, match="application/zip is not read"):
        read_document(make_page(b"PK", "application/zip"))


def test_what_servers_call_plain_text_is_read_by_its_name() -> None:
    assert effective_type("text/plain", "/a.py") == "text/x-python"
    assert effective_type("text/plain", "/a.html") == "text/plain"  # whoever wants markup to be shown says so
    assert effective_type("text/plain", "/a.pdf") == "text/plain"
    assert effective_type("text/html", "/a.py") == "text/html"
    assert read_document(make_page("a,b\n1,2", "text/plain", "http://t.test/a.csv")).content_type == "text/csv"


TABLES = {
    "a semicolon named": ("sep=;\r\nName;Town\r\nAnna;Oslo\r\n", "Name: Anna | Town: Oslo"),
    "a tab named": ('"sep=\t"\nName\tTown\nAnna\tOslo', "Name: Anna | Town: Oslo"),
    "a byte order mark before the name": ("\ufeffsep=,\nName,Town\nAnna,Oslo", "Name: Anna | Town: Oslo"),
    "decimal commas": ("Pier;Length\nOld;1,5\nNew;2,5", "Pier: Old | Length: 1,5\nPier: New | Length: 2,5"),
    "quotes after spaces": ('Name, Town\nAnna, "Oslo, old town"', "Name: Anna | Town: Oslo, old town"),
    "quotes behind backslashes": ('Name,Says\nAnna,"the \\"old\\", pier"', 'Name: Anna | Says: the "old", pier'),
    "a title with a comma": ("Fares, May\n\nZone;Ticket;Price\nPort;Day;3,40\nQuay;Day;2,10",
                             "Fares, May\nZone: Port | Ticket: Day | Price: 3,40\n"
                             "Zone: Quay | Ticket: Day | Price: 2,10"),
    "a title, names and nothing else": ("Fares of the port,\nZone,Price\n", "Fares of the port\nZone | Price"),
    "two tables": (
        "Zone,Price\nPort,3\nQuay,4\n\nBoats,\nBoat,Crew\nGull,5\nTern,6\n",
        "Zone: Port | Price: 3\nZone: Quay | Price: 4\nBoats\nBoat: Gull | Crew: 5\nBoat: Tern | Crew: 6",
    ),
    "groups with an empty row between": (
        "Zone,Price\nPort,3\n\nQuay,4\n,\n\nPier,5\nMole,6\n",
        "Zone: Port | Price: 3\nZone: Quay | Price: 4\nZone: Pier | Price: 5\nZone: Mole | Price: 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("table", "expected"), TABLES.values(), ids=TABLES)
def test_tables(table: str, expected: str) -> None:
    document = read("a.csv", table)
    assert (document.title, document.sections) == ("a.csv", (Section((), None, expected),))


def test_a_cell_that_is_cut_off_is_noted() -> None:
    reader_notes.take()
    read_csv(b"a,b\n1," + b"x" * 20_000, None)
    assert reader_notes.take() == ("a long cell of a table was cut off",)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Ropes\n\nThey hold.", "Ropes"), ("=====\nRopes\n=====\nThey hold.", "Ropes"), ("\n  ** Ropes **\n", "Ropes"),
        ("   LICENSE\n      Version 3\n\nText", "LICENSE"), ("This text is\nwrapped.", "LICENSE.txt"),
        ("CC = gcc\nCFLAGS = -O2\n", "LICENSE.txt"), ("all:\n\tcc\n", "LICENSE.txt"),
    ],
)  # fmt: skip
def test_titles_of_plain_text(text: str, title: str) -> None:
    assert read("LICENSE.txt", text).title == title


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQINBFzzzzABEADHt8SLEfgbo2xzCQz7\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("release.asc", KEY, []), ("id.txt", KEY.replace("PGP PUBLIC KEY BLOCK", "RSA PRIVATE KEY"), []),
        ("a.txt", f"Our key\n\n{KEY}\nis old.", ["Our key\n\nis old."]), ("ropes.asc", "== Ropes\n\n*Wet*", ["Wet"]),
    ],
)  # fmt: skip
def test_keys_are_no_text(name: str, text: str, found: list[str]) -> None:
    assert [section.text for section in read(name, text).sections] == found


def test_notebook() -> None:
    document = read("a.ipynb", NOTEBOOK)
    assert document.title == "Cats"
    code = (SectionBlock(13, 21), SectionBlock(23, 26), SectionBlock(28, 31))  # a program, its output, and a raw cell
    assert document.sections == (Section(("Cats",), "cats", "They sleep.\n\nprint(1)\n\none\n\nRaw", blocks=code),)


OUTPUTS: dict[str, tuple[dict[str, object], str]] = {
    "a picture": ({"data": {"image/png": "x", "text/plain": "plot without title"}}, ""),
    "an object": ({"data": {"text/plain": "[<Line2D at 0x7f>]"}}, ""),
    "a grid of objects": ({"data": {"text/plain": "array([[<Axes: >,\n  <Axes: >]], dtype=object)"}}, ""),
    "numbers and objects": ({"data": {"text/plain": "(array([-1.5, 2.]),\n <BarContainer object of 2 artists>)"}}, ""),
    "a comparison": ({"name": "stdout", "text": "3 < 5 and 7 > 2"}, "3 < 5 and 7 > 2"),
    "a spinner": ({"name": "stdout", "text": "Load |\b/\b-\b12%\b\b\bdone"}, "Load done"),
    "a class": ({"data": {"text/plain": "<class 'int'>"}}, "<class 'int'>"),
    "a widget": ({"data": {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "HBox()",
                           "text/html": "<p>HBox"}}, ""),
    "a table": ({"data": {"text/html": "<table><tr><td>x", "text/plain": "  a\n0 1", "application/x+json": 1}},
                "  a\n0 1"),
    "a table of HTML alone": ({"data": {"text/plain": "<Styler at 0x7f>", "text/html":
                               ["<style>p {}\n\n</style><table><tr><th>a<th>b</tr>\n\n<tr><td>1<td>2</table>"]}},
                              "a | b\n1 | 2"),
    "words of HTML": ({"data": {"text/plain": "<HTML object>", "text/html": "<p>The well is <b>deep</b>.</p>"}},
                      "The well is deep."),
    "Markdown": ({"data": {"text/markdown": "**Range:** 3", "text/plain": "<Markdown object>"}}, "Range: 3"),
    "a formula": ({"data": {"text/latex": "$\\displaystyle x^2$", "text/plain": "x**2"}}, "\\displaystyle x^2"),
    "a progress bar": ({"name": "stderr", "text": ["10%\r", "90%\rdone\n"]}, "done"),
    "an error": ({"output_type": "error", "ename": "E", "evalue": "no moon", "traceback": ["\x1b[31mE\x1b[0m", 1]},
                 "E: no moon"),
    "an error with its trace": ({"output_type": "error", "ename": "E", "evalue": "m",
                                 "traceback": ["\x1b[31mline 3", "E\x1b[0m: m"]}, "line 3\nE: m"),
    "format 3: a picture": ({"output_type": "display_data", "png": "x", "text": "<Figure>"}, ""),
    "format 3: a value": ({"output_type": "pyout", "text": ["4", "2"], "prompt_number": 3}, "42"),
    "format 3: an error": ({"output_type": "pyerr", "ename": "E", "evalue": "m"}, "E: m"),
}  # fmt: skip


@pytest.mark.parametrize(("output", "text"), OUTPUTS.values(), ids=OUTPUTS)
def test_outputs_of_a_notebook(output: dict[str, object], text: str) -> None:
    cells = [{"cell_type": "markdown", "source": "# A"}, {"cell_type": "code", "source": "x", "outputs": [output]}]
    sections = read("a.ipynb", json.dumps({"cells": cells})).sections
    assert [section.text for section in sections] == [f"x\n\n{text}".rstrip()]


def test_a_notebook_of_format_3_and_its_front_matter() -> None:
    cells = [
        {"cell_type": "raw", "source": "---\ntitle: Tides\n---"},
        {"cell_type": "heading", "level": 2, "source": ["Fit"]},
        {"cell_type": "code", "input": "fit()", "outputs": [{"output_type": "stream", "text": "ok"}]},
        {"cell_type": "raw", "metadata": {"raw_mimetype": "text/html"}, "source": "<main>Raw <b>words</b></main>"},
    ]
    document = read("a.ipynb", json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}, 1]}))
    assert document.title == "Tides"
    assert [(section.path, section.text) for section in document.sections] == [(("Fit",), "fit()\n\nok\n\nRaw words")]


def test_python() -> None:
    code = (
        '"""Zoo."""\n\nimport os\n\n\n# feeds\n@decorated\nclass Cat:\n    def eat(self):\n        pass\n\n\n'
        "async def run():\n    pass\n"
    )
    assert [(section.path, section.anchor) for section in read("a.py", code).sections] == [
        ((), None),
        (("Cat",), "L6"),
        (("Cat", "eat"), "L9"),
        (("run",), "L13"),
    ]
    assert read("a.py", code).sections[1].text == "# feeds\n@decorated\nclass Cat:"


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("a.js", "export default async function go() {}\nclass A {}", ["go", "A"]),
        ("a.ts", "export interface I<T> {\n}\nexport type U = 1", ["I", "U"]),
        ("a.go", "func (s *Server) Serve() {\n}\ntype T struct {", ["Serve", "T"]),
        ("a.rs", "pub(crate) fn f<T>() {\n}\nimpl<T> S for U {", ["f", "S"]),
        ("a.c", "static int\tmain(int c)\n{\n  return f(1);\n}\nint p(void);\nchar *name(void) {", ["main", "name"]),
        ("a.java", "public final class A {\n    void f() {}\n}", ["A"]),
        ("a.sql", 'CREATE OR REPLACE FUNCTION f() AS\ncreate unique index if not exists "i" on t', ["f", "i"]),
        ("a.sh", "greet() {\n  echo\n}\nfunction bye {\n}", ["greet", "bye"]),
    ],
)
def test_definitions_of_other_languages(name: str, code: str, found: list[str]) -> None:
    assert [section.path[-1] for section in read(name, code).sections if section.path] == found


def test_restructured_text() -> None:
    text = (
        "Zoo\n===\n\nSee :ref:`the cats <cats>` and :py:func:`~zoo.feed`.\n\n.. a comment NO\n\n"
        ".. versionadded:: 3.2\n   Feeding.\n\n.. _cats:\n\nCats\n----\n\n- fish\n- milk\n\n.. code-block:: sh\n"
        "   :linenos:\n\n   purr\n\n.. function:: stroke(cat)\n\n   Strokes it.\n"
    )
    document = read("a.rst", text)
    assert document.title == "Zoo"
    assert [(section.path, section.text) for section in document.sections] == [
        (("Zoo",), "See the cats and feed.\n\nAdded in version 3.2: Feeding."),
        (("Zoo", "Cats"), "- fish\n- milk\n\npurr\n\nstroke(cat)\n\nStrokes it."),
    ]


CHANGES = {
    ".. versionadded:: 4.1": "Added in version 4.1",
    ".. versionchanged:: 5.0\n   Wet ropes.\n   Dry ones.": "Changed in version 5.0: Wet ropes. Dry ones.",
    ".. deprecated:: 6.2b1\n\n   Use `knot`.\n\n   Soon.": "Deprecated since version 6.2b1: Use knot.\n\nSoon.",
    ".. deprecated-removed:: 3.1 |next|\n   Use x.": "Deprecated since version 3.1, removed in version |next|: Use x.",
    ".. versionremoved:: 7 since long": "Removed in version 7: since long",
    ".. added-value:: of ropes": "of ropes",
    ".. unknown:: Title\n\n   Body.": "Title\n\nBody.",
    ".. seealso::\n\n   :doc:`Knots <knots>` of rope.": "Knots of rope.",
    ".. confval:: depth\n   :type: int\n   :Default: 3\n\n   Deep.": "depth\n\nType: int\n\nDefault: 3\n\nDeep.",
    ".. class:: Rope(a, b)\n\n   A rope.": "Rope(a, b)\n\nA rope.",
    ".. class:: special wide\n\n   Words.": "Words.",
    ".. math::\n   :label: x\n\n   a = b": "a = b",
    ".. figure:: a.png\n   :zoom: 3\n\n   Caption words.": "Caption words.",
    ".. note::\n   :collapsible:\n\n   Noted.": "Note\n\nNoted.",
}


@pytest.mark.parametrize(("directive", "text"), CHANGES.items())
def test_changes_in_restructured_text(directive: str, text: str) -> None:
    assert [section.text for section in read("a.rst", f"Zoo\n===\n\n{directive}\n").sections] == [text]


@pytest.mark.parametrize(
    "head",
    [
        ":orphan:\n\n",
        ":a b: c\n  d\n:e:\n:f.g: h\n\n",
        ".. note to self\n   NO\n\n:tocdepth: 2\n\n",
        ".. meta::\n   :keywords: NO\n\n:tocdepth: 2\n\n",
    ],
)
def test_metadata_of_a_file_in_restructured_text(head: str) -> None:
    document = read("a.rst", f"{head}Zoo\n===\n\n:field: of the text\n")
    assert (document.title, document.sections[0].text) == ("Zoo", "field: of the text")


def test_restructured_text_reaches_nothing() -> None:
    text = (
        "text\n\n.. include:: /etc/passwd\n\n.. raw:: html\n\n   <p>RAW</p>\n\n.. raw:: html\n   :file: /etc/passwd\n\n"
        ".. csv-table::\n   :file: /etc/passwd\n\n.. literalinclude:: /etc/passwd\n"
    )
    assert [section.text for section in read("a.rst", text).sections] == ["text"]
