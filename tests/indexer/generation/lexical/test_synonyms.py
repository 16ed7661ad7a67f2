"""Synonym files: how rules are read, and what a query is searched for by them."""

import os

import pytest

import rag.query.rules
from indexer.errors import SynonymsError
from indexer.generation.lexical.lexical_query import read_query
from indexer.generation.lexical.query_words import Synonyms
from rag.query.rules import SynonymsFile

RULES = r"""
# rows have many names
row, tuple, record

pg, postgres => postgresql
autocommit => autocommit, auto commit
data base => database
a\,b, c
"""


@pytest.mark.parametrize(
    ("query", "words", "phrases", "also"),
    [
        ("ROW size", [("row", "tupl", "record"), ("size",)], [], [("ROW", ("tuple", "record"))]),
        ("rows", [("row",)], [], []),  # rules are for words as they are written
        ("pg index", [("postgresql",), ("index",)], [], [("pg", ("postgresql",))]),
        ("postgresql", [("postgresql",)], [], []),  # one way
        ("autocommit", [("autocommit",)], [(("auto", "commit"),)], [("autocommit", ("auto commit",))]),
        ("a Data Base", [("databas",)], [], [("Data Base", ("database",))]),
        ('"row"', [], [], []),  # quoted: word for word
        ("base data", [("base",), ("data",)], [], []),
    ],
)
def test_rules(query, words, phrases, also):
    found = read_query(query, synonyms=Synonyms.parse(RULES, "rules.txt"))
    assert (list(found.words), list(found.synonyms)) == (words, phrases)
    assert [(one.typed, one.searched) for one in found.also] == also
    assert all(one.reason == "synonym" for one in found.also)


@pytest.mark.parametrize("line", ["alone", "a => b => c", "a =>", "a,, b", "=> b", "?, !", "a, b c d e f g h i j"])
def test_errors_name_file_and_line(line):
    with pytest.raises(SynonymsError, match=r"^rules\.txt line 2: "):
        Synonyms.parse(f"a, b\n{line}\n", "rules.txt")


def test_a_file_is_read_again_when_it_changes(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(rag.query.rules, "_CHECK_SECONDS", 0.0)
    path = tmp_path / "rules.txt"
    path.write_text("row, tuple\n")
    rules = SynonymsFile(str(path))
    assert rules.current() is rules.current()
    assert rules.current().expand(["row"]).alternatives == {"row": ("tuple",)}
    (tmp_path / "new.txt").write_text("row, record\n")
    os.replace(tmp_path / "new.txt", path)
    assert rules.current().expand(["row"]).alternatives == {"row": ("record",)}
    (tmp_path / "new.txt").write_text("row\n")
    os.replace(tmp_path / "new.txt", path)
    assert rules.current().expand(["row"]).alternatives == {"row": ("record",)}  # as before
    path.unlink()
    assert rules.current().expand(["row"]).alternatives == {"row": ("record",)}
    assert [record.message.split(":")[0] for record in caplog.records] == [f"{path} line 1", str(path)]


def test_a_file_that_cannot_be_read_is_told_at_once(tmp_path):
    with pytest.raises(SynonymsError, match=r"nowhere\.txt: No such file"):
        SynonymsFile(str(tmp_path / "nowhere.txt"))
    (tmp_path / "bytes.txt").write_bytes(b"a, \xff\n")
    with pytest.raises(SynonymsError, match="not UTF-8"):
        SynonymsFile(str(tmp_path / "bytes.txt"))
    assert SynonymsFile("").current().expand(["a"]).words == ["a"]
