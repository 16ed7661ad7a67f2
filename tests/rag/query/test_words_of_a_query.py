"""What a query says beside its words, in every mode: what it requires and excludes, mistakes, synonyms and boosts."""

import pytest

from indexer.errors import SynonymsError
from indexer.generation.generation import Generation
from rag.errors import SettingsError
from rag.query.request import MODES, Limits, SearchRequest
from rag.query.results import as_text
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


@pytest.fixture
def opened(site):
    (site.source / "secret.md").write_text("# Secret\n\nThe ceratops of max_wal_senders stay hidden, as does vacxum.\n")
    site.build()
    return lambda **limits: Retriever(Generation.open(site.index), DummyEmbedder(), limits=Limits(**limits))


@pytest.fixture
def titles(opened):
    def search(query: str, mode: str = "hybrid", **limits: str) -> list[str]:
        return [hit.title for hit in opened(**limits).answer_query(SearchRequest(query, mode=mode)).hits]

    return search


@pytest.mark.parametrize("mode", MODES)
def test_required_and_excluded_parts_hold_in_every_mode(titles, mode):
    assert "Vacuum" in titles("vacuum partial index fsync", mode)
    assert "Vacuum" not in titles("vacuum partial index fsync -tuples", mode)
    assert titles('"dead tuples" index', mode) == ["Vacuum"]
    assert titles("title:vacuum index fsync", mode) == ["Vacuum"]
    assert titles('"tuples dead" index', mode) == []


def test_the_answer_says_how_the_query_was_read(opened):
    answer = opened().answer_query(SearchRequest('reclams "dead tuples" -title:durability'))
    assert answer.also_searched == [{"typed": "reclams", "searched": ["reclaims"], "reason": "correction"}]
    assert (answer.required, answer.excluded) == (['"dead tuples"'], ["title:durability"])
    assert as_text(answer.as_dict()).splitlines()[:7:2] == [
        "without: title:durability", 'only with: "dead tuples"',
        'did you mean: reclaims "dead tuples" -title:durability', "also searched for: reclaims (reclams)",
    ]  # fmt: skip


def test_a_result_that_is_not_close_says_so(opened):
    for close in (-1.0, 2.0):
        request = SearchRequest("vacum reclaims zebras nowhere near anything", k=1)
        answer = opened(close=close).answer_query(request)
        [hit] = answer.hits
        assert {hit.text[start:end].lower() for start, end in hit.highlights} == {"vacuum", "reclaims"}
        assert answer.close == (close < 1)
        assert as_text(answer.as_dict()).count("nothing close; nearest:") == (close > 1)


def test_synonyms_and_boosts_are_those_of_the_settings(titles, tmp_path):
    rules = tmp_path / "rules.txt"
    rules.write_text("hoover => vacuum\n")
    assert titles("hoover", "lexical") == []
    assert titles("hoover", "lexical", synonyms=str(rules)) == ["Vacuum"]
    ranked = titles("vacuum partial index")
    assert titles("vacuum partial index", boost="path=/*0.1") == ranked  # which holds for all alike
    with pytest.raises(SettingsError, match="boost"):
        titles("vacuum", boost="nonsense")
    with pytest.raises(SynonymsError, match=r"nowhere\.txt: No such file"):
        titles("vacuum", synonyms=str(tmp_path / "nowhere.txt"))
    rules.write_bytes(b"a, \xff\n")
    with pytest.raises(SynonymsError, match="not UTF-8"):
        titles("vacuum", synonyms=str(rules))


@pytest.fixture
def asked(opened, site):
    """What was meant by a query, and the words that were searched for as well, in documents that a filter allows."""
    retriever = opened()

    def ask(query: str, path: str = "") -> tuple[str | None, list[str]]:
        only = {"path": str(site.source / path)} if path else None
        answer = retriever.answer_query(SearchRequest(query, filter=only))
        return answer.did_you_mean, [word for also in answer.also_searched for word in also["searched"]]

    return ask


def test_what_was_meant_is_proposed(asked):
    for query, meant in {
        "vacum of dead tuples": "vacuum of dead tuples",
        "Vacum, and (tupels)?": "Vacuum, and (tuples)?",  # all else stays as it was typed
        '"dead tupels"': '"dead tuples"',  # which is not corrected by itself
        "title:vacum title:x": "title:vacuum title:x",
        "vacuum tuples": None,
        "max_wal_senders": None,  # names are left alone, those that are there and those that are not
        "max_wal_sender maxWalSenders x86": None,
        "dead -tupels": None,
        "lovers": None,  # which the model has a token for
        "q": None,
    }.items():
        assert asked(query)[0] == meant, query


def test_corrections_are_words_of_documents_that_may_be_found(asked):
    assert asked("ceratosp") == ("ceratops", ["ceratops"])
    assert asked("ceratosp", "vacuum.md") == (None, [])
    assert asked("ceratosp", "secret.md") == ("ceratops", ["ceratops"])
    # neither is a word that only other documents have a known one, nor does it stand before a likelier one
    assert asked("vacxum") == (None, [])
    assert asked("vacxum", "vacuum.md") == ("vacuum", ["vacuum"])
    assert asked("vacxumm", "vacuum.md") == asked("vacqumm", "vacuum.md")
