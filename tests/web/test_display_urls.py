"""Files are named as readers see them, never by where they lie on the server."""

from urllib.parse import quote

import pytest

from rag.settings import Settings
from tests.web.library import library
from web.app import create_app
from web.display_urls import Places, distinct

PLACES = Places(["/srv/data/docs", "/srv/data/docs/old", "file:///home/me/notes.zip", "https://docs.example/guide/"])


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("file:///srv/data/docs/a%20b/c.md#x", "docs/a b/c.md"),
        ("file:///srv/data/docs/old/c.md", "old/c.md"),
        ("file:///srv/data/docs2/c.md", "c.md"),  # of no source
        ("file:///home/me/notes.zip!/d.md", "notes.zip!/d.md"),
        ("git+file:///srv/data/docs/e.md", "docs/e.md"),
        ("/srv/data/docs", "docs"),
        ("https://docs.example/guide/f.html", "docs.example/guide/f.html"),
    ],
)
def test_a_file_is_named_from_its_source_on(url, place):
    assert PLACES.of(url) == place
    assert [PLACES.of_folder(path) for path in ("/srv/data/docs/sub", "/srv", "/guide/x")] == [
        "docs/sub",
        "srv",
        "/guide/x",
    ]
    assert PLACES.within("/srv/data/docs/x.md: cannot be read") == "docs/x.md: cannot be read"
    assert distinct(["docs", "docs", "x"], ["/a/docs", "/b/docs/", "/c/x"]) == ["a/docs", "b/docs", "x"]


def test_the_page_narrows_by_names_and_shows_no_path_of_the_server(tmp_path):
    with library(tmp_path, pages=3) as retriever:
        client = create_app(retriever, Settings()).test_client()
        [root] = retriever.describe()["sources"]
        for address in ("/?q=index", "/?q=index&source=source", "/?q=index&path=source", "/status"):
            page = client.get(address).text
            assert "source" in page
            assert root not in page
            assert quote(root, safe="") not in page
            if address != "/status":
                assert page.count('class="hit"') == 3
        names = client.get("/api/v1/suggest?q=number&source=source").json["suggestions"]
        assert [each["text"] for each in names] == ["Number 1", "Number 2", "Number 3"]
        assert client.get("/api/v1/suggest?q=number&source=other").json["suggestions"] == []
