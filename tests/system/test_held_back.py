"""A build that is held back, as an operator meets it: told by its exit code and the server, then published."""

import json

import pytest

from tests.system.conftest import request, run, serving, wait_for, write_pages

pytestmark = pytest.mark.model


def test_held_back_and_published(tmp_path):
    source, index, store = tmp_path / "source", tmp_path / "index", tmp_path / "store"
    source.mkdir()
    write_pages(source)
    asked = tmp_path / "asked"
    (asked / "qrels").mkdir(parents=True)
    (asked / "queries.jsonl").write_text('{"_id": "q", "text": "what reclaims dead tuples"}\n')
    address = (source / "vacuum.md").as_uri()
    (asked / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\t{address}\t1\n")
    where = ("--index", index, "--store", store)
    first = json.loads(run("index", source, *where, "--json").stdout)["generation"]
    (source / "vacuum.md").unlink()
    with serving(index, "--workers", "1") as url:
        built = run("index", *where, "--hold-back-queries", asked, "--json")
        report = json.loads(built.stdout)
        held = report["held_back"]
        assert (built.returncode, report["published"], report["generation"]) == (3, False, first)
        assert held["reason"].startswith("nDCG@10 of 1 question is 0.0000 instead of 1.0000")
        assert report["store"] == {"generation": first, "target": str(store), "copied": False}
        wait_for(lambda: "held_back" in request(f"{url}/readyz")[1], "the server to see it")
        state = request(f"{url}/readyz")[1]
        assert (state["generation"], state["held_back"]["generation"]) == (first, held["generation"])
        page = run("generations", "--index", index).stdout
        assert f"held back: {held['reason']}" in page
        refused = run("publish", first, *where)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"it is {held['generation']} that is" in refused.stderr
        done = json.loads(run("publish", *where, "--json").stdout)
        assert (done["generation"], done["before"]) == (held["generation"], first)
        assert (done["store"]["generation"], done["store"]["copied"]) == (held["generation"], True)
        wait_for(lambda: request(f"{url}/readyz")[1]["generation"] == held["generation"], "the server to follow")
        assert "held_back" not in request(f"{url}/readyz")[1]
    none = run("publish", *where)
    assert (none.returncode, "none is" in none.stderr) == (2, True)
    unread = run("index", *where, "--hold-back-queries", tmp_path)
    assert (unread.returncode, "it needs query-id" in unread.stderr) == (2, True)
