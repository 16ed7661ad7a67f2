"""The operator's name, logo and colour."""

import gzip
import re
from dataclasses import replace

import pytest

from rag.errors import SettingsError
from rag.serving.api_keys import KeyFile
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def test_pages_have_the_brand_even_without_a_key(tmp_path):
    logo = tmp_path / "logo.svg"
    logo.write_bytes(SVG)
    KeyFile(tmp_path / "keys.json").add("reader", "read")
    settings = replace(
        Settings(),
        site_name="Acme <Docs>",
        site_logo=str(logo),
        keys=str(tmp_path / "keys.json"),
    )
    client = create_app(FakeRetriever(), settings).test_client()
    html = client.get("/", headers={"Accept": "text/html"}).text
    assert "<title>Acme &lt;Docs&gt;</title>" in html
    assert "Pilotlight" not in html
    [image] = re.findall(r'<img src="([^"]+)"', html)
    answer = client.get(image)
    assert (answer.data, answer.content_type) == (SVG, "image/svg+xml; charset=utf-8")
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert "immutable" in answer.headers["Cache-Control"]


def test_without_one_there_is_ours():
    client = create_app(FakeRetriever(), Settings()).test_client()
    assert "/brand/" not in client.get("/").text
    assert client.get("/brand/logo").status_code == 404


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"site_logo": "/nonexistent/logo.png"}, "cannot be read: No such file"),
        ({"site_logo": "/etc/passwd"}, "must be a file of type"),
        ({"site_name": " "}, "must have 1 to 60 characters"),
    ],
)
def test_what_cannot_be_used_is_said(changes, said):
    with pytest.raises(SettingsError, match=re.escape(said)):
        create_app(FakeRetriever(), replace(Settings(), **changes))


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
