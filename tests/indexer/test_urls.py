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
    ],
)
def test_one_name_for_each_page(href: str, expected: str) -> None:
    assert normalise("http://h.test/a/start", href) == expected


@pytest.mark.parametrize(
    "href",
    ["mailto:a@b.c", "javascript:alert(1)", "file:///etc/passwd", "ftp://h.test/", "data:text/html,x", "https://",
     "http://[::1", "http://h.test:99999/", "http://h.test:x/", "http://a b/", "/" + "x" * 3000, "http://" + "é" * 70],
)  # fmt: skip
def test_what_is_not_a_page_address_is_nothing(href: str) -> None:
    assert normalise("http://h.test/", href) is None


def test_normalising_twice_changes_nothing() -> None:
    once = normalise("http://h.test/", "/a%2fb/%C3%A9 c?x=%20y&z")
    assert once is not None
    assert normalise(once, "") == once


def test_origin_and_anchor() -> None:
    assert origin("http://h.test:81/a?b") == "http://h.test:81"
    assert with_anchor("http://h.test/a", "json.dump") == "http://h.test/a#json.dump"
    assert with_anchor("http://h.test/a", 'two words"') == "http://h.test/a#two%20words%22"
    assert with_anchor("http://h.test/a", None) == "http://h.test/a"


def test_loopback() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LocalHost")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "localhost.example", "10.0.0.1", "127.0.0.1.example")))


@pytest.mark.parametrize(
    "url", ["https://me@site.example/", "http://me:secret@site.example", "https:/\t/me@site.example", "http://a\\@b/"]
)
def test_a_user_in_an_address(url: str) -> None:
    assert has_user(url)


@pytest.mark.parametrize(
    "url", ["https://site.example/@me", "https://site.example?to=me@b", "https://site.example#@", "me@site.example", ""]
)
def test_no_user_in_an_address(url: str) -> None:
    assert not has_user(url)
