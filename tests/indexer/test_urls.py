import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from indexer.urls import has_user, is_loopback, normalise, origin, with_anchor


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("b.html", "http://h.test/a/b.html"),
        ("../b", "http://h.test/b"),
        ("/../../b/./c/..", "http://h.test/b/"),
        ("http://h.test/x/../y", "http://h.test/y"),
        ("#here", "http://h.test/a/start"),
        ("", "http://h.test/a/start"),
        ("?q=1#x", "http://h.test/a/start?q=1"),
        ("HTTP://H.TEST:80", "http://h.test/"),
        ("https://h.test:443/", "https://h.test/"),
        ("http://h.test:8080/", "http://h.test:8080/"),
        ("http://user:secret@h.test/", "http://h.test/"),
        ("http://h.test./", "http://h.test/"),
        ("http://bücher.test/", "http://xn--bcher-kva.test/"),
        ("/%7euser/%e4%bd", "http://h.test/~user/%E4%BD"),
        ("/a b", "http://h.test/a%20b"),
        ("/ü", "http://h.test/%C3%BC"),
        ("/p?utm_source=x&id=3&fbclid=y", "http://h.test/p?id=3"),
        ("/p?b=2&a=1", "http://h.test/p?b=2&a=1"),
        ("/p?", "http://h.test/p"),
        (" \n/padded\t", "http://h.test/padded"),
        ("http://[::1]:81/x", "http://[::1]:81/x"),
        ("http://[0:0::0:1]/", "http://[::1]/"),
        ("\\x\\..\\y", "http://h.test/y"),
        ("\\\\other.test\\x", "http://other.test/x"),
        ("http:\\\\other.test\\a?b\\c", "http://other.test/a?b\\c"),
        ("http:/other", "http://h.test/other"),
        ("https:other.test", "https://other.test/"),
        ("///other.test/x", "http://other.test/x"),
        ("/a\n\tb/\r\nc", "http://h.test/ab/c"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://%31%32%37.0.0.1/", "http://127.0.0.1/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("http://faß.test/", "http://xn--fa-hia.test/"),
        ("http://FASS。test/", "http://fass.test/"),
        ("http://so\u00adft.test/", "http://soft.test/"),
        ("http://☃.test/", "http://xn--n3h.test/"),
        ("http://h.test./x@y", "http://h.test/x@y"),
        ("http://h.test.:81/", "http://h.test:81/"),
        ("http://h.test../", "http://h.test../"),
        ("/a%2e%2e/%2e%2e/b%2", "http://h.test/b%2"),
        ("/[x]|y^z", "http://h.test/[x]|y%5Ez"),
        ("/p?x='a b'&y=%e4&utm_medium=z", "http://h.test/p?x=%27a%20b%27&y=%e4"),
        ("/p?utm_source&x", "http://h.test/p?utm_source&x"),
        ("?utm_id=1", "http://h.test/a/start"),
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


def test_what_is_sent_is_what_the_url_standard_serialises_but_for_spelling() -> None:
    """Where path and query differ from the standard's, they differ in needless escapes or an empty query."""
    different = []
    for case in standard_cases():
        if case.get("href", "").startswith(("http:", "https:")):
            wanted = f"{case['protocol']}//{root_dropped(case['host'])}{case['pathname']}{case['search']}"
            if normalise(case["base"] or "", case["input"]) != wanted:
                different.append(case)
    assert all("%" in case["pathname"] for case in different)
    assert len(different) <= 8


def standard_cases() -> list[dict[str, Any]]:
    path = Path(__file__).parents[2] / "../shared/standards/urltestdata.json"
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


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LocalHost")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "localhost.example", "10.0.0.1", "127.0.0.1.example")))


@pytest.mark.parametrize(
    "url",
    [
        "https://me@site.example/", "http://me:secret@site.example", "https:/\t/me@site.example", "http://a\\@b/",
        "https:me:secret@site.example", "http:\\\\me@site.example",
    ],
)  # fmt: skip
def test_a_user_in_an_address(url: str) -> None:
    assert has_user(url)
