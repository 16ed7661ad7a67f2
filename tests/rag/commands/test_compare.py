"""`pilotlight compare` on an index of a dummy model."""

import json

import pytest

from rag.commands.cli import main
from tests.dummy import DummyEmbedder

QUERIES = {"q1": ("index of rows that satisfy a predicate", "partial.md"), "q2": ("vacuum", "vacuum.md")}


@pytest.fixture(autouse=True)
def _no_model(monkeypatch):
    monkeypatch.setattr("rag.serving.live.load_embedder", lambda settings: DummyEmbedder())
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
    assert lost["relevant"] == [{"id": address(site, "partial.md"), "relevance": 1, "a": 1, "b": None}]
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
