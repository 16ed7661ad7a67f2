import pytest

from indexer import notes
from indexer.errors import ParseError
from indexer.read.files.text import read_csv
from indexer.read.formats import content_type_of, effective_type
from indexer.read.parsing import parse
from indexer.records import Document, Section, Whole
from tests.indexer.conftest import make_page
from tests.indexer.files import NOTEBOOK


def read(name: str, text: str) -> Document:
    content_type = content_type_of(name)
    assert content_type is not None
    return parse(make_page(text, content_type, f"http://t.test/{name}"))


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
        parse(make_page(b"PK", "application/zip"))


def test_what_servers_call_plain_text_is_read_by_its_name() -> None:
    assert effective_type("text/plain", "/a.py") == "text/x-python"
    assert effective_type("text/plain", "/a.html") == "text/plain"  # whoever wants markup to be shown says so
    assert effective_type("text/plain", "/a.pdf") == "text/plain"
    assert effective_type("text/html", "/a.py") == "text/html"
    assert parse(make_page("a,b\n1,2", "text/plain", "http://t.test/a.csv")).content_type == "text/csv"


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
    notes.take()
    read_csv(b"a,b\n1," + b"x" * 20_000, None)
    assert notes.take() == ("a long cell of a table was cut off",)


def test_notebook() -> None:
    document = read("a.ipynb", NOTEBOOK)
    assert document.title == "Cats"
    code = (Whole(13, 21), Whole(23, 26))  # and what it printed
    assert document.sections == (Section(("Cats",), "cats", "They sleep.\n\nprint(1)\n\none", wholes=code),)


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
        (("Zoo",), "See the cats and feed.\n\n3.2 Feeding."),
        (("Zoo", "Cats"), "- fish\n- milk\n\npurr\n\nstroke(cat)\n\nStrokes it."),
    ]


def test_restructured_text_reaches_nothing() -> None:
    text = (
        "text\n\n.. include:: /etc/passwd\n\n.. raw:: html\n\n   <p>RAW</p>\n\n.. raw:: html\n   :file: /etc/passwd\n\n"
        ".. csv-table::\n   :file: /etc/passwd\n\n.. literalinclude:: /etc/passwd\n"
    )
    assert [section.text for section in read("a.rst", text).sections] == ["text"]
