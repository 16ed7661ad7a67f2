import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from indexer.crawl.fetch import Fetcher
from indexer.network.urls import has_user, normalise, origin, with_anchor
from tests.indexer.crawl.test_fetch import SMALL
from tests.indexer.server import Site, redirect


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("b.html", "http://h.test/a/b.html"),
        ("../b", "http://h.test/b"),
        ("", "http://h.test/a/start"),
        ("?q=1#x", "http://h.test/a/start?q=1"),
        ("https://h.test:443/", "https://h.test/"),
        ("http://h.test:8080/", "http://h.test:8080/"),
        ("http://user:secret@h.test/", "http://h.test/"),
        ("http://h.test./", "http://h.test/"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("/%7euser/%e4%bd", "http://h.test/~user/%E4%BD"),
        ("/a b", "http://h.test/a%20b"),
        ("/ü", "http://h.test/%C3%BC"),
        ("/p?utm_source=x&id=3&fbclid=y", "http://h.test/p?id=3"),
        ("/p?", "http://h.test/p"),
        (" \n/padded\t", "http://h.test/padded"),
        ("http://[::1]:81/x", "http://[::1]:81/x"),
        ("\\x\\..\\y", "http://h.test/y"),
        ("\\\\other.test\\x", "http://other.test/x"),
        ("/a\n\tb/\r\nc", "http://h.test/ab/c"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://h.test./x@y", "http://h.test/x@y"),
        ("http://h.test../", "http://h.test../"),
        ("/a%2e%2e/%2e%2e/b%2", "http://h.test/b%2"),
        ("/p?utm_source&x", "http://h.test/p?utm_source&x"),
    ],
)
def test_one_name_for_each_page(href: str, expected: str) -> None:
    assert normalise("http://h.test/a/start", href) == expected


@pytest.mark.parametrize(
    "href",
    ["mailto:a@b.c", "javascript:alert(1)", "file:///etc/passwd", "ftp://h.test/", "data:text/html,x", "https://",
     "http://[::1", "http://h.test:99999/", "http://h.test:x/", "http://a b/", "/" + "x" * 3000, "http://1.2.3.4.5/",
     "http://0x100000000/", "http://a%00b/", "http://a%2fb/", "http://[::1%25eth0]/",
     "http://h.test/\ud800"],
)  # fmt: skip
def test_what_is_not_a_page_address_is_nothing(href: str) -> None:
    assert normalise("http://h.test/", href) is None


def test_normalising_twice_changes_nothing() -> None:
    once = normalise("http://h.test/", "/a%2fb/%C3%A9 c?x=%20y&z")
    assert once is not None
    assert normalise(once, "") == once


def test_addresses_are_read_as_the_url_standard_says() -> None:
    for case in standard_cases():
        wanted = case.get("href", "")
        found = normalise(case["base"] or "", case["input"])
        if not wanted.startswith(("http:", "https:")):
            assert found is None, case
        else:
            assert found == normalise("", wanted), case
            parts = urlsplit(found or "")
            assert (parts.scheme, parts.netloc) == (case["protocol"][:-1], root_dropped(case["host"])), case


def standard_cases() -> list[dict[str, Any]]:
    path = Path(__file__).parents[4] / "shared/standards/urltestdata.json"
    if not path.is_file():
        pytest.skip("the test data of the URL standard is not there")
    return [case for case in json.loads(path.read_bytes()) if isinstance(case, dict)]


def root_dropped(host: str) -> str:
    return host[:-1] if host.endswith(".") and host.strip(".") and not host.endswith("..") else host


def test_origin_and_anchor() -> None:
    assert origin("http://h.test:81/a?b") == "http://h.test:81"
    assert with_anchor("http://h.test/a", "json.dump") == "http://h.test/a#json.dump"
    assert with_anchor("http://h.test/a", 'two words"') == "http://h.test/a#two%20words%22"
    assert with_anchor("http://h.test/a", None) == "http://h.test/a"


@pytest.mark.parametrize(
    "url",
    [
        "https://me@site.example/", "http://me:secret@site.example", "https:/\t/me@site.example", "http://a\\@b/",
        "https:me:secret@site.example", "http:\\\\me@site.example",
    ],
)  # fmt: skip
def test_a_user_in_an_address(url: str) -> None:
    assert has_user(url)


HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"


@pytest.mark.parametrize(
    "path",
    [
        "/a;jsessionid=0000000000000000000000000000001A", "/a;JSESSIONID=abc.node1",
        "/a;jsessionid=2ZxKQpLJ9y!-1234567", "/a%3Bjsessionid=AB12CD34", f"/a;sid={HEX}",
        "/a?PHPSESSID=q1w2e3r4t5y6u7i8o9p0a1s2d3", "/a?ASPSESSIONIDQQGGGRTS=KJHGFDSA", f"/a?sid={HEX}",
        f"/a?osCsid={HEX}", "/a?session_id=550e8400-e29b-41d4-a716-446655440000",
        "/a?sessid=Zx9Yw8Vu7Ts6Rq5P", "/a?CFID=1234&CFTOKEN=56789012", "/(S(lit3py55t21z5v55vlm25s55))/a",
    ],
)  # fmt: skip
def test_session_ids_are_no_part_of_an_address(path: str) -> None:
    assert normalise("http://t.test/x/", path) == "http://t.test/a"
    assert normalise("http://t.test/", f"{path}{'&' if '?' in path else '?'}page=2") == "http://t.test/a?page=2"


@pytest.mark.parametrize(
    "path",
    [
        f"/a?id={HEX}", f"/a?commit={HEX}", "/a?sid=12", "/a?sid=20261125000001234",
        "/a?sid=chapter-one-of-the-book", "/a?session=autumn-2026", "/a?q=phpsessid", "/a;v=1.2", "/a;type=pdf",
        "/jsessionid",
    ],
)  # fmt: skip
def test_what_names_a_document_stays(path: str) -> None:
    assert normalise("http://t.test/", path) == f"http://t.test{path}"


def test_a_server_that_insists_on_a_session_is_asked_with_it(site: Site) -> None:
    site.routes["/a"] = redirect(f"/a;jsessionid={HEX}")
    site.routes[f"/a;jsessionid={HEX}"] = "words"
    with closing(Fetcher(SMALL)) as fetcher:
        answer = fetcher.get(f"{site.url}/a")
    assert (answer.url, answer.body) == (f"{site.url}/a", b"words")
