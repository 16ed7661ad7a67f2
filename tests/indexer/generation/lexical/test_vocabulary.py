"""Words of a query that an index does not have, corrected by those it has."""

import tracemalloc

import pytest

from indexer.generation.lexical.vocabulary import Vocabulary, VocabularyWriter

WORDS = {
    "vacuum": 9, "tuples": 5, "tuple": 2, "cells": 30, "cell": 20, "cults": 1, "hypertension": 4, "réseau": 3,
    "Réseau": 1, "cultured": 8, "international": 2, "max_connections": 7, "x86": 3, "入門": 2, "größe": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    writer = VocabularyWriter()
    for word, count in WORDS.items():
        for _ in range(count):
            writer.add([word, word])
    writer.write(folder)
    return Vocabulary(folder)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("vacum", ["vacuum"]),  # left out
        ("vaccuum", ["vacuum"]),  # inserted
        ("vavuum", ["vacuum"]),  # replaced
        ("vacumu", ["vacuum"]),  # exchanged
        ("Tupels", ["tuples"]),
        ("cels", ["cells", "cell"]),
        ("hypretensoin", ["hypertension"]),  # two mistakes in a long word
        ("vaucmu", []),  # two in a short one
        ("reseau", ["réseau"]),  # accents alone
        ("resaeu", ["réseau"]),
        ("grosse", ["grösse"]),
        ("internatoinall", ["international"]),
        ("cel", []),
        ("x8", []),
        ("vacuum1", []),
        ("max_conections", []),
        ("入問", []),
        ("zebra", []),
        ("v" * 100, []),
        ("", []),
    ],
)
def test_corrections(vocabulary, typed, meant):
    assert [each.word for each in vocabulary.corrections(typed)] == meant


def test_corrections_have_edits_and_passages(vocabulary):
    assert [tuple(each) for each in vocabulary.corrections("cels")] == [("cells", 1, 30), ("cell", 1, 20)]
    assert vocabulary.corrections("reseau")[0].passages == 4  # however it is spelled


def test_rare_words_go_first_where_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr("indexer.generation.lexical.vocabulary._MAX_COUNTED_SPELLINGS", 50)
    writer = VocabularyWriter()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for place in range(400):
        writer.add(["vacuum", f"{letters[place % 26]}{letters[place // 26]}qqq"])
    assert len(writer._counts) <= 50
    writer.write(tmp_path)
    assert Vocabulary(tmp_path).corrections("vacum")[0].word == "vacuum"


def test_many_different_words_take_little_memory(tmp_path):
    """A megabyte of them, of a document that is made so."""
    passages = [[f"{chr(97 + first)}{chr(97 + second)}{chr(97 + third)}{chr(97 + fourth)}" for fourth in range(26)]
                for first in range(10) for second in range(26) for third in range(26)]  # fmt: skip
    tracemalloc.start()
    writer = VocabularyWriter()
    while passages:
        writer.add(passages.pop())
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    writer.write(tmp_path)
    assert tracemalloc.get_traced_memory()[1] - before < 24 << 20
    tracemalloc.stop()
