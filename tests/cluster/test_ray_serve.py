"""`scripts/deploy/ray_serve.py` on a cluster of this machine: the real model, the real proxy."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from tests.system.conftest import ROOT, free_port, request, run, wait_for, write_pages

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not importlib.util.find_spec("fastapi"), reason="the extra rayserve is not installed"),
]


def test_a_replica_answers_and_all_ends_with_the_script(tmp_path):
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path / "docs")
    done = run("index", tmp_path / "docs", "--index", tmp_path / "index", "--quiet")
    assert done.returncode == 0, done.stderr
    settings = {"PILOTLIGHT_INDEX": str(tmp_path / "index"), "PILOTLIGHT_PORT": str(free_port())}
    url = f"http://127.0.0.1:{settings['PILOTLIGHT_PORT']}"
    environment = os.environ | settings | {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryFile("w+") as said:
        line = [sys.executable, str(ROOT / "scripts" / "deploy" / "ray_serve.py")]
        process = subprocess.Popen(line, env=environment, stdout=said, stderr=said)

        def log():
            said.seek(0)
            return said.read()

        def is_ready():
            assert process.poll() is None, log()
            try:
                return request(f"{url}/readyz")[0] == 200
            except (OSError, ValueError):  # Ray's proxy answers in plain text until there is a replica
                return False

        try:
            wait_for(is_ready, "a replica")
            status, found = request(f"{url}/api/v1/search", {"query": "Which rows are in a partial index?", "k": 1})
            assert (status, found["hits"][0]["title"]) == (200, "Partial indexes")
            assert request(f"{url}/api/v1/search", {"k": 1})[0] == 400
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
        assert process.returncode == 0, log()
        assert "Traceback" not in log()
