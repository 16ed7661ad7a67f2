"""Queries of kinds that are no sentences: commands, numbers with units, and compounds."""

from pathlib import Path

import pytest

from indexer.generation.lexical.analysis import spans
from indexer.generation.lexical.lexical_index import LexicalReader
from tests.indexer.generation.lexical.test_lexical_index import write


def first(reader: LexicalReader, query: str) -> int | None:
    _, rows = reader.search(reader.read(query), 1)
    return int(rows[0]) if len(rows) else None


def opened(folder: Path, texts: list[str], language: str = "en") -> LexicalReader:
    write(folder / "lexical", texts, language=[language] * len(texts))
    return LexicalReader(folder / "lexical", [language])


@pytest.mark.parametrize(
    ("query", "row"),
    [("java -version", 0), ("gcc -Wall", 2), ("java -class", 0), ("gcc -programs", 2), ("java -nonsense", 0)],
)
def test_an_option_is_no_exclusion(tmp_path: Path, query: str, row: int) -> None:
    texts = [
        "The command java -version prints the version",
        "Start a class: java and the name of the class",
        "gcc -Wall turns on warnings",
        "gcc makes programs faster",
    ]
    reader = opened(tmp_path, texts)
    assert first(reader, query) == row
    assert bool(reader.read(query).excluded) == (query in ("java -class", "gcc -programs"))


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("files of 10 MB", 0), ("10MB", 0), ("files of 50 MB", 1), ("50MB", 1), ("5000 people", 2), ("5.000 people", 2),
        ("5 000 people", 2), ("500 people", 3), ("2,4 GHz", 4), ("2.4GHz", 4),
    ],
)  # fmt: skip
def test_numbers_are_values(tmp_path: Path, query: str, row: int) -> None:
    texts = [
        "Files of 10MB",
        "Files of 50 MB",
        "Room for 5,000 people",
        "Room for 500 people",
        "Sends at 2.4 GHz",
        "24 GHz",
    ]
    reader = opened(tmp_path, texts)
    assert first(reader, query) == row
    assert spans(reader.read(query).marked, texts[row])


@pytest.mark.parametrize(
    ("query", "row", "also"),
    [
        ("web hook", 0, [("hook", ("webhook",), "compound")]),
        ("data store", 3, [("data store", ("datastore",), "compound")]),
        ("dropdown", 1, [("dropdown", ("drop down",), "compound")]),
        ("email", 0, [("email", ("e mail",), "compound")]),
        ("dropdwon", None, []),
        ("stoarge", 2, [("stoarge", ("storage",), "correction")]),
    ],
)
def test_words_are_split_and_joined(tmp_path: Path, query: str, row: int | None, also: list[tuple]) -> None:
    reader = opened(
        tmp_path,
        ["A webhook sends an e-mail", "A drop down list of the web", "Storage of data", "The store has a datastore"],
    )
    assert first(reader, query) == row
    assert [tuple(each) for each in reader.read(query).also] == also


@pytest.mark.parametrize(
    ("query", "row"),
    [("Versicherung", 0), ("Versicherungen", 0), ("Datenbank Sicherung", 1), ("Neustart", 2), ("Verschlüsselung", 3)],
)
def test_compounds_are_found_by_their_words(tmp_path: Path, query: str, row: int) -> None:
    texts = [
        "Die Krankenversicherung zahlt den Arzt",
        "Die Datenbanksicherung läuft nachts",
        "Der Serverneustart kommt",
        "Die Festplattenverschlüsselung ist aktiv",
        "Der Datenbankumzug dauert",
    ]
    assert first(opened(tmp_path, texts, "de"), query) == row


def test_where_compounds_are_rare_the_rest_must_be_a_word(tmp_path: Path) -> None:
    reader = opened(tmp_path, ["A webhook tells the web", "We generate reports"])
    assert first(reader, "hook") == 0
    assert first(reader, "rate") is None
