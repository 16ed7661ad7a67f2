"""A change of model where the index is in Milvus: with the settings that nobody has touched."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.system.conftest import request, run, serving, wait_for, write_pages

pytestmark = [pytest.mark.model, pytest.mark.longest]


def done(*arguments):
    """Run a verb that ends well; gives its JSON."""
    ended = run(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@contextmanager
def asking(url: str, broken: int = 0) -> Iterator[list[tuple[int, str]]]:
    """Ask all the while, give the statuses and generations; none may fail, but for so many whose worker was killed."""
    answers: list[tuple[int, str]] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
            try:
                status, body = request(f"{url}/api/v1/search?q=dead+tuples&k=1")
            except (OSError, http.client.HTTPException):
                status, body = 0, {}
            answers.append((status, body.get("generation", "")))

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield answers
    finally:
        stop.set()
        client.join()
    statuses = [status for status, _ in answers]
    assert set(statuses) <= {200, 0}
    assert statuses.count(0) <= broken


def served_by(answers: list[tuple[int, str]], generation: str, last: int = 20) -> bool:
    """Whether every worker answers from a generation."""
    return len(answers) > last and {each for _, each in answers[-last:]} == {generation}


def test_milvus(tmp_path, fresh_milvus):
    source, index, place = tmp_path / "source", tmp_path / "index", fresh_milvus.place("docs")
    source.mkdir()
    write_pages(source)
    first = done("index", source, "--index", index, "--store", place)["generation"]
    with serving(tmp_path / "none", "--store", place, "--workers", "2") as url, asking(url) as answers:
        wait_for(lambda: served_by(answers, first), "an answer")
        second = done("index", "--index", index, "--store", place, "--precision", "int8")["generation"]
        wait_for(lambda: served_by(answers, second), "the other model")
        assert [each["precision"] for each in request(f"{url}/readyz")[1]["models"]] == ["int8"]
        assert done("rollback", "--store", place)["generation"] == first
        wait_for(lambda: served_by(answers, first), "the model before")
    found = done("search", "dead tuples", "--store", place)
    assert (found["generation"], found["hits"][0]["title"]) == (first, "Vacuum")
