"""Jobs over REST; `tests/rag/serving/test_job_manager.py` has what they do."""

import pytest
from flask.testing import FlaskClient

from rag.serving.api_keys import KeyFile
from rag.settings import Settings
from tests.web.fakes import FakeJobs, FakeRetriever
from web.app import create_app

URL = "/api/v1/index"


@pytest.fixture
def keyring(tmp_path):
    return KeyFile(tmp_path / "keys.json")


def client_with(keyring: KeyFile, role: str, jobs: FakeJobs | None) -> FlaskClient:
    key = keyring.add(role, role)
    client = create_app(FakeRetriever(), Settings(keys=str(keyring.path)), jobs).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {key}"
    return client


@pytest.fixture
def writer(keyring):
    return client_with(keyring, "write", FakeJobs())


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


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"sources": "site"}, "sources"),
        ({"sources": [5]}, "sources[0]"),
        ({"sources": [""]}, "sources[0]"),
        ({"sources": ["site"] * 1001}, "sources"),
        ({"add": 1}, "add"),
        ({"full": "yes"}, "full"),
        ({"collection": ""}, "collection"),
        ({"collection": "../x"}, "collection"),
        ({"source": "site"}, "source"),
    ],
)
def test_bad_fields_are_named(writer, fields, field):
    response = writer.post(URL, json=fields)
    assert (response.status_code, response.get_json()["field"]) == (400, field)


def test_a_source_that_is_not_allowed(writer):
    response = writer.post(URL, json={"sources": ["/etc"]})
    assert (response.status_code, response.get_json()["field"]) == (403, "sources")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_unknown_job(writer, method):
    response = writer.open(f"{URL}/20261121T000000-000000", method=method)
    assert (response.status_code, response.get_json()["field"]) == (404, "id")


def test_reading_is_not_enough(keyring, client):
    reader = client_with(keyring, "read", FakeJobs())
    for method, url in (("POST", URL), ("GET", URL), ("GET", f"{URL}/x"), ("DELETE", f"{URL}/x")):
        assert reader.open(url, method=method, json={}).status_code == 403
        assert client.open(url, method=method, json={}).status_code == 401


def test_a_server_without_jobs(keyring):
    assert client_with(keyring, "write", None).post(URL, json={}).status_code == 501
