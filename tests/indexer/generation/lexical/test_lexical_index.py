import random
import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from indexer.filter import Filter
from indexer.generation.lexical import lexical_index
from indexer.generation.lexical.analysis import TERMS, _beginnings, spans
from indexer.generation.lexical.lexical_index import LexicalReader
from indexer.generation.lexical.lexical_query import read_query
from indexer.generation.lexical.lexical_writer import LexicalWriter
from indexer.generation.lexical.vocabulary import HEADINGS, WORDS
from indexer.generation.rows import RowSet

TEXTS = [
    "Vacuum reclaims the storage of dead tuples",
    "A partial index covers the rows that satisfy a predicate",
    "Set max_connections before the server starts; a dead server starts no vacuum",
    "データベースの索引を作成する",
    "To be or not to be",
]


def write(folder: Path, texts: list[str], **of_each: list) -> Path:
    writer = LexicalWriter(folder)
    for row, text in enumerate(texts):
        facts = {name: values[row] for name, values in of_each.items()}
        writer.add(row, **{"title": "", "section": "", "text": text, **facts})
    writer.finish()
    writer.close()
    return folder


@pytest.fixture
def reader(tmp_path):
    return LexicalReader(write(tmp_path / "lexical", TEXTS))


def rows(reader: LexicalReader, query: str, k: int = 10) -> list[int]:
    return reader.search(reader.read(query), k)[1].tolist()


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("vacuuming", {0, 2}),
        ("dead tuples", {0, 2}),
        ('"dead tuples"', {0}),
        ('"tuples dead"', set()),
        ('"dead" tuples', {0, 2}),
        ('"not to be"', {4}),
        ("max_connections", {2}),
        ("connections", {2}),
        ("索引", {3}),
        ('"索引を作成"', {3}),
        ("を", {3}),
        ("to be", {4}),
        ("the", {0, 1, 2}),
        ("nowhere", set()),
        ("?!", set()),
        ("", set()),
        ("text:vacuum* OR +dead -tuples (", {0, 2}),
    ],
)
def test_what_a_query_finds(reader, query, found):
    assert set(rows(reader, query)) == found


NAMES = "getUserById HTTPServer2 max_connections keep-alive-timeout os.path.join std::vector obj->field --dry-run"


@pytest.mark.parametrize("name", NAMES.split())
def test_a_name_is_found_whole_and_by_its_parts(tmp_path: Path, name: str) -> None:
    parts = re.findall("[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)
    apart = f"{' of the '.join(parts)}, {' or '.join(reversed(parts))}"
    reader = LexicalReader(write(tmp_path / "lexical", [apart, f"What {name} does with another value", *TEXTS]))
    for query in (name, f'"{name}"'):
        assert rows(reader, query)[0] == 1
    assert 1 in rows(reader, " ".join(parts))


def test_scores_are_in_order_and_a_long_query_costs_no_more_than_its_rarest_terms(tmp_path):
    reader = LexicalReader(write(tmp_path / "lexical", [f"common w{i}" for i in range(300)]))
    scores, found = reader.search(reader.read("common " * 500 + " ".join(f"w{i}" for i in range(300))), 300)
    assert len(found) == 32  # one for each of the rarest terms; the common one is not among them
    assert (np.diff(scores) <= 0).all()
    assert (scores.dtype, found.dtype, reader.count) == (np.float32, np.int64, 300)
    assert rows(reader, "common", 300) == list(range(300))  # equal scores are in the order of rows


def test_headings_are_found_and_the_title_counts_once(tmp_path):
    titles, sections = ["Vacuum", "Vacuum"], ["Vacuum › Costs", ""]
    reader = LexicalReader(write(tmp_path / "lexical", ["text", "text costs"], title=titles, section=sections))
    scores, found = reader.search(reader.read("vacuum"), 2)
    assert found.tolist() == [0, 1]
    assert scores[0] == scores[1]
    assert rows(reader, "costs") == [0, 1]


def corpus(count: int) -> tuple[list[str], np.ndarray, list[str | None]]:
    """Texts of words of very different frequency, a class of each (0, 1, … with falling frequency), and a date."""
    chance = random.Random(3)
    texts = [
        " ".join(f"w{int(60 * chance.random() ** 3)}" for _ in range(chance.randrange(3, 30))) for _ in range(count)
    ]
    classes = np.array([min(int(-np.log2(chance.random() + 1e-9)), 9) for _ in range(count)])
    dates = [None if i % 7 == 0 else f"2026-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(count)]
    return texts, classes, dates


QUERIES = ["w0 w1 w2", "w3 w17 w40", "w59", "w0", "w5 w6 w7 w8 w9 w50", '"w0 w1"', 'w3 "w0 w0"']


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    texts, classes, dates = corpus(3_000)
    terms = [[f"language:{'en' if kind % 2 else 'de'}", f"metadata:4:kind={kind}"] for kind in classes]
    folder = write(tmp_path_factory.mktemp("filtered") / "lexical", texts, terms=terms, date=dates)
    return LexicalReader(folder), classes, dates


def test_a_filter_is_exact_whatever_it_keeps(filtered, monkeypatch):
    reader, classes, dates = filtered
    everything = {query: reader.search(reader.read(query), reader.count) for query in QUERIES}
    days = np.array([date or "" for date in dates])
    cases = [({"metadata": {"kind": str(kind)}}, classes == kind) for kind in range(10)]
    cases += [({"metadata": {"kind": ["0", "3"]}, "language": "de"}, classes == 0)]
    cases += [({"language": "en"}, classes % 2 == 1), ({"language": "fr"}, classes < 0)]
    cases += [({"date": {"from": "2026-06-10"}}, days >= "2026-06-10")]
    cases += [
        ({"date": {"to": "2026-01-05"}, "language": "de"}, (days <= "2026-01-05") & (days > "") & (classes % 2 == 0))
    ]
    for hit in (1, 80, 10**9):  # always by dropping hits, by what is faster, always by testing within the search
        monkeypatch.setattr(lexical_index, "_ROWS_PER_HIT", hit)
        for (fields, expected), query, k in product(cases, QUERIES, (1, 10, 200)):
            scores, found = reader.search(reader.read(query), k, Filter.parse(fields), RowSet(expected))
            all_scores, all_rows = everything[query]
            kept = expected[all_rows]
            assert found.tolist() == all_rows[kept][:k].tolist()
            assert scores == pytest.approx(all_scores[kept][:k], rel=1e-5)


def test_common_words_count_although_they_find_no_candidates(filtered, monkeypatch):
    reader, classes, _ = filtered
    queries = ["w0 w1 w2 w40", "w3 w17 w40 w0", "w5 w6 w0 w50"]
    exact = {query: reader.search(reader.read(query), 10) for query in queries}
    monkeypatch.setattr(lexical_index, "_MAX_POSTINGS", 500)
    for query in queries:
        scores, found = reader.search(reader.read(query), 10)
        assert len(set(found.tolist()) & set(exact[query][1].tolist())) >= 9
        assert scores[0] == pytest.approx(exact[query][0][0], rel=1e-5)
    only, allowed = Filter.parse({"metadata": {"kind": "6"}}), RowSet(classes == 6)
    few = reader.search(reader.read(queries[0]), 10, only, allowed)  # so few rows that every word is looked for
    monkeypatch.undo()
    assert few[1].tolist() == reader.search(reader.read(queries[0]), 10, only, allowed)[1].tolist()


def test_several_segments_are_one_index(tmp_path):
    texts, _, _ = corpus(600)
    whole = LexicalReader(write(tmp_path / "whole", texts))
    writer = LexicalWriter(tmp_path / "parts")
    for row, text in enumerate(texts):
        writer.add(row, title="", section="", text=text)
        if row % 60 == 59:
            writer._writer.commit()  # what a full heap does; ten of them make Tantivy merge
    writer.finish()
    parts = LexicalReader(tmp_path / "parts")
    for query in QUERIES:
        (scores, found), (expected_scores, expected) = (
            parts.search(parts.read(query), 600),
            whole.search(whole.read(query), 600),
        )
        assert scores == pytest.approx(expected_scores, rel=1e-5)
        assert sorted(found) == sorted(expected)


def test_a_finished_folder_has_only_what_it_needs(tmp_path):
    folder = write(tmp_path / "lexical", TEXTS)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    segments = {name.partition(".")[0] for name in before} - {Path(name).stem for name in (*WORDS, *HEADINGS)}
    assert len(segments) == 2  # meta.json, and a segment
    reader = LexicalReader(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    shutil.rmtree(folder)
    assert rows(reader, '"dead tuples"') == [0]
    empty = LexicalReader(write(tmp_path / "empty", []))
    assert (empty.count, rows(empty, "word")) == (0, [])


def test_documents_of_several_languages_are_found_by_inflected_words(tmp_path):
    texts = ["Die Häuser stehen", "Installing the houses", "Las configuraciones", "Unbekannte Häuser houses"]
    languages = ["de", "en", "es", None]
    terms = [[f"language:{language}"] if language else [] for language in languages]
    folder = write(tmp_path / "lexical", texts, language=languages, terms=terms)
    reader = LexicalReader(folder, ("en", "de", "es"))
    assert set(rows(reader, "Haus")) == {0}
    assert set(rows(reader, "house")) == {1, 3}
    assert set(rows(reader, "configuración")) == set(rows(reader, "CONFIGURACIONES")) == {2}
    assert set(rows(reader, '"die Häuser"')) == {0}
    assert rows(LexicalReader(folder), "configuraciones") == []  # where the manifest is of an older program


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tuples -storage", set()),
        ("dead -storage", {2}),
        ('dead -"dead tuples"', {2}),
        ("dead -tuple", {2}),  # in any form
        ("vacuum -vacuum", {0, 2}),  # which says nothing
        ("-storage", {0}),
    ],
)
def test_what_is_required_and_excluded(reader, query, found):
    read = reader.read(query)
    assert set(rows(reader, query)) == found
    assert (reader.search(read, 10)[0] > 0).all()
    if read.is_bounded:
        assert found <= set(reader.within(read.required, read.excluded).rows().tolist())


def test_unknown_words_are_corrected_and_known_ones_are_not(reader):
    read = reader.read("vacum of deed tuples")
    assert [tuple(one) for one in read.also] == [
        ("vacum", ("vacuum",), "correction"),
        ("deed", ("dead",), "correction"),
    ]
    assert rows(reader, "vacum of deed tuples") == rows(reader, "vacuum of dead tuples")
    for query in ("vacuum dead", '"vacum"', "maxConections", "max_conections", "VACUMX", "zebra"):
        assert reader.read(query).also == ()


def test_corrections_are_words_of_what_a_filter_allows(tmp_path):
    terms = [["language:de"], ["language:en"], ["language:en"], ["language:de"], ["language:en"]]
    reader = LexicalReader(write(tmp_path / "lexical", TEXTS, terms=terms))
    found = {}
    for language in ("de", "en", "fr"):
        read = reader.read("vacum deda", filter=Filter(language=(language,)))
        found[language] = [one.searched for one in read.also]
    assert found == {"de": [("vacuum",), ("dead",)], "en": [("vacuum",), ("dead",)], "fr": []}
    assert reader.read("tupels", filter=Filter(language=("en",))).also == ()
    assert reader.read("tupels", filter=Filter(language=("de",))).did_you_mean == "tuples"


def test_what_a_client_sends_fills_no_memory(reader, monkeypatch):
    """Of 700 queries of one long word a gigabyte was remembered."""
    before = len(TERMS["en"])
    for number in range(3):
        reader.read(chr(0x4E00 + number) * 10_000)
        reader.read(f"{number}{'x' * 10_000}")
    assert len(TERMS["en"]) == before
    for cache in TERMS.values():
        monkeypatch.setattr(cache, "_size", 300)
    languages = {"de": 1, "en": 1, "fr": 1}
    for number in range(10):
        read_query(" ".join(f"word{number}x{place}" for place in range(100)), languages)
        assert sum(map(len, TERMS.values())) <= 300
    many = frozenset(f"w{number}" for number in range(500))
    assert spans(many, "w7, w8 and x w499") == spans(many, "w7, w8 ünd x w499") == [(0, 2), (4, 6), (13, 17)]
    assert _beginnings(many) == ([], [])
