import io
import json
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit
from rag.settings import Settings
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.library import library
from web.app import create_app

URL = "/api/v1/search"


def post(client: FlaskClient, **fields: Any) -> TestResponse:
    return client.post(URL, json=fields)


def test_post_answers_with_the_rest_body(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = [make_hit(1), make_hit(2)]
    response = post(client, query="partial index", k=2, mode="dense")
    assert response.status_code == 200
    assert response.mimetype == "application/json"
    body = response.get_json()
    assert set(body) == set(Answer.__struct_fields__)
    assert body["query"] == "partial index"
    assert body["generation"] == "g1"
    assert body["took_ms"]["total"] == pytest.approx(3.12)
    assert [hit["rank"] for hit in body["hits"]] == [1, 2]
    assert set(body["hits"][0]) == set(Hit.__struct_fields__)
    assert body["hits"][0]["highlights"] == [[2, 9], [10, 15]]
    assert retriever.calls == [("partial index", 2, "dense")]


def test_get_is_the_same_search(client: FlaskClient, retriever: FakeRetriever) -> None:
    by_get = client.get(URL, query_string={"q": "partial index", "k": "5", "mode": "dense"})
    by_post = post(client, query="partial index", k=5, mode="dense")
    assert by_get.get_json() == by_post.get_json()
    assert retriever.calls == [("partial index", 5, "dense")] * 2


def test_defaults_are_ten_hits_and_hybrid(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert post(client, query="fsync").status_code == 200
    assert client.get(URL + "?q=fsync").status_code == 200
    assert retriever.calls == [("fsync", 10, "hybrid")] * 2
    assert retriever.requests == [SearchRequest("fsync")] * 2


def test_pages_of_hits(tmp_path: Path) -> None:
    seen, offset = [], 0
    with library(tmp_path, pages=7) as retriever:
        client = create_app(retriever, Settings()).test_client()
        while offset is not None:
            page = post(client, query="index", k=3, offset=offset).get_json()
            assert client.get(f"{URL}?q=index&k=3&offset={offset}").get_json() | {"took_ms": page["took_ms"]} == page
            seen += [(hit["rank"], hit["title"]) for hit in page["hits"]]
            offset = page["next"]
    assert [rank for rank, _ in seen] == [1, 2, 3, 4, 5, 6, 7]
    assert {title for _, title in seen} == {f"Number {number}" for number in range(1, 8)}


@pytest.mark.parametrize("k", ["x", "10", True, False, 0, -1, 10**9, 101, 1.5, float("nan"), [], {}])
def test_k_must_be_a_whole_number_in_range(client: FlaskClient, k: object) -> None:
    response = post(client, query="fsync", k=k)
    assert response.status_code == 400
    assert response.get_json()["field"] == "k"
    assert response.get_json()["detail"] == "k must be a whole number from 1 to 100."


@pytest.mark.parametrize("k", ["", "x", "0", "-1", "1000000000", "1.5", "+5", "%2B5", "٣", "9" * 5000])
def test_k_in_a_query_string_is_as_strict(client: FlaskClient, k: str) -> None:
    response = client.get(f"{URL}?q=fsync&k={k}")
    assert response.status_code == 400
    assert response.get_json()["field"] == "k"


@pytest.mark.parametrize(
    "query", [None, 5, True, [], {}, "", "   ", "\n\t", "\x00\x01", "\u200b", "a" * 10_001, "\ud800", "a\udfffb"]
)
def test_unusable_query_is_refused(client: FlaskClient, retriever: FakeRetriever, query: object) -> None:
    response = post(client, query=query)
    assert response.status_code == 400
    assert response.get_json()["field"] == "query"
    assert retriever.calls == []


@pytest.mark.parametrize("query", ["a\x00b", "\x1b[2J red", "a" * 10_000, "日本語", "🔥", "‮override", "</script>"])
def test_odd_but_readable_query_is_answered(client: FlaskClient, retriever: FakeRetriever, query: str) -> None:
    assert post(client, query=query).get_json()["query"] == query
    assert client.get(URL, query_string={"q": query}).get_json()["query"] == query
    assert client.get("/", query_string={"q": query}).status_code == 200


@pytest.mark.parametrize("field", ["filters", "language", "meta.x", "q", "Query", "", "\ud800"])
def test_unknown_field_is_named(client: FlaskClient, field: str) -> None:
    response = post(client, query="fsync", **{field: "x"})
    assert response.status_code == 400
    assert response.get_json()["field"] == field


@pytest.mark.parametrize(
    ("query_string", "field"),
    [
        ("", "q"),
        ("k=3", "q"),
        ("q=", "q"),
        ("q=%20%00", "q"),
        ("q=a&q=b", "q"),
        ("q=a&k=1&k=2", "k"),
        ("q=a&query=b", "query"),
        ("q=a&filter=b", "filter"),
        ("q=a&metadata=b", "metadata"),
        ("q=a&%C3%A9=b", "é"),
    ],
)
def test_bad_query_string_names_the_field(client: FlaskClient, query_string: str, field: str) -> None:
    response = client.get(f"{URL}?{query_string}")
    assert response.status_code == 400
    assert response.get_json()["field"] == field


@pytest.mark.parametrize("raw", ["q=%ff", "q=a%C3", "q=%ED%A0%80", "q=caf\xe9", "q=a&%ff=1"])
@pytest.mark.parametrize("path", [URL, "/"])
def test_query_string_must_be_utf8(client: FlaskClient, path: str, raw: str) -> None:
    # as a server hands it over: bytes of the request line, each as one latin-1 character
    response = client.get(path, environ_overrides={"QUERY_STRING": raw})
    assert response.status_code == 400
    assert response.get_json()["detail"] == "The query string is not valid UTF-8."


def test_raw_utf8_in_a_query_string_is_read(client: FlaskClient, retriever: FakeRetriever) -> None:
    raw = "q=" + "café".encode().decode("latin-1")
    assert client.get(URL, environ_overrides={"QUERY_STRING": raw}).get_json()["query"] == "café"


def test_too_many_parameters(client: FlaskClient) -> None:
    response = client.get(URL + "?" + "&".join(f"p{n}=1" for n in range(1000)))
    assert response.status_code == 400
    assert "parameters" in response.get_json()["detail"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{'query': 'a'}", "not valid JSON"),
        (b'\xef\xbb\xbf{"query": "a"}', "not valid JSON"),
        (b'{"query": "\xff"}', "not valid UTF-8, at byte 11"),
        ('{"query": "a"}'.encode("utf-16"), "not valid UTF-8"),
        (b"[]", "must be a JSON object"),
        (b'"query"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"query": "a", "k": ' + b"9" * 5000 + b"}", "number is too long"),
        (b"[" * 60_000, "not"),
        (b'{"query": "a", "query": "b"}', "'query' is given more than once"),
    ],
)
def test_unreadable_body(client: FlaskClient, body: bytes, expected: str) -> None:
    response = client.post(URL, data=body, content_type="application/json")
    assert response.status_code == 400
    assert expected in response.get_json()["detail"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "json"])
def test_wrong_content_type(client: FlaskClient, content_type: str) -> None:
    response = client.post(URL, data=b'{"query": "a"}', content_type=content_type)
    assert response.status_code == 415
    assert "application/json" in response.get_json()["detail"]


def test_post_with_a_query_string_is_refused(client: FlaskClient) -> None:
    assert client.post(URL + "?k=3", json={"query": "a"}).status_code == 400


def test_body_above_the_limit(client: FlaskClient) -> None:
    body = json.dumps({"query": "a"}).encode()
    full, above = body.ljust(64 * 1024), body.ljust(64 * 1024 + 1)
    assert client.post(URL, data=full, content_type="application/json").status_code == 200
    for declared in (True, False):  # without a length, as when it comes in chunks
        response = client.post(
            URL,
            input_stream=io.BytesIO(above),
            content_length=len(above) if declared else None,
            content_type="application/json",
            environ_overrides={"wsgi.input_terminated": True},
        )
        assert response.status_code == 413
        assert response.mimetype == "application/problem+json"


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(("k", "mode", "collection", "filter", "rerank", "per_document", "offset", "explain")),
        {"filter": {"language": None, "date": None, "metadata": None}},
        {"filter": {"date": {"from": None, "to": None}, "metadata": {"team": None}}},
    ],
)
def test_null_is_a_field_left_out(client: FlaskClient, retriever: FakeRetriever, fields: dict[str, Any]) -> None:
    assert post(client, query="fsync", **fields).status_code == 200
    assert post(client, query="fsync").status_code == 200
    first, second = retriever.requests
    assert first == second


def test_null_of_an_unknown_name_is_refused(client: FlaskClient) -> None:
    assert post(client, query="fsync", flavour=None).get_json()["field"] == "flavour"
    assert post(client, query="fsync", filter={"flavour": None}).get_json()["field"] == "filter.flavour"
