"""Reranking as clients of Cohere, Jina and Text Embeddings Inference ask for it."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from rag.errors import DeadlinePassed
from rag.settings import Settings
from tests.web.fakes import FakeRetriever
from web.app import create_app

MODEL = "dummy-cross"
DOCUMENTS = ["an index", "vacuum the table", "vacuum"]
ASKED = {"query": "vacuum", "documents": DOCUMENTS}


@pytest.fixture(autouse=True)
def model(retriever: FakeRetriever) -> None:
    retriever.rerank_model = MODEL


@pytest.mark.parametrize("url", ["/v1/rerank", "/v2/rerank"])
def test_documents_are_sorted_by_their_scores(client: FlaskClient, url: str) -> None:
    body = client.post(url, json=ASKED).get_json()
    assert [result["index"] for result in body["results"]] == [2, 1, 0]
    scores = [result["relevance_score"] for result in body["results"]]
    assert 1 > scores[0] > scores[1] > scores[2] > 0
    assert (body["model"], body["usage"]) == (MODEL, {"prompt_tokens": 3 + 4 + 2, "total_tokens": 3 + 4 + 2})
    assert all(set(result) == {"index", "relevance_score"} for result in body["results"])


def test_the_form_of_cohere_and_jina(client: FlaskClient) -> None:
    texts = [{"text": text, "title": "left alone"} for text in DOCUMENTS]
    options = {"model": MODEL, "top_n": 2, "return_documents": True, "max_chunks_per_doc": 10}
    body = client.post("/v1/rerank", json={"query": "vacuum", "documents": texts, **options}).get_json()
    assert [result["document"] for result in body["results"]] == [{"text": "vacuum"}, {"text": "vacuum the table"}]
    again = client.post("/v1/rerank", json=ASKED | {"top_n": 50, "model": None}).get_json()
    assert len(again["results"]) == 3


def test_fields_of_documents_are_read_in_the_order_asked_for(
    client: FlaskClient, retriever: FakeRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[list[str]] = []
    rerank = retriever.rerank
    monkeypatch.setattr(retriever, "rerank", lambda query, texts: read.append(texts) or rerank(query, texts))
    documents = [{"text": "b", "title": "a", "author": None, "year": 2026}, "c", {"text": "d"}]
    asked = {"query": "a", "documents": documents, "rank_fields": ["title", "author", "year"], "return_documents": True}
    assert client.post("/v1/rerank", json=asked).status_code == 200
    assert read == [["a\n2026", "c", "d"]]


def test_options_of_cohere_and_jina_that_change_nothing(client: FlaskClient) -> None:
    options = {"priority": 5, "truncation": True, "max_tokens_per_doc": 100, "top_n": None, "return_documents": None}
    theirs = client.post("/v1/rerank", json=ASKED | options).get_json()["results"]
    assert theirs == client.post("/v1/rerank", json=ASKED).get_json()["results"]


def test_the_form_of_text_embeddings_inference(client: FlaskClient) -> None:
    asked = {"query": "vacuum", "texts": DOCUMENTS, "truncate": True, "truncation_direction": "right"}
    body = client.post("/rerank", json=asked).get_json()
    assert [(found["index"], set(found)) for found in body] == [(place, {"index", "score"}) for place in (2, 1, 0)]
    theirs = client.post("/v1/rerank", json=ASKED).get_json()["results"]
    assert [found["score"] for found in body] == [found["relevance_score"] for found in theirs]
    raw = client.post("/rerank", json=asked | {"raw_scores": True, "return_text": True}).get_json()
    assert [found["text"] for found in raw] == ["vacuum", "vacuum the table", "an index"]
    assert [found["score"] for found in raw] == pytest.approx([0.98, 0.96, -0.03])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"query": ""}, "query"),
        ({"query": 5}, "query"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": ["a"] * 1001}, "documents"),
        ({"documents": ["a", ""]}, "documents.1"),
        ({"documents": ["a", {"title": "b"}]}, "documents.1.text"),
        ({"documents": [["a"]]}, "documents.0"),
        ({"documents": ["\ud800"]}, "documents.0"),
        ({"top_n": 0}, "top_n"),
        ({"return_documents": "yes"}, "return_documents"),
        ({"documents": [{"author": "b"}], "rank_fields": ["title"]}, "documents.0.text"),
        ({"rank_fields": []}, "rank_fields"),
    ],
)
def test_bad_input_is_named(client: FlaskClient, fields: dict[str, Any], field: str) -> None:
    response = client.post("/v1/rerank", json=ASKED | fields)
    assert (response.status_code, response.get_json()["field"]) == (400, field)
    assert response.get_json()["message"] == response.get_json()["detail"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"texts": None}, "texts"),
        ({"texts": [{"text": "a"}]}, "texts.0"),
        ({"truncation_direction": "left"}, "truncation_direction"),
        ({"documents": ["a"]}, "documents"),
    ],
)
def test_bad_texts_are_named(client: FlaskClient, fields: dict[str, Any], field: str) -> None:
    response = client.post("/rerank", json={"query": "a", "texts": ["b"]} | fields)
    assert (response.status_code, response.get_json()["field"]) == (400, field)


def test_another_model_is_not_there(client: FlaskClient) -> None:
    response = client.post("/v1/rerank", json=ASKED | {"model": "rerank-v3.5"})
    assert response.status_code == 404
    assert f"this server reranks with {MODEL}" in response.get_json()["detail"]


@pytest.mark.parametrize(("url", "name"), [("/v1/rerank", "documents"), ("/rerank", "texts")])
def test_without_a_cross_encoder_it_is_not_set_up(
    client: FlaskClient, retriever: FakeRetriever, url: str, name: str
) -> None:
    retriever.rerank_model = None
    response = client.post(url, json={"query": "a", name: ["b"]})
    assert response.status_code == 501
    assert "set rerank_model" in response.get_json()["detail"]


def test_a_search_may_ask_for_it(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert client.post("/api/v1/search", json={"query": "a", "rerank": True}).status_code == 200
    assert client.get("/api/v1/search?q=a&rerank=true").status_code == 200
    assert client.get("/api/v1/search?q=a").status_code == 200
    assert [request.rerank for request in retriever.requests] == [True, True, False]


def test_too_late_is_503(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.error = DeadlinePassed()
    assert client.post("/v1/rerank", json=ASKED).status_code == 503


def test_a_key_is_needed_where_searching_needs_one(retriever: FakeRetriever) -> None:
    app = create_app(retriever, Settings(anonymous="none"))
    for url, name in (("/v1/rerank", "documents"), ("/rerank", "texts")):
        assert app.test_client().post(url, json={"query": "a", name: ["b"]}).status_code == 401


def test_models_and_readiness_name_it(client: FlaskClient, retriever: FakeRetriever) -> None:
    assert [model["id"] for model in client.get("/v1/models").get_json()["data"]] == ["all-MiniLM-L6-v2", MODEL]
    assert client.get("/readyz").get_json()["rerank_model"] == MODEL
    retriever.rerank_model = None
    assert len(client.get("/v1/models").get_json()["data"]) == 1
    assert "rerank_model" not in client.get("/readyz").get_json()
