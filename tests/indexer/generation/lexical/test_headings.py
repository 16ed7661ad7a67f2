"""Titles and headings, suggested while somebody types."""

import numpy as np
import pytest

from indexer.generation.lexical.vocabulary import Headings, HeadingWriter
from indexer.generation.rows import RowSet

LONG = "The installation of extensions that are written in languages of other procedures"
CHUNKS = [  # document, title, heading path
    ("a", "Partial Indexes", "Partial Indexes"),
    ("a", "Partial Indexes", "Partial Indexes › Using partial indexes"),
    ("a", "Partial Indexes", "Partial Indexes › Using partial indexes"),
    ("b", "Indexes", "Indexes › Index types"),
    ("b", "Indexes", "Indexes › max_connections and C++"),
    ("c", "Über Größe", "Über Größe › 索引を作る"),
    ("c", "Über Größe", "Über Größe › partial  INDEXES"),
    ("d", "Secret indexes", "Secret indexes › Project Zebra"),
    *((f"x{n}", f"Page {n}", f"Page {n} › Indexes, in short") for n in range(6)),
    ("e", LONG, f"{LONG} › {LONG}, and their removal"),
    ("f", "+++", "x" * 500),
]

USING = ["Using partial indexes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("headings")
    writer = HeadingWriter()
    for row, (document, title, section) in enumerate(CHUNKS):
        writer.add(row, document, title, section)
    writer.write(folder)
    return folder


@pytest.fixture(scope="module")
def headings(folder):
    return Headings(folder)


def found(headings, typed, allowed=None, most=9):
    return [each.text for each in headings.find(typed, most, allowed)]


def rows_of(*documents):
    return RowSet(np.array([document in documents for document, *_ in CHUNKS]))


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("part", ["Partial Indexes", "Using partial indexes"]),  # a title that begins so, then a word within
        ("PARTIAL ind", ["Partial Indexes", "Using partial indexes"]),
        ("index", ["Indexes", "Index types", "Indexes, in short", "Secret indexes", "Partial Indexes", *USING]),
        ("types index", []),
        ("uber gro", ["Über Größe"]),
        ("connections", ["max_connections and C++"]),
        ("max_conn", ["max_connections and C++"]),
        ("索引", ["索引を作る"]),
        (LONG, [LONG, f"{LONG}, and their removal"]),
        (f"{LONG}, and their re", [f"{LONG}, and their removal"]),
        (f"{LONG}, and not", []),
        ("zebra indexes", []),
        ("artial", []),
        ("xxx", []),  # what nobody types
        ("?!", []),
    ],
)  # fmt: skip
def test_what_is_typed_goes_on_as_a_heading(headings, typed, names):
    assert found(headings, typed) == names


def test_titles_are_told_and_what_many_documents_have_comes_late(headings):
    kinds = {each.text: each.is_title for each in headings.find("index", 9)}
    assert kinds["Indexes"]
    assert not kinds["Index types"]
    assert found(headings, "page", most=2) == ["Page 0", "Page 1"]


def test_only_what_a_filter_allows_is_suggested(headings):
    assert found(headings, "index", rows_of("d", "e")) == ["Secret indexes"]
    assert found(headings, "zebra", rows_of("a", "b")) == []
    assert found(headings, "partial", rows_of("c")) == ["partial INDEXES"]  # as this document spells it
    assert found(headings, "index", rows_of()) == []
    # of few documents as far as the filter goes
    assert found(headings, "indexes", rows_of("b", "x1")) == ["Indexes", "Indexes, in short"]
