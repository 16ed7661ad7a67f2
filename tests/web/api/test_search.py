"""Searches over REST: every field and filter, by POST, by GET, in a batch and as an address, and what is refused."""

import io
import json

import pytest
from msgspec import structs

from rag.query.request import Filter, SearchRequest, parameters_of
from rag.query.results import Answer, Hit, Suggestion
from tests.linear import check_linear, repeated
from tests.web.fakes import make_hit
from web.api.requests import filter_of_parameters

URL = "/api/v1/search"
BATCH = f"{URL}/batch"
SUGGEST = "/api/v1/suggest"
FIELDS = {
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


def post(client, **fields):
    return client.post(URL, json=fields)


def refused(response, field, status=400):
    assert (response.status_code, response.get_json().get("field")) == (status, field)
    return response.get_json()["detail"]


def test_post_and_get_answer_with_the_rest_body(client, retriever):
    retriever.hits = [make_hit(1), make_hit(2)]
    response = post(client, query="partial index", k=2, mode="dense")
    assert (response.status_code, response.mimetype) == (200, "application/json")
    body = response.get_json()
    assert set(body) == set(Answer.__struct_fields__)
    assert (body["query"], body["generation"]) == ("partial index", "g1")
    assert body["took_ms"]["total"] == pytest.approx(3.12)
    assert [hit["rank"] for hit in body["hits"]] == [1, 2]
    assert set(body["hits"][0]) == set(Hit.__struct_fields__)
    assert body["hits"][0]["highlights"] == [[2, 9], [10, 15]]
    assert client.get(URL, query_string={"q": "partial index", "k": "2", "mode": "dense"}).get_json() == body
    assert retriever.calls == [("partial index", 2, "dense")] * 2
    assert post(client, query="fsync").status_code == client.get(URL + "?q=fsync").status_code == 200
    assert retriever.requests[2:] == [SearchRequest("fsync")] * 2  # ten hits, hybrid


def test_every_option_and_filter_by_post_and_get(client, retriever):
    options = {"collection": "notes", "per_document": 0, "expand": "section"}
    assert post(client, query="a", filter=FIELDS, **options).status_code == 200
    assert client.get(URL, query_string=[("q", "a"), *options.items(), *PARAMETERS]).status_code == 200
    assert client.get("/", query_string=[("q", "a"), ("collection", "notes"), *PARAMETERS]).status_code == 200
    by_post, by_get, by_page = retriever.requests
    assert by_post == by_get == SearchRequest("a", filter=Filter.parse(FIELDS), **options)
    assert by_page == structs.replace(by_post, per_document=None, expand="none", facets=True, links=True)
    grouped = {name: [value for other, value in PARAMETERS if other == name] for name, _ in PARAMETERS}
    assert parameters_of(filter_of_parameters(grouped)) == PARAMETERS
    assert filter_of_parameters({}) is None


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("query", (None, 5, [], {}, "", " \n\t", "\x00\x01", "\u200b", "a" * 10_001)),
        ("k", ("x", "10", True, 0, -1, 10**9, 101, 1.5, [], {})),
        ("per_document", (-1, 101, 1.5, True, "3", [])),
        ("collection", ("", 1, ["default"])),
        ("expand", ("all", "", "Section")),
        ("filter", ("en",)),
        ("filter.lang", ({"lang": "en"},)),
        ("filter.language", ({"language": 5}, {"language": "no language"})),
        ("filter.date.from", ({"date": {"from": "now"}},)),
        ("filter.metadata.team", ({"metadata": {"team": []}},)),
        ("filter.flavour", ({"flavour": None},)),
        *((name, ("x",)) for name in ("filters", "language", "meta.x", "q", "Query", "")),
        ("flavour", (None,)),
    ],
)
def test_a_bad_field_of_a_body_is_named(client, retriever, field, values):
    for value in values:
        name = "filter" if field.startswith("filter.") else field
        detail = refused(post(client, **{"query": "fsync", name: value}), field)
        assert field != "k" or detail == "k must be a whole number from 1 to 100."
    assert retriever.calls == []


@pytest.mark.parametrize(
    ("field", "queries"),
    [
        ("q", ("", "k=3", "q=", "q=%20%00", "q=a&q=b")),
        ("k", ("q=a&k=1&k=2", *(f"q=a&k={k}" for k in ("", "x", "0", "-1", "1.5", "+5", "%2B5", "٣", "9" * 5000)))),
        ("expand", ("q=a&expand=all", "q=a&expand=null")),
        ("query", ("q=a&query=b",)),
        ("filter", ("q=a&filter=b",)),
        ("é", ("q=a&%C3%A9=b",)),
        ("language", ("q=a&language=", "q=a&language=no+language")),
        ("from", ("q=a&from=now", "q=a&from=2026-01-02&to=2026-01-01", "q=a&from=2026-01-01&from=2026-01-01")),
        ("to", ("q=a&to=2026-02-30",)),
        ("url_prefix", ("q=a&url_prefix=d.test",)),
        ("meta.", ("q=a&meta.=x",)),
        ("meta.team", ("q=a&meta.team=",)),
        ("path", ("q=a&" + "&".join(f"path={n}" for n in range(33)),)),
    ],
)
def test_a_bad_parameter_is_named(client, field, queries):
    for query in queries:
        assert "filter." not in refused(client.get(f"{URL}?{query}"), field)


def test_unknown_collection(client):
    for response in (
        post(client, query="a", collection="x\n" * 99),
        client.get(URL, query_string={"q": "a", "collection": "x\n" * 99}),
    ):
        detail = refused(response, "collection", 404)
        assert "there are: default, notes" in detail
        assert "\n" not in detail


@pytest.mark.parametrize("raw", ["q=%ff", "q=a%C3", "q=%ED%A0%80", "q=caf\xe9", "q=a&%ff=1"])
@pytest.mark.parametrize("path", [URL, "/"])
def test_a_query_string_is_utf8_and_not_too_long(client, path, raw):
    # as a server hands it over: bytes of the request line, each as one latin-1 character
    response = client.get(path, environ_overrides={"QUERY_STRING": raw})
    assert refused(response, None) == "The query string is not valid UTF-8."
    raw = "q=" + "café".encode().decode("latin-1")
    assert "café" in client.get(path, environ_overrides={"QUERY_STRING": raw}).text
    assert "parameters" in refused(client.get(path + "?" + "&".join(f"p{n}=1" for n in range(1000))), None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "not valid JSON"),
        (b"{'query': 'a'}", "not valid JSON"),
        (b'\xef\xbb\xbf{"query": "a"}', "not valid JSON"),
        (b'{"query": "\xff"}', "not valid JSON"),
        (b'{"query": "\\ud800"}', "not valid JSON"),  # half of a surrogate pair
        ('{"query": "a"}'.encode("utf-16"), "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"query": "a", "k": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"query": "a", "k": NaN}', "not valid JSON"),
        (b"[" * 60_000, "not"),
    ],
)
def test_unreadable_body(client, body, expected):
    response = client.post(URL, data=body, content_type="application/json")
    assert response.status_code == 400
    assert expected in response.get_json()["detail"]


@pytest.mark.parametrize("unit", ["[", '{"a":', '"a":0,', "1", "1.", "1e9,", " ", '"\\ud83d', "\\n", "é", ", "])
@pytest.mark.parametrize("head", ["", '{"input": "', '{"input": [', '{"input": 0.'])
def test_whatever_a_body_repeats_is_read_in_linear_time(client, head, unit):
    def send(text: str) -> None:
        assert client.post("/v1/embeddings", data=text, content_type="application/json").status_code == 400

    check_linear(send, repeated(unit, head), 1_000_000)


def test_a_body_is_json_of_its_own_and_not_too_large(client):
    body = json.dumps({"query": "a"}).encode()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "", "json"):
        response = client.post(URL, data=body, content_type=content_type)
        assert response.status_code == 415
        assert "application/json" in response.get_json()["detail"]
    assert client.post(URL + "?k=3", json={"query": "a"}).status_code == 400
    full, above = body.ljust(64 * 1024), body.ljust(3_000_000)
    assert client.post(URL, data=full, content_type="application/json").status_code == 200
    for declared in (True, False):  # without a length, as when it comes in chunks
        stream = io.BytesIO(above)
        response = client.post(
            URL,
            input_stream=stream,
            content_length=len(above) if declared else None,
            content_type="application/json",
            environ_overrides={"wsgi.input_terminated": True},
        )
        assert (response.status_code, response.mimetype) == (413, "application/problem+json")
        assert stream.tell() <= len(full) + 1


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(("k", "mode", "collection", "filter", "rerank", "per_document", "offset", "explain")),
        {"filter": {}},
        {"filter": {"language": None, "date": None, "metadata": None}},
        {"filter": {"date": {"from": None, "to": None}, "metadata": {"team": None}}},
    ],
)
def test_null_is_a_field_left_out(client, retriever, fields):
    assert post(client, query="fsync", **fields).status_code == 200
    assert retriever.requests == [SearchRequest("fsync")]


# batches


def test_a_batch_is_answered_in_order_by_one_run_of_the_model(client, retriever, monkeypatch):
    retriever.hits = lambda query: [make_hit(title=query)]
    asked, given = [], []
    embed, search = retriever.embed_queries, retriever.search
    monkeypatch.setattr(retriever, "embed_queries", lambda texts: asked.append(texts) or embed(texts))
    monkeypatch.setattr(
        retriever, "search", lambda one, embedded=None: given.append(embedded is not None) or search(one, embedded)
    )
    queries = [
        {"query": "one", "k": 1},
        {"query": "two", "mode": "lexical"},
        {"query": ""},
        {"query": "good", "k": 0},
        {"query": "good", "filter": {"language": "?"}},
        {"query": "good", "collection": "nowhere"},
        "good",
        {"query": "three", "mode": "dense"},
    ]
    body = client.post(BATCH, json={"queries": queries}).get_json()
    answers = body["answers"]
    assert [answer.get("status", 200) for answer in answers] == [200, 200, 400, 400, 400, 404, 400, 200]
    assert [answer.get("field") for answer in answers[2:7]] == [
        "query",
        "k",
        "filter.language",
        "collection",
        "queries",
    ]
    assert [answers[place]["hits"][0]["title"] for place in (0, 1, 7)] == ["one", "two", "three"]
    assert set(body["took_ms"]) == {"embed", "total"}
    assert asked == [["one", "good", "three"]]
    assert given == [True, False, True, True]


def test_a_batch_is_a_short_list_but_may_be_larger_than_a_search(client):
    for queries in (None, {}, [], [{"query": "a"}] * 33, "a"):
        refused(client.post(BATCH, json={"queries": queries}), "queries")
    assert client.post(BATCH, json={"queries": [{"query": "a" * 9000}] * 32}).status_code == 200
    too_large = b" " * (2 * 1024 * 1024 + 1)
    assert client.post(BATCH, data=too_large, content_type="application/json").status_code == 413


# Suggestions


def test_fields_of_suggestions_reach_the_retriever(client, retriever):
    retriever.suggestions = [Suggestion("Partial Indexes", "title"), Suggestion("How is it partial?", "question")]
    answer = client.get(SUGGEST + "?q=partial&k=3&collection=notes&language=en&language=de&meta.team=core").get_json()
    assert answer == {
        "suggestions": [
            {"text": "Partial Indexes", "kind": "title"},
            {"text": "How is it partial?", "kind": "question"},
        ]
    }
    only = Filter.parse({"language": ["de", "en"], "metadata": {"team": "core"}})
    assert retriever.typed == [("partial", "notes", only, 3)]
