from contextlib import closing

import pytest

from indexer.crawl.fetch import Fetcher
from indexer.urls import normalise
from tests.indexer.crawl.test_fetch import SMALL
from tests.indexer.server import Site, redirect

HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"


@pytest.mark.parametrize(
    "path",
    [
        "/a;jsessionid=0000000000000000000000000000001A", "/a;JSESSIONID=abc.node1",
        "/a;jsessionid=2ZxKQpLJ9y!-1234567", "/a%3Bjsessionid=AB12CD34", f"/a;sid={HEX}",
        "/a?PHPSESSID=q1w2e3r4t5y6u7i8o9p0a1s2d3", "/a?ASPSESSIONIDQQGGGRTS=KJHGFDSA", f"/a?sid={HEX}",
        f"/a?osCsid={HEX}", "/a?session_id=550e8400-e29b-41d4-a716-446655440000",
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
