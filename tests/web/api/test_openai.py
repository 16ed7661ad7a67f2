"""Embedding and reranking as clients of OpenAI, Cohere and Jina ask for it."""

import base64
from typing import Any

import numpy as np
import openai
import pytest

from rag.errors import DeadlinePassed, NotReady
from rag.settings import Settings
from tests.dummy import DummyEmbedder
from tests.web.running import running
from web.app import create_app

EMBED, RERANK = "/v1/embeddings", "/v1/rerank"
MODEL, RERANKER = "all-MiniLM-L6-v2", "dummy-cross"
TEXTS = ["a partial index", "vacuum"]
DOCUMENTS = ["an index", "vacuum the table", "vacuum"]
RANKING = {"query": "vacuum", "documents": DOCUMENTS}


@pytest.fixture(autouse=True)
def model(retriever):
    retriever.rerank_model = RERANKER


def expected(texts: list[str]) -> Any:
    return DummyEmbedder(dimension=8).encode(texts)


def test_vectors(client):
    body = client.post(EMBED, json={"model": MODEL, "input": TEXTS, "user": "me", "dimensions": 8}).get_json()
    assert body == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(expected(TEXTS))
        ],
        "model": MODEL,
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    plain = dict.fromkeys(("model", "encoding_format", "dimensions", "user", "role"))  # null is a field left out
    assert client.post(EMBED, json={"input": TEXTS, **plain}).get_json() == body
    encoded = client.post(EMBED, json={"input": "vacuum", "encoding_format": "base64"}).get_json()
    raw = base64.b64decode(encoded["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), expected(["vacuum"])[0])


def test_the_client_of_openai(app):
    with running(app) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as theirs:
        assert [model.id for model in theirs.models.list()] == [MODEL, RERANKER]
        assert theirs.models.retrieve(MODEL).id == MODEL
        with pytest.raises(openai.NotFoundError, match="no model"):
            theirs.models.retrieve("gpt-5")
        answer = theirs.embeddings.create(model=MODEL, input=TEXTS)  # in base64, which this client asks for
        np.testing.assert_allclose([one.embedding for one in answer.data], expected(TEXTS))
        floats = theirs.embeddings.create(model=MODEL, input="vacuum", encoding_format="float")
        assert floats.data[0].embedding == expected(["vacuum"])[0].tolist()
        with pytest.raises(openai.NotFoundError, match="there are: all-MiniLM-L6-v2"):
            theirs.embeddings.create(model="gpt", input="a")
        with pytest.raises(openai.BadRequestError, match="dimensions must be 8"):
            theirs.embeddings.create(model=MODEL, input="a", dimensions=4)


def test_documents_are_ranked(client, retriever):
    body = client.post(RERANK, json=RANKING).get_json()
    assert [result["index"] for result in body["results"]] == [2, 1, 0]
    scores = [result["relevance_score"] for result in body["results"]]
    assert 1 > scores[0] > scores[1] > scores[2] > 0
    assert (body["model"], body["usage"]) == (RERANKER, {"prompt_tokens": 9, "total_tokens": 9})
    assert all(set(result) == {"index", "relevance_score"} for result in body["results"])
    ignored = {"priority": 5, "truncation": True, "max_tokens_per_doc": 100, "top_n": 50, "return_documents": None}
    assert client.post(RERANK, json=RANKING | ignored).get_json()["results"] == body["results"]
    texts = [{"text": text, "title": "left alone"} for text in DOCUMENTS]
    options = {"model": RERANKER, "top_n": 2, "return_documents": True, "max_chunks_per_doc": 10}
    best = client.post(RERANK, json={"query": "vacuum", "documents": texts, **options}).get_json()["results"]
    assert [result["document"] for result in best] == [{"text": "vacuum"}, {"text": "vacuum the table"}]


def test_fields_of_documents_are_read_in_the_order_asked_for(client, retriever, monkeypatch):
    read: list[list[str]] = []
    rerank = retriever.rerank
    monkeypatch.setattr(retriever, "rerank", lambda query, texts: read.append(texts) or rerank(query, texts))
    documents = [{"text": "b", "title": "a", "author": None, "year": 2026}, "c", {"text": "d"}]
    asked = {"query": "a", "documents": documents, "rank_fields": ["title", "author", "year"], "priority": 1}
    assert client.post(RERANK, json=asked | {"truncation": True}).status_code == 200
    assert read == [["a\n2026", "c", "d"]]


WRONG = {  # by path, field and status: fields of the request
    (EMBED, "input", 400): [{"input": x} for x in (None, [], ["a"] * 2049, "a" * 100_001)],
    (EMBED, "input[1]", 400): ({"input": ["a", ""]},),
    (EMBED, "role", 400): ({"role": "passage"},),
    (EMBED, "dimensions", 400): ({"dimensions": 7},),
    (EMBED, "encoding_format", 400): ({"encoding_format": "int8"},),
    (EMBED, "model", 404): ({"model": "text-embedding-3-small"},),
    (RERANK, "query", 400): ({"query": ""},),
    (RERANK, "documents", 400): ({"documents": []}, {"documents": ["a"] * 1001}),
    (RERANK, "documents[1]", 400): [{"documents": ["a", each]} for each in ("", ["b"], {"title": "b"}, {"text": ""})],
    (RERANK, "top_n", 400): ({"top_n": 0},),
    (RERANK, None, 404): ({"model": "rerank-v3.5"},),
}


def test_errors_name_the_field_in_the_form_of_openai_too(client):
    for (path, field, status), several in WRONG.items():
        for fields in several:
            answer = client.post(path, json=({"input": "a"} if path == EMBED else RANKING) | fields)
            body = answer.get_json()
            assert (answer.status_code, body.get("field")) == (status, field)
            code = "model_not_found" if status == 404 else None
            expected = {"message": body["detail"], "type": "invalid_request_error", "param": field, "code": code}
            assert body["error"] == expected
            assert body["message"] == body["detail"]


def test_other_errors(client, retriever):
    detail = client.post(EMBED, json={"input": [[1, 2], [3]]}).get_json()["detail"]
    assert "check_embedding_ctx_length=False" in detail
    retriever.error = NotReady("loading")
    assert client.post(EMBED, json={"input": "a"}).status_code == 503
    retriever.error = DeadlinePassed()
    assert client.post(RERANK, json=RANKING).status_code == 503
    retriever.rerank_model = None
    response = client.post(RERANK, json=RANKING)
    assert response.status_code == 501
    assert "set rerank_model" in response.get_json()["detail"]
    assert "rerank_model" not in client.get("/readyz").get_json()
    locked = create_app(retriever, Settings(anonymous="none")).test_client()
    assert locked.post(RERANK, json=RANKING).status_code == 401
