"""Below a path of another site: in process, and behind Debian's nginx."""

import re

import httpx
import pytest
from flask.testing import FlaskClient

from rag import Client
from rag.errors import SettingsError
from rag.settings import Settings
from tests.ports import free_port
from tests.web.fakes import FakeJobs, FakeRetriever, make_hit
from tests.web.running import NEEDS_NGINX, nginx, running
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


NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    location /search/ {{
      proxy_pass http://127.0.0.1:{stripped}/;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Prefix /search;
    }}
    location /docs/find/ {{
      proxy_pass http://127.0.0.1:{whole};
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Prefix /docs/find;
    }}
  }}
}}
"""


@pytest.fixture
def proxy(found, tmp_path):
    """Address of an nginx that takes /search off an address, and leaves /docs/find in it."""
    with running(create_app(found, Settings(proxies=1), FakeJobs())) as server:
        port = free_port()
        ports = dict.fromkeys(("stripped", "whole"), server.rpartition(":")[2])
        (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path, port=port, **ports))
        address = f"http://127.0.0.1:{port}"
        with nginx(tmp_path / "nginx.conf", lambda: httpx.get(address, trust_env=False).status_code > 0):
            yield address


@NEEDS_NGINX
@pytest.mark.parametrize("prefix", ["/search", "/docs/find"])
def test_behind_nginx(proxy, prefix):
    base = proxy + prefix
    with httpx.Client(trust_env=False, headers={"Accept": "text/html"}) as browser:
        page = browser.get(f"{base}/", params={"q": "fsync"})
        addresses = set(ADDRESS.findall(page.text))
        assert addresses
        assert all(address.startswith(prefix + "/") for address in addresses)
        leads = [address for address in addresses if "/api/" not in address and "/document/" not in address]
        assert {browser.get(proxy + address.replace("&amp;", "&")).status_code for address in leads} == {200}
        [server] = browser.get(f"{base}/openapi.json").json()["servers"]
        assert server["url"] == f"{prefix}/"
        started = browser.post(f"{base}/api/v1/index", json={})
        assert started.status_code == 401
        assert browser.get(f"{base}/embed.js").status_code == 200
    with Client(base) as client:
        assert [hit.id for hit in client.search("fsync").hits] == ["chunk-1"]
