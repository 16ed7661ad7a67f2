"""Searches over REST: every field and filter, by POST, by GET, in a batch and as an address; refusals; and feedback."""

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from msgspec import structs

from rag.access import KeyFile
from rag.insights.store import DATABASE, Recorder
from rag.query.request import Filter, SearchRequest, parameters_of
from rag.query.results import Answer, Hit, Suggestion
from rag.settings import Settings
from tests.linear import check_linear, repeated
from tests.web.fakes import FakeRetriever, make_hit
from tests.web.test_problems import assert_problem
from web.api.requests import filter_of_parameters
from web.app import create_app

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
    filter = Filter.parse({"language": ["de", "en"], "metadata": {"team": "core"}})
    assert retriever.typed == [("partial", "notes", filter, 3)]


SEARCH, FEEDBACK = "/api/v1/search", "/api/v1/feedback"
SITE = "https://docs.example"


class Kept:
    """An application that keeps what is asked, and its store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder / "insights"
        self.retriever = FakeRetriever()
        self.retriever.hits = [make_hit(rank) for rank in (1, 2, 3)]
        self.settings = Settings(insights=90, index=str(folder), **settings)
        self.recorder = Recorder(self.settings.insights_folder, self.settings.insights)
        self.app = create_app(self.retriever, self.settings, recorder=self.recorder)
        self.client = self.app.test_client()
        self.recorder.start()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query, once all that was told is written."""
        self.recorder.close()
        with closing(sqlite3.connect(self.folder / DATABASE)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def kept(tmp_path):
    found = Kept(tmp_path)
    yield found
    found.recorder.close()


def searched(client: FlaskClient, query: str = "index", **more: Any) -> str:
    answer = client.post(SEARCH, json={"query": query}, **more).get_json()
    return str(answer["search_id"])


def told(client: FlaskClient, **fields: Any) -> int:
    return client.post(FEEDBACK, json=fields).status_code


def test_searches_of_every_way_are_kept(kept):
    kept.client.get(f"{SEARCH}?q=get&mode=dense")
    kept.client.post(SEARCH, json={"query": "post", "collection": "notes"})
    batch = kept.client.post(f"{SEARCH}/batch", json={"queries": [{"query": "one"}, {"query": "two"}]}).get_json()
    assert len({each["search_id"] for each in batch["answers"]}) == 2
    for address in ("/?q=a&open=chunk-1", "/?q=a&offset=10", f"{SEARCH}?q=a&offset=10"):
        assert kept.client.get(address).status_code == 200  # repeats or goes on: no search of its own
    page = kept.client.get("/?q=va", headers={"X-Pilotlight-Typing": "1"}).text  # counts once it was seen
    assert told(kept.client, search_id=page.partition('data-search="')[2][:32], feedback="seen") == 204
    kept.client.get("/?q=v", headers={"X-Pilotlight-Typing": "1"})
    kept.retriever.hits = []
    kept.client.get("/?q=page")
    found = kept.rows("SELECT query, via, collection, hits, seen FROM searches ORDER BY query")
    assert found == [
        ("get", "api", "default", 3, 1),
        ("one", "batch", "default", 3, 1),
        ("page", "page", "default", 0, 1),
        ("post", "api", "notes", 3, 1),
        ("two", "batch", "default", 3, 1),
        ("v", "page", "default", 3, 0),
        ("va", "page", "default", 3, 1),
    ]


def test_nothing_of_who_asked_is_kept(tmp_path):
    key = KeyFile(tmp_path / "keys.json").add("alice", "read")
    kept = Kept(tmp_path, keys=str(tmp_path / "keys.json"))
    id = searched(kept.client, "vacuum", headers={"Authorization": f"Bearer {key}"})
    assert kept.rows("SELECT id, query FROM searches") == [(id, "vacuum")]
    content = b"".join(path.read_bytes() for path in kept.folder.iterdir())
    assert b"chunk-1" in content
    assert not any(name in content for name in (b"alice", key.encode(), b"127.0.0.1"))


def test_nothing_is_kept_unless_it_is_set(tmp_path, client):
    assert client.post(SEARCH, json={"query": "index"}).get_json()["search_id"] is None
    page = client.get("/?q=index").text
    assert "data-search=" not in page
    assert "feedback.js" not in page
    fields = {"search_id": "0" * 32, "feedback": "seen"}
    assert_problem(client.post(FEEDBACK, json=fields), 501)
    assert list(tmp_path.iterdir()) == []


def test_feedback(kept):
    id, other = searched(kept.client), searched(kept.client, "other")
    assert told(kept.client, search_id=id, feedback="opened", hit="chunk-2") == 204
    assert told(kept.client, search_id=id, feedback="good", hit="chunk-2") == 204
    assert told(kept.client, search_id=other, feedback="bad", hit="chunk-1") == 204
    # answered in the same way, and ignored
    assert told(kept.client, search_id="0" * 32, feedback="bad", hit="chunk-1") == 204
    assert told(kept.client, search_id=id, feedback="bad", hit="of-another-search") == 204
    found = kept.rows(
        "SELECT query, passage, opened, verdict FROM hits JOIN searches ON id = search "
        "WHERE opened OR verdict ORDER BY query"
    )
    assert found == [("index", "chunk-2", 1, 1), ("other", "chunk-1", 0, -1)]


def test_a_box_of_another_site_tells_what_was_seen_and_opened(tmp_path):
    key = KeyFile(tmp_path / "keys.json").add("box", "read", origins=(SITE,))
    KeyFile(tmp_path / "keys.json").add("other", "read")
    kept = Kept(tmp_path, keys=str(tmp_path / "keys.json"))
    headers = {"Authorization": f"Bearer {key}", "Origin": SITE}
    first, _ = (searched(kept.client, query, headers=headers) for query in ("vacuum", "v"))
    body = {"search_id": first, "feedback": "opened", "hit": "chunk-1"}
    reply = kept.client.post(FEEDBACK, json=body, headers=headers)
    assert reply.status_code == 204
    assert reply.headers["Access-Control-Allow-Origin"] == SITE
    assert (
        kept.client.post(FEEDBACK, json=body, headers={**headers, "Origin": "https://evil.example"}).status_code == 403
    )
    assert kept.client.post(FEEDBACK, json=body).status_code == 401
    assert kept.rows("SELECT query, via, seen FROM searches ORDER BY query") == [("v", "box", 0), ("vacuum", "box", 1)]


def test_what_cannot_be_written_waits_within_a_bound_of_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("rag.insights.store.MAX_WAITING_BYTES", 10_000)
    (tmp_path / "insights").write_text("in the way of the folder", encoding="utf-8")
    kept = Kept(tmp_path)
    ids = [kept.client.post(SEARCH, json={"query": "index"}).get_json()["search_id"] for _ in range(9)]
    waiting = sum(id is not None for id in ids)
    assert 1 <= waiting <= 5
    assert ids[waiting:] == [None] * (9 - waiting)
    for _ in range(20):
        assert told(kept.client, search_id=ids[0], feedback="seen") == 204
    assert len(kept.recorder._feedback) <= 10
    kept.recorder.close()
    dropped = 9 + 20 - len(kept.recorder._feedback)
    metrics = kept.client.get("/metrics").text
    assert f'pilotlight_insights_searches_total{{outcome="dropped"}} {dropped}.0' in metrics
