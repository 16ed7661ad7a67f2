"""Jobs over REST; `tests/rag/serving/test_jobs.py` has what they do."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from rag.serving.access import KeyFile
from rag.settings import Settings
from tests.web.fakes import FakeJobs, FakeRetriever
from web.app import create_app

URL = "/api/v1/index"


def client_with(folder: Path, jobs: FakeJobs | None) -> FlaskClient:
    keyring = KeyFile(folder / "keys.json")
    client = create_app(FakeRetriever(), Settings(keys=str(keyring.path)), jobs).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {keyring.add('writer', 'write')}"
    return client


@pytest.fixture
def writer(tmp_path):
    return client_with(tmp_path, FakeJobs())


def test_start_follow_and_cancel(writer):
    started = writer.post(URL, json={"sources": ["site"], "add": True})
    job = started.get_json()
    assert (started.status_code, job["state"], job["add"]) == (202, "running", True)
    assert started.headers["Location"] == f"{URL}/{job['id']}"
    assert writer.get(started.headers["Location"]).get_json() == job
    assert writer.get(URL).get_json() == {"jobs": [job]}
    assert writer.post(URL, json={}).status_code == 409
    cancelled = writer.delete(f"{URL}/{job['id']}")
    assert (cancelled.status_code, cancelled.get_json()["state"]) == (202, "cancelled")
    assert writer.delete(f"{URL}/{job['id']}").status_code == 409
    for method in ("GET", "DELETE"):
        response = writer.open(f"{URL}/20261121T000000-00000f", method=method)
        assert (response.status_code, response.get_json()["field"]) == (404, "id")
    response = writer.post(URL, json={"sources": ["/etc"]})
    assert (response.status_code, response.get_json()["field"]) == (403, "sources")


def test_a_server_without_jobs(tmp_path):
    assert client_with(tmp_path, None).post(URL, json={}).status_code == 501
