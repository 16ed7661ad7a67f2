import json
import subprocess
import sys

import pytest

from rag.errors import DatasetError, QueryError
from rag.evaluation.evaluation import evaluate, read_dataset
from tests.dummy import DummyEmbedder


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
    with pytest.raises(QueryError, match="mode must be one of"):
        evaluate(read_dataset(folder), DummyEmbedder(), mode="guess")
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


@pytest.mark.parametrize(("mode", "says"), [("hybrid", True), ("dense", True), ("lexical", None)])
def test_tokens(folder, mode, says):
    scores = evaluate(read_dataset(folder), DummyEmbedder(), mode=mode, tokens=True)
    assert scores.get("tokens") is says
    assert scores["mrr@10"] >= 0.5
    assert mode != "hybrid" or scores["recall@100"] == 1.0  # d0 is found for q2 by meaning


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("corpus.jsonl", None, "cannot read .*corpus.jsonl: No such file"),
        ("corpus.jsonl", "", "no documents"),
        ("corpus.jsonl", '{"_id": "a", "text": "t"}\n{"no": 1}', "line 2 is not JSON with _id and text"),
        ("corpus.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("corpus.jsonl", '{"_id": "a", "text": "' + "x" * 10_000_000, "line 1 .* over 10,000,000 bytes"),
        ("corpus.jsonl", '{"_id": "a", "text": "\\ud800"}', "line 1 is not JSON"),
        ("queries.jsonl", '{"_id": ["a"], "text": "t"}', "queries.jsonl line 1 .* Expected `str`"),
        ("qrels/test.tsv", "a\tb\n1\t2\n", "test.tsv cannot be read"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\tx\n", "test.tsv cannot be read"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t" + "9" * 20, "a score is over"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n" + "q" * 200_000 + "\td1\t1\n", "field larger than"),
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
