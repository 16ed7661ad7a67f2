"""Two real manuals made by two generators, where they are installed: what comes out must be clean."""

from pathlib import Path

import pytest

from indexer.crawl.links import read_links
from indexer.read.parsing import LinkList, parse
from indexer.records import Document
from tests.indexer.conftest import make_page

POSTGRES = Path("/usr/share/doc/postgresql-doc-15/html")
PYTHON = Path("/usr/share/doc/python3.11/html")
postgres = pytest.mark.skipif(not POSTGRES.is_dir(), reason="needs Debian's postgresql-doc-15")
python = pytest.mark.skipif(not PYTHON.is_dir(), reason="needs Debian's python3.11-doc")


def read(path: Path) -> Document:
    return parse(make_page(path.read_bytes(), url=f"http://docs.test/{path.name}"))


def text(document: Document) -> str:
    return "\n\n".join(section.text for section in document.sections)


@postgres
def test_docbook_page() -> None:
    document = read(POSTGRES / "indexes-partial.html")
    assert document.title == "11.8. Partial Indexes"
    assert [(section.path, section.anchor) for section in document.sections] == [
        (("11.8. Partial Indexes",), "INDEXES-PARTIAL")
    ]
    body = text(document)
    assert body.startswith("A partial index is an index built over a subset of a table; the subset is")
    assert "CREATE INDEX orders_unbilled_index ON orders (order_nr)\n    WHERE billed is not true;" in body
    assert body.endswith(
        "More information about partial indexes can be found in [ston89b], [olson93], and [seshadri95]."
    )
    assert "Prev" not in body
    assert "11.9. Index-Only Scans" not in body


@postgres
def test_docbook_settings_are_sections() -> None:
    found = {section.anchor: section for section in read(POSTGRES / "runtime-config-wal.html").sections}
    fsync = found["GUC-FSYNC"]
    assert fsync.path == ("20.5. Write Ahead Log", "20.5.1. Settings", "fsync (boolean)")
    assert "If this parameter is on, the PostgreSQL server will try to make sure" in fsync.text
    assert "synchronous_commit setting | local durable commit" in found["GUC-SYNCHRONOUS-COMMIT"].text
    assert "off |  |  |  |" not in found["GUC-SYNCHRONOUS-COMMIT"].text


@postgres
def test_docbook_book_index_is_not_text() -> None:
    with pytest.raises(LinkList):
        read(POSTGRES / "bookindex.html")
    assert len(read_links(make_page((POSTGRES / "bookindex.html").read_bytes())).urls) > 500


@postgres
def test_docbook_notes_do_not_swallow_what_follows() -> None:
    paths = {section.path for section in read(POSTGRES / "functions-string.html").sections}
    assert not [path for path in paths if "Note" in path]


@python
def test_sphinx_page() -> None:
    document = read(PYTHON / "library" / "json.html")
    assert document.title == "json — JSON encoder and decoder"
    found = {section.anchor: section for section in document.sections}
    assert found["json.dumps"].path == ("json — JSON encoder and decoder", "Basic Usage", "json.dumps")
    assert found["json.dumps"].text.startswith("json.dumps(obj, *, skipkeys=False,")
    assert found["json.JSONDecoder.raw_decode"].path[-2:] == ("json.JSONDecoder", "json.JSONDecoder.raw_decode")
    body = text(document)
    assert ">>> json.dumps(['foo', {'bar': ('baz', None, 1.0, 2)}])\n" in body
    assert "¶" not in body
    assert "Previous topic" not in body
    assert "Python Software Foundation" not in body


@python
def test_sphinx_index_pages_have_no_text() -> None:
    for name in ("genindex-A.html", "contents.html", "search.html"):
        assert len(text(read(PYTHON / name))) < 300
