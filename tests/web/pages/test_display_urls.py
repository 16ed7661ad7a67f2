"""Files are named as readers see them, never by where they lie on the server."""

import pytest
from flask import Flask

from web.pages.display_urls import Places, distinct
from web.pages.refinements import PageSearch

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


@pytest.mark.parametrize(
    ("path", "name"),
    [("/srv/data/docs/sub", "docs/sub"), ("/srv", "srv"), ("/guide/install", "/guide/install"), ("/home/me", "me")],
)
def test_a_folder_of_a_site_keeps_its_path(path, name):
    assert PLACES.of_folder(path) == name


def test_reasons_and_names_that_are_the_same():
    assert PLACES.within("/srv/data/docs/x.md: cannot be read") == "docs/x.md: cannot be read"
    assert distinct(["docs", "docs", "x"], ["/a/docs", "/b/docs/", "/c/x"]) == ["a/docs", "b/docs", "x"]


def test_folders_that_are_the_sources_again_are_not_offered():
    def counts(**values):
        return [{"value": value.replace("__", "/"), "count": count} for value, count in values.items()]

    sources = counts(__srv__docs=3, __srv__notes=2)
    app = Flask(__name__)
    app.add_url_rule("/", "page.index")
    with app.test_request_context():

        def headings(folders):
            search = PageSearch("index", "hybrid", (), "")
            return [facet.heading for facet in search.facets({"source": sources, "path": folders}, PLACES)]

        assert headings(sources) == ["Source"]
        assert headings(counts(__srv__docs=2, __srv__notes=2)) == ["Source", "Folder"]
        assert headings(counts(__srv__docs__a=3, __srv__docs__b=1, __srv__notes=1)) == ["Source", "Folder"]
