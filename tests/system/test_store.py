"""An index in Milvus, as its operator meets it: built, published, served, switched under load, lost and back."""

import json
import threading

import pytest

from tests.system.conftest import request, run, serving, wait_for, write_pages

pytestmark = [pytest.mark.model, pytest.mark.longest]


def done(*arguments):
    """Run a verb that ends well; gives its JSON."""
    ended = run(*arguments, "--json")
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    return json.loads(ended.stdout)


def test_publish_serve_switch_lose_and_regain(tmp_path, fresh_milvus):
    source, index, place = tmp_path / "source", tmp_path / "index", fresh_milvus.place("docs")
    source.mkdir()
    write_pages(source)
    built = done("index", source, "--index", index, "--store", place)
    assert built["store"]["generation"] == built["generation"]
    found = done("search", "dead tuples", "--index", tmp_path / "none", "--store", place)
    assert (found["generation"], found["hits"][0]["title"]) == (built["generation"], "Vacuum")
    with serving(tmp_path / "none", "--store", place, "--workers", "2", "--deadline", "2") as url:
        answers, stop = [], threading.Event()

        def ask():
            while not stop.wait(0.05):  # to ask without a pause would only slow down what is waited for
                answers.append(request(f"{url}/api/v1/search", {"query": "dead tuples", "k": 1}))

        def served_by_all(generation):
            last = answers[-20:]
            return len(last) == 20 and {body.get("generation") for _, body in last} == {generation}

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        (source / "new.md").write_text("# New\n\na fresh page\n", encoding="utf-8")
        newest = done("index", "--index", index, "--store", place)["generation"]
        wait_for(lambda: served_by_all(newest), "the new generation")
        report = done("rollback", "--store", place)
        assert (report["generation"], report["before"]) == (built["generation"], newest)
        wait_for(lambda: served_by_all(built["generation"]), "the older generation")
        stop.set()
        for thread in threads:
            thread.join()
        assert {status for status, _ in answers} == {200}
        for leave, return_ in ((fresh_milvus.kill, fresh_milvus.start), (fresh_milvus.hang, fresh_milvus.wake)):
            leave()
            wait_for(lambda: request(f"{url}/readyz")[0] == 503, "the server to notice")
            status, problem = request(f"{url}/api/v1/search?q=vacuum")
            assert (status, problem["status"]) == (503, 503)
            assert place in problem["detail"]
            return_()
            wait_for(lambda: request(f"{url}/api/v1/search?q=vacuum")[0] == 200, "the server to answer again")
