"""A real server changes from a real model to another one and back, while it is asked."""

import threading
from pathlib import Path

import pytest

from tests.system.conftest import request, run, serving, wait_for, write_pages


@pytest.mark.model
def test_a_change_of_model_fails_no_request(tmp_path: Path) -> None:
    source, index = tmp_path / "source", tmp_path / "index"
    source.mkdir()
    write_pages(source)
    assert run("index", source, "--index", index, "--quiet", "--precision", "fp32").returncode == 0
    flags = ("--workers", "2", "--precision", "fp32")
    with serving(index, *flags) as url:
        answers: list[tuple[int, str]] = []
        stop = threading.Event()

        def ask() -> None:
            while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
                try:
                    answers.append((request(f"{url}/api/v1/search?q=partial+index&k=1")[0], served()))
                except OSError as error:
                    answers.append((0, repr(error)))

        def served() -> str:
            return " ".join(model["precision"] for model in request(f"{url}/readyz")[1].get("models", ()))

        client = threading.Thread(target=ask)
        client.start()
        try:
            assert run("index", "--index", index, "--quiet", "--precision", "int8").returncode == 0
            wait_for(lambda: {each for _, each in answers[-40:]} == {"int8"}, "all workers to change")
            assert run("rollback", "--index", index).returncode == 0
            wait_for(lambda: {each for _, each in answers[-40:]} == {"fp32"}, "all workers to change back")
        finally:
            stop.set()
            client.join()
        assert {status for status, _ in answers} == {200}
    run("index", "--index", index, "--quiet", "--precision", "int8", "--full")
    found = run("search", "partial index", "--index", index, "--precision", "fp32")
    assert found.returncode == 0, found.stderr
    with serving(index, *flags) as url:  # as after a server that was killed while it changed
        wait_for(lambda: "int8" in str(request(f"{url}/readyz")[1].get("models")), "a worker with the other model")
        assert request(f"{url}/api/v1/search?q=partial+index&k=1")[1]["hits"][0]["title"] == "Partial indexes"
