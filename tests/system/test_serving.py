"""A real server: readiness, answers, bad requests, and a rebuild under traffic."""

import json
import os
import subprocess
import sys
import threading

import pytest

from embedder.config import EmbedderConfig
from embedder.engines.plan import Plan
from tests.system.conftest import ROOT, request, run, serving, wait_for, write_pages

pytestmark = pytest.mark.model
FORBIDDEN = {"transformers", "sentence_transformers", "langchain", "langchain_core", "langchain_community", "bs4"}
FORBIDDEN |= {"pymilvus", "grpc", "pydantic"}


def test_the_same_answer_everywhere(index):
    with serving(index) as url:
        status, by_get = request(f"{url}/api/v1/search?q=partial+index&k=2")
        assert status == 200
        _, by_post = request(f"{url}/api/v1/search", {"query": "partial index", "k": 2})
        printed = json.loads(run("search", "partial index", "-k", "2", "--index", index, "--json").stdout)
        for answer in (by_get, by_post, printed):
            del answer["took_ms"]
        assert by_get == by_post == printed
        assert request(f"{url}/livez")[0] == 200
        assert request(f"{url}/readyz")[1]["documents"] == 3


def test_the_serving_process_imports_no_heavy_library(index):
    code = (
        "import sys, time\n"
        "from web.app import application\n"
        "client = application().test_client()\n"
        "while client.get('/readyz').status_code != 200: time.sleep(0.05)\n"
        "assert client.get('/api/v1/search?q=vacuum').get_json()['hits']\n"
        "assert client.get('/?q=vacuum').status_code == 200\n"
        "print(*sys.modules)\n"
    )
    environ = os.environ | {"PILOTLIGHT_INDEX": str(index)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"faiss", "flask"} <= imported
    assert not imported & FORBIDDEN
    assert ("torch" in imported) == (Plan(EmbedderConfig()).engine != "native")


def test_a_rebuild_is_picked_up_without_a_failed_request(tmp_path):
    source, index = tmp_path / "source", tmp_path / "index"
    source.mkdir()
    write_pages(source, ["vacuum.md"])
    assert run("index", source, "--index", index, "--quiet").returncode == 0
    with serving(index, "--workers", "2") as url:
        answers, failures, stop = [], [], threading.Event()

        def ask():
            while not stop.wait(0.02):  # to ask without a pause would only slow down what is waited for
                try:
                    status, body = request(f"{url}/api/v1/search?q=partial+index&k=1")
                except OSError as error:
                    failures.append(repr(error))
                    return
                answers.append(body["generation"]) if status == 200 else failures.append(body)

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            write_pages(source)
            script = [sys.executable, str(ROOT / "scripts" / "rebuild_index.py"), "--index", str(index), "--json"]
            done = subprocess.run(script, capture_output=True, text=True, check=True)
            generation = json.loads(done.stdout)["generation"]
            # every worker has switched when a run of answers has come from the new generation alone
            wait_for(lambda: failures or set(answers[-100:]) == {generation}, "the new generation to be served")
        finally:
            stop.set()
            for client in clients:
                client.join()
        assert failures == []
        assert request(f"{url}/api/v1/search?q=partial+index&k=1")[1]["hits"][0]["title"] == "Partial indexes"
