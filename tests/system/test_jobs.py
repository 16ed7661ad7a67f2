"""The index built through a real server, whose workers pick it up."""

import json
import urllib.request
from typing import Any

import pytest

from tests.system.conftest import request, run, serving, wait_for, write_pages

pytestmark = pytest.mark.model


def test_a_rebuild_driven_from_afar(tmp_path):
    source, index = tmp_path / "source", tmp_path / "index"
    source.mkdir()
    write_pages(source, ["partial.md"])
    assert run("index", source, "--index", index, "--quiet").returncode == 0
    key = json.loads(run("keys", "add", "builder", "--role", "write", "--index", index, "--json").stdout)["key"]

    def ask(method: str, url: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60) as answer:
            return json.load(answer)

    with serving(index, "--workers", "2", "--anonymous", "read") as url:
        write_pages(source, ["vacuum.md"])
        job = ask("POST", f"{url}/api/v1/index", {})
        assert job["state"] in ("running", "done")
        wait_for(lambda: ask("GET", f"{url}/api/v1/index/{job['id']}")["state"] == "done", "the job to end")
        report = ask("GET", f"{url}/api/v1/index")["jobs"][0]["report"]
        assert (report["documents"], report["new"]["count"]) == (2, 1)
        generation = report["generation"]
        newest: dict[str, Any] = {}

        def is_served() -> bool:  # by either worker, the second of which may come a little later
            newest.update(request(f"{url}/api/v1/search?q=vacuum&k=1")[1])
            return newest["generation"] == generation

        wait_for(is_served, "the new generation to be served")
        [hit] = newest["hits"]
        document = f"{url}/api/v1/documents/{hit['document']}"
        wait_for(lambda: request(document)[0] == 200, "the other worker to serve it")
        assert hit["title"] == "Vacuum"
        assert len(request(f"{url}/v1/embeddings", {"input": "vacuum"})[1]["data"][0]["embedding"]) == 384
