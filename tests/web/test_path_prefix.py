"""Below a path of another site."""

import re

import pytest
from flask.testing import FlaskClient

from rag.errors import SettingsError
from rag.settings import Settings
from tests.web.fakes import FakeJobs, FakeRetriever, make_hit
from web.app import create_app

ADDRESS = re.compile(r'(?:href|src|action|data-api)="(/[^"]*)"')
PREFIXED = {"X-Forwarded-Prefix": "/search"}


@pytest.fixture
def found(retriever):
    retriever.hits = [make_hit(1)]
    return retriever


def client_of(retriever: FakeRetriever, **settings: object) -> FlaskClient:
    return create_app(retriever, Settings(**settings), FakeJobs()).test_client()


def below(client: FlaskClient, path: str, **headers: str) -> list[str]:
    page = client.get(path, headers={"Accept": "text/html", **headers})
    assert page.status_code == 200
    addresses = ADDRESS.findall(page.get_data(as_text=True))
    assert len(addresses) > 4
    return [address for address in addresses if not address.startswith("/search/")]


@pytest.mark.parametrize("path", ["/?q=fsync", "/search/?q=fsync", "/status", "/search/status"])
def test_every_address_of_a_page_is_below_the_prefix(found, path):
    assert below(client_of(found, proxies=1), path, **PREFIXED) == []
    assert below(client_of(found, path_prefix="search/"), path) == []


@pytest.mark.parametrize("prefix", ["/a b", "/a//b", "/a/../b", "/api/x"])
def test_a_setting_that_is_no_path(found, prefix):
    with pytest.raises(SettingsError, match="--path-prefix"):
        client_of(found, path_prefix=prefix)


def test_nobody_but_a_trusted_proxy_says_the_prefix(found):
    assert below(client_of(found), "/?q=fsync", **PREFIXED) != []  # nobody is trusted


@pytest.mark.parametrize(
    "said", ["//evil.example", "/a/../b", "/a b", '/"><script>', "https://evil.example", "/api", "/.."]
)
def test_what_is_no_path_is_not_taken(found, said):
    page = client_of(found, proxies=1).get("/?q=fsync", headers={"X-Forwarded-Prefix": said})
    assert said not in page.get_data(as_text=True)
    assert page.status_code == 200
