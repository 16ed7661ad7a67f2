"""A real server: readiness, answers, bad requests, and a rebuild under traffic."""

import json
import os
import subprocess
import sys

import pytest

from embedder.config import EmbedderConfig
from embedder.engines.plan import Plan
from tests.system.conftest import request, run, serving

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
