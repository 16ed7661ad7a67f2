import re
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from flask.testing import FlaskClient
from msgspec import structs

from rag.query.request import Filter, SearchRequest, parameters_of
from tests.web.fakes import FakeRetriever, make_hit
from web.api.requests import filter_of_parameters

URL = "/api/v1/search"
FIELDS: dict[str, Any] = {
    "source": ["/srv/docs"],
    "url_prefix": ["https://d.test/a?b=c&d"],
    "path": ["/x", "/y z"],
    "language": ["de", "en"],
    "content_type": ["text/html"],
    "date": {"from": "2026-01-01", "to": "2026-12-31"},
    "metadata": {"team.x": ["core", "wéb"]},
}
PARAMETERS = [
    ("source", "/srv/docs"),
    ("url_prefix", "https://d.test/a?b=c&d"),
    ("path", "/x"),
    ("path", "/y z"),
    ("language", "de"),
    ("language", "en"),
    ("content_type", "text/html"),
    ("from", "2026-01-01"),
    ("to", "2026-12-31"),
    ("meta.team.x", "core"),
    ("meta.team.x", "wéb"),
]


def hrefs(html: str) -> list[dict[str, list[str]]]:
    """Parameters of the links that take one thing away from the search."""
    found = []
    for href in re.findall(r'<a href="([^"]+)" aria-label="Remove', html):
        parameters: dict[str, list[str]] = {}
        for name, value in parse_qsl(urlsplit(unescape(href)).query):
            parameters.setdefault(name, []).append(value)
        found.append(parameters)
    return found


# API


def test_every_filter_by_post_and_get(client: FlaskClient, retriever: FakeRetriever) -> None:
    options: dict[str, Any] = {"collection": "notes", "per_document": 0, "diversity": 0.5, "expand": "section"}
    assert client.post(URL, json={"query": "a", "filter": FIELDS, **options}).status_code == 200
    assert client.get(URL, query_string=[("q", "a"), *options.items(), *PARAMETERS]).status_code == 200
    assert client.get("/", query_string=[("q", "a"), ("collection", "notes"), *PARAMETERS]).status_code == 200
    by_post, by_get, by_page = retriever.requests
    assert by_post == SearchRequest("a", filter=Filter.parse(FIELDS), **options)
    assert by_get == by_post
    assert by_page == structs.replace(by_post, per_document=None, diversity=0, expand="none", facets=True)


def test_parameters_are_read_back() -> None:
    wanted = Filter.parse(FIELDS)
    assert parameters_of(wanted) == PARAMETERS
    assert parameters_of(None) == []
    grouped: dict[str, list[str]] = {}
    for name, value in PARAMETERS:
        grouped.setdefault(name, []).append(value)
    assert filter_of_parameters(grouped) == wanted
    assert filter_of_parameters({}) is None


def test_an_empty_filter_is_none(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert client.post(URL, json={"query": "a", "filter": {}}).status_code == 200
    assert retriever.requests[0].filter is None


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ("en", "filter"),
        ({"lang": "en"}, "filter.lang"),
        ({"language": 5}, "filter.language"),
        ({"language": "no language"}, "filter.language"),
        ({"date": {"from": "now"}}, "filter.date.from"),
        ({"metadata": {"team": []}}, "filter.metadata.team"),
    ],
)
def test_bad_filter_is_named(client: FlaskClient, retriever: FakeRetriever, wanted: object, field: str) -> None:
    response = client.post(URL, json={"query": "a", "filter": wanted})
    assert response.status_code == 400
    assert response.get_json()["field"] == field
    assert response.get_json()["detail"].startswith(field)
    assert retriever.calls == []


@pytest.mark.parametrize(
    ("query_string", "field"),
    [
        ("language=", "language"),
        ("language=no+language", "language"),
        ("from=now", "from"),
        ("to=2026-02-30", "to"),
        ("from=2026-01-02&to=2026-01-01", "from"),
        ("from=2026-01-01&from=2026-01-01", "from"),
        ("url_prefix=d.test", "url_prefix"),
        ("meta.=x", "meta."),
        ("meta.team=", "meta.team"),
        ("meta.metadata.x=", "meta.metadata.x"),
        ("&".join(f"path={n}" for n in range(33)), "path"),
    ],
)
def test_bad_parameter_is_named(client: FlaskClient, query_string: str, field: str) -> None:
    response = client.get(f"{URL}?q=a&{query_string}")
    assert response.status_code == 400
    assert response.get_json()["field"] == field
    assert "filter." not in response.get_json()["detail"]


@pytest.mark.parametrize("value", [-1, 101, 1.5, True, "3", [], {}])
def test_per_document_must_be_a_whole_number(client: FlaskClient, value: object) -> None:
    response = client.post(URL, json={"query": "a", "per_document": value})
    assert (response.status_code, response.get_json()["field"]) == (400, "per_document")
    assert response.get_json()["detail"] == "per_document must be a whole number from 0 to 100."


@pytest.mark.parametrize("value", ["-0.1", "1.1", "true", '"0.5"', "[]", "NaN", "Infinity", "1e400"])
def test_diversity_must_be_a_share(client: FlaskClient, value: str) -> None:
    body = '{"query": "a", "diversity": ' + value + "}"
    response = client.post(URL, data=body, content_type="application/json")
    assert (response.status_code, response.get_json()["field"]) == (400, "diversity")


@pytest.mark.parametrize("value", ["", "x", "nan", "inf", "-1", "2", "1e1", "0,5", ".5"])
def test_diversity_in_a_query_string_is_as_strict(client: FlaskClient, value: str) -> None:
    response = client.get(URL, query_string={"q": "a", "diversity": value})
    assert (response.status_code, response.get_json()["field"]) == (400, "diversity")


@pytest.mark.parametrize("value", ["0", "1", "0.25", "1e-1"])
def test_diversity_may_be_given(client: FlaskClient, retriever: FakeRetriever, value: str) -> None:
    assert client.get(URL, query_string={"q": "a", "diversity": value}).status_code == 200
    assert retriever.requests[0].diversity == float(value)


def test_unknown_collection(client: FlaskClient) -> None:
    for response in (
        client.post(URL, json={"query": "a", "collection": "x\n" * 99}),
        client.get(URL, query_string={"q": "a", "collection": "x\n" * 99}),
    ):
        assert (response.status_code, response.get_json()["field"]) == (404, "collection")
        assert "there are: default, notes" in response.get_json()["detail"]
        assert "\n" not in response.get_json()["detail"]


@pytest.mark.parametrize("value", ["", 1, ["default"]])
def test_collection_must_be_a_name(client: FlaskClient, value: object) -> None:
    response = client.post(URL, json={"query": "a", "collection": value})
    assert (response.status_code, response.get_json()["field"]) == (400, "collection")


# Page


def test_page_shows_what_it_is_narrowed_to_and_a_way_out_of_each(client: FlaskClient) -> None:
    html = client.get("/?q=index&mode=dense&language=en&language=de&from=2026-01-01&meta.team=core&utm_source=x").text
    everything = {
        "q": ["index"],
        "mode": ["dense"],
        "language": ["de", "en"],
        "from": ["2026-01-01"],
        "meta.team": ["core"],
    }
    hidden = [(name, value) for name, value in re.findall(r'type="hidden" name="([^"]+)" value="([^"]+)"', html)]
    assert hidden == [("language", "de"), ("language", "en"), ("from", "2026-01-01"), ("meta.team", "core")]
    without = [
        {**everything, "language": ["en"]},
        {**everything, "language": ["de"]},
        {name: values for name, values in everything.items() if name != "from"},
        {name: values for name, values in everything.items() if name != "meta.team"},
    ]
    assert hrefs(html) == without
    assert "team core" in html
    assert 'value="dense" checked' in html


def test_page_keeps_the_filter_before_there_is_a_question(client: FlaskClient, retriever: FakeRetriever) -> None:
    html = client.get("/?path=/guide&collection=notes&q=").text
    assert 'data-state="empty"' in html
    assert hrefs(html) == [{"collection": ["notes"]}]  # without the path; the collection is chosen elsewhere
    assert '<option value="notes" selected>' in html
    assert retriever.calls == []


def test_page_leaves_empty_fields_out(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert client.get("/?q=index&language=&from=&mode=&collection=").status_code == 200
    assert retriever.calls == [("index", 10, "hybrid")]
    assert retriever.requests[0].filter is None


@pytest.mark.parametrize(
    ("query_string", "status", "message"),
    [
        ("language=no+language", 400, "Language must be a language tag"),
        ("mode=both", 400, "Mode must be one of"),
        ("collection=gone", 404, "There is no collection"),
    ],
)
def test_page_says_what_is_wrong(client: FlaskClient, query_string: str, status: int, message: str) -> None:
    for query in ("", "q=index&") if status == 400 else ("q=index&",):
        response = client.get(f"/?{query}{query_string}", headers={"Accept": "text/html"})
        assert (response.status_code, response.mimetype) == (status, "text/html")
        assert message in response.text


def test_page_that_waits_keeps_the_filter(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.ready = False
    html = client.get("/?q=index&language=en", headers={"Accept": "text/html"}).text
    assert 'type="hidden" name="language" value="en"' in html


def test_narrowing_is_escaped(client: FlaskClient) -> None:
    evil = '"><script>alert(1)</script>'
    html = client.get("/", query_string={"q": "a", "source": evil, f"meta.{evil}": evil}).text
    assert len(re.findall("<script", html)) == 3
    assert "alert(1)</script>" not in html
    assert len(hrefs(html)) == 2


def test_language_date_and_duplicates_of_a_hit(client: FlaskClient, retriever: FakeRetriever) -> None:
    others = [f"https://docs.example/v{n}/partial.html" for n in range(5)]
    retriever.hits = [
        make_hit(
            language="de",
            date="2026-03-04",
            duplicates=["javascript:alert(1)", *others],
        )
    ]
    html = client.get("/?q=index").text
    assert '<h3 lang="de">' in html
    assert '<div class="text" lang="de">' in html
    assert '<time datetime="2026-03-04">2026-03-04</time>' in html
    [also] = re.findall(r'<p class="also">(.*)</p>', html)
    assert re.findall('href="([^"]+)"', also) == others[:2]
    assert also.endswith("and 3 more")


@pytest.mark.parametrize("value", ["all", "", "Section"])
def test_expand_must_be_a_known_one(client: FlaskClient, value: str) -> None:
    for response in (
        client.get(URL, query_string={"q": "a", "expand": value}),
        client.post(URL, json={"query": "a", "expand": value}),
    ):
        assert (response.status_code, response.get_json()["field"]) == (400, "expand")
