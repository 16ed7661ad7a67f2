"""Several searches in one request: together through the model, each with its own outcome."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from rag.query.request import SearchRequest
from rag.query.results import Answer
from tests.web.fakes import FakeRetriever, make_hit

URL = "/api/v1/search/batch"


def test_answers_come_in_order(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.hits = lambda query: [make_hit(title=query)]
    queries = [{"query": "one", "k": 1}, {"query": "two", "mode": "lexical"}, {"query": "three", "mode": "dense"}]
    body = client.post(URL, json={"queries": queries}).get_json()
    assert [answer["query"] for answer in body["answers"]] == ["one", "two", "three"]
    assert [answer["hits"][0]["title"] for answer in body["answers"]] == ["one", "two", "three"]
    assert set(body["took_ms"]) == {"embed", "total"}


def test_the_model_is_asked_once(
    client: FlaskClient, retriever: FakeRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    given: list[bool] = []
    embed, search = retriever.embed_queries, retriever.search

    def embedding(texts: list[str]) -> Any:
        asked.append(texts)
        return embed(texts)

    def searching(request: SearchRequest, embedded: Any = None) -> Answer:
        given.append(embedded is not None)
        return search(request, embedded)

    monkeypatch.setattr(retriever, "embed_queries", embedding)
    monkeypatch.setattr(retriever, "search", searching)
    queries = [{"query": "one"}, {"query": "two", "mode": "lexical"}, {"query": ""}, {"query": "three"}]
    assert client.post(URL, json={"queries": queries}).status_code == 200
    assert asked == [["one", "three"]]
    assert given == [True, False, True]


def test_each_query_has_its_own_problem(client: FlaskClient, retriever: FakeRetriever) -> None:
    queries: list[object] = [
        {"query": "good"},
        {"query": "good", "k": 0},
        {"query": "good", "filter": {"language": "?"}},
        {"query": "good", "collection": "nowhere"},
        "good",
        {"query": "good"},
    ]
    response = client.post(URL, json={"queries": queries})
    assert response.status_code == 200
    answers = response.get_json()["answers"]
    assert [answer.get("status", 200) for answer in answers] == [200, 400, 400, 404, 400, 200]
    assert [answer.get("field") for answer in answers[1:5]] == ["k", "filter.language", "collection", "queries"]


@pytest.mark.parametrize(
    "queries", [None, {}, [], [{"query": "a"}] * 33, "a"], ids=["none", "object", "empty", "many", "text"]
)
def test_queries_must_be_a_short_list(client: FlaskClient, queries: object) -> None:
    response = client.post(URL, json={"queries": queries})
    assert (response.status_code, response.get_json()["field"]) == (400, "queries")


def test_a_batch_may_be_larger_than_a_search(client: FlaskClient) -> None:
    queries = [{"query": "a" * 9000}] * 32
    assert client.post(URL, json={"queries": queries}).status_code == 200
    too_large = b" " * (2 * 1024 * 1024 + 1)
    assert client.post(URL, data=too_large, content_type="application/json").status_code == 413
