"""The script of the search box, as a file: whoever may load it, how long it is kept."""

import gzip

import pytest

from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app


@pytest.fixture
def client():
    return create_app(FakeRetriever(), Settings(anonymous="none")).test_client()


def test_every_page_may_load_it_without_a_key(client):
    response = client.get("/embed.js")
    assert response.mimetype == "text/javascript"
    assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "public, max-age=3600"
    for other in ("/static/embed.js", "/static/page.js", "/api/v1/search?q=a"):
        found = client.get(other)
        assert found.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        found.close()


def test_it_is_sent_packed_and_only_when_it_has_changed(client):
    plain = client.get("/embed.js")
    packed = client.get("/embed.js", headers={"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert "Accept-Encoding" in packed.headers["Vary"]
    again = client.get("/embed.js", headers={"If-None-Match": packed.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
