import json
import subprocess
import sys

import numpy as np
import pytest

from rag.commands.cli import main
from rag.errors import DatasetError, SettingsError
from rag.evaluation.evaluation import (
    MEASURES,
    evaluate,
    find_losses,
    modes_as_text,
    p_value,
    read_dataset,
    read_side,
    search_index,
)
from rag.query.results import Answer
from rag.query.weighting import UNRELATED
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.web.fakes import make_hit

SETTINGS = load({}, {})
PRECISION = {"precision": "int8", "query_precision": "int8", "engine": "native"}


@pytest.fixture
def folder(tmp_path):
    corpus = [
        {"_id": f"d{i}", "title": word, "text": f"all about {word}"} for i, word in enumerate(["cats", "dogs", "sails"])
    ]
    queries = [{"_id": "q1", "text": "dogs"}, {"_id": "q2", "text": "sails"}, {"_id": "unjudged", "text": "x"}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td0\t1\n")
    return tmp_path


def test_dense(folder):
    scores = evaluate(read_dataset(folder), DummyEmbedder(), mode="dense")
    # q1 finds d1 first (1.0); q2 finds d2 first and the judged d0 second or third
    assert scores["queries"] == 2
    assert scores["mrr@10"] in {0.75, round((1 + 1 / 3) / 2, 4)}
    assert 0.5 < scores["ndcg@10"] < 1
    assert (scores["recall@100"], scores["mode"]) == (1.0, "dense")


def test_lexical_needs_no_vectors(folder):
    embedder = DummyEmbedder()
    scores = evaluate(read_dataset(folder), embedder, mode="lexical")
    # q1 finds d1 alone (1.0); q2 finds d2 alone, which is not the one that is judged
    assert scores == {"ndcg@10": 0.5, "mrr@10": 0.5, "recall@100": 0.5, "queries": 2, "mode": "lexical"}
    assert embedder.encoded == 0


def test_all_modes_are_measured_with_one_pass_over_the_documents(folder):
    embedder = DummyEmbedder()
    found = evaluate(read_dataset(folder), embedder, mode=None)
    assert embedder.encoded == 3 + 2 + 2 * len(UNRELATED)  # documents and queries
    assert [(each["mode"], each.get("tokens")) for each in found["modes"]] == [
        ("dense", False),
        ("lexical", None),
        ("hybrid", False),
        ("hybrid", True),
    ]
    for each in found["modes"]:
        tokens = each.get("tokens", False)
        alone = evaluate(read_dataset(folder), DummyEmbedder(), mode=each["mode"], tokens=tokens)
        assert {name: each[name] for name in MEASURES.values()} == {name: alone[name] for name in MEASURES.values()}
    assert {name: found[name] for name in MEASURES.values()} == {
        name: found["modes"][-1][name] for name in MEASURES.values()
    }


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_queries_are_read_as_a_search_reads_them(folder, mode):
    weather = "The weather on the coast was lovely when aunt Martha came to visit us again. " * 20
    for id, question, others in (("q1", "Are they all about dogs? ", weather), ("q2", "all about -sails -dogs ", "")):
        with (folder / "queries.jsonl").open("a") as file:
            file.write("\n" + json.dumps({"_id": id, "text": others + question + others}))
    assert evaluate(read_dataset(folder), DummyEmbedder(), mode=mode)["mrr@10"] == 1


def test_the_queries_that_hybrid_loses_are_named(folder):
    dataset = read_dataset(folder)
    queries = {str(number): f"query {number}" for number in range(12)}
    none, whole = np.zeros(12), np.ones(12)
    worst = find_losses(queries, whole, none, np.arange(12) / 12)
    assert [each["id"] for each in worst] == [str(number) for number in range(10)]
    assert (worst[3]["difference"], worst[3]["dense"], worst[3]["hybrid"]) == (-0.75, 1.0, 0.25)
    assert find_losses(queries, none, whole, whole) == []
    shown = modes_as_text(evaluate(dataset, DummyEmbedder(), mode=None) | PRECISION | {"worst": worst})
    assert "hybrid, with tokens" in shown
    assert "-0.7500  1.0000  0.0000  0.2500  query 3" in shown


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("corpus.jsonl", None, "cannot read .*corpus.jsonl: No such file"),
        ("corpus.jsonl", "", "no documents"),
        ("corpus.jsonl", '{"_id": "a", "text": "t"}\n{"no": 1}', "line 2 is not JSON with _id and text"),
        ("corpus.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("queries.jsonl", '{"_id": ["a"], "text": "t"}', "queries.jsonl line 1 .* Expected `str`"),
        ("qrels/test.tsv", "a\tb\n1\t2\n", "test.tsv cannot be read"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tx\n", "test.tsv cannot be read"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + "q" * 200_000 + "\td1\t1\n", "larger than|no judged"),
    ],
)
def test_bad_folders_are_told_by_file(folder, file, content, told):
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(DatasetError, match=told):
        read_dataset(folder)


def test_without_the_extra_it_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['ir_measures'] = None; from rag.commands.cli import main; "
    code += "sys.exit(main(['eval', sys.argv[1]]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pilotlight: eval is not installed: pip install 'pilotlight[eval]'\n"


# Two sides


def test_the_test_looks_at_every_choice_of_signs_or_at_a_sample():
    assert p_value(np.zeros(9)) == 1
    assert p_value(np.array([0.3])) == 1
    assert p_value(np.full(10, 0.1)) == pytest.approx(2 / 2**10)  # all or none of them turned
    assert p_value(np.array([0.2, 0.1, -0.1])) == pytest.approx(6 / 8)  # of eight sums, six are as large
    assert p_value(np.random.default_rng(1).random(200)) < 0.001


class Found:
    """Stands in for a retriever: gives the hits of some addresses, each with those of its duplicates."""

    def __init__(self, *hits):
        self.hits = hits

    def answer_query(self, request):
        assert (request.per_document, request.k, request.mode) == (1, 100, "dense")
        hits = [make_hit(rank, url=url, duplicates=more) for rank, (url, *more) in enumerate(self.hits, start=1)]
        return Answer(request.query, hits, {}, "g")


@pytest.mark.parametrize(("judged", "first"), [({"https://a.test/3": 1}, 3), ({"https://a.test/3": 0}, 1)])
def test_a_judged_document_that_was_left_out_for_its_copy_has_its_place(judged, first):
    hits = ("https://a.test/1#x", "https://a.test/9", "https://a.test/3#y"), ("https://a.test/2#z",)
    run = search_index(Found(*hits), {"q": "cats"}, {"q": judged}, read_side("live,mode=dense", SETTINGS, "A"))
    assert list(run["q"]) == [f"https://a.test/{first}", "https://a.test/2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode=dense", "A must be live or a generation id, optionally with ,NAME=VALUE…: 'mode=dense'"),
        ("live,precision=int8", "A cannot set 'precision'; it can set mode, rerank, synonyms"),
        ("live,mode=guess", "mode in A must be one of"),
        ("live,rerank=perhaps", "rerank in A must be yes or no, not"),
        ("live,rerank=yes", "set --rerank-model"),
    ],
)
def test_a_side_that_cannot_be_read(text, message):
    with pytest.raises(SettingsError) as caught:
        read_side(text, SETTINGS, "A")
    assert message in str(caught.value)


QUERIES = {"q1": ("index of rows that satisfy a predicate", "partial.md"), "q2": ("vacuum", "vacuum.md")}


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setattr("rag.serving.follower.load_embedder", lambda settings: DummyEmbedder())
    monkeypatch.setattr("rag.commands.models.prepare", lambda *plans, quiet=False: None)


@pytest.fixture
def asked(site, tmp_path):
    """A BEIR folder, whose documents are addresses of the site's pages."""
    folder = tmp_path / "asked"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": id, "text": text}) for id, (text, _) in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    judge(folder, site)
    return folder


def address(site, name):
    return (site.source / name).as_uri()


def judge(folder, site, anchor="", prefix=""):
    rows = [f"{id}\t{prefix}{address(site, name)}{anchor}\t1\n" for id, (_, name) in QUERIES.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def compare(capsys, site, asked, a, b, *more):
    code = main(["compare", a, b, "--queries", str(asked), "--index", str(site.index), *more])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("anchor", ["", "#rows"])
def test_a_generation_that_lost_a_page(site, asked, capsys, anchor):
    judge(asked, site, anchor)
    first = site.build()
    (site.source / "partial.md").unlink()
    second = site.build()
    code, out, _ = compare(capsys, site, asked, first, "live", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["a"]["generation"], found["b"]["generation"]) == (first, second)
    assert (found["a"]["missing"], found["b"]["missing"]) == (0, 1)
    measured = found["measures"]["ndcg@10"]
    assert (measured["a"], measured["b"], measured["worse"], measured["same"]) == (1.0, 0.5, 1, 1)
    [lost, kept] = found["by_query"]
    assert (lost["id"], lost["difference"]) == ("q1", -1)
    assert (kept["id"], kept["difference"]) == ("q2", 0)


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ("live", "20200101T000000-000000", "there is no generation 20200101T000000-000000 in"),
        ("live", "live", "live and live are the same: nothing to compare"),
    ],
)
def test_what_cannot_be_compared(site, asked, capsys, a, b, told):
    site.build()
    code, out, err = compare(capsys, site, asked, a, b)
    assert (code, out) == (2, "")
    assert told in err
