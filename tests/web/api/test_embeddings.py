"""Vectors over REST, for our own clients and for OpenAI's."""

import base64
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.serving import make_server

from rag.errors import NotReady
from tests.dummy import DummyEmbedder
from tests.web.fakes import FakeRetriever

URL = "/api/v1/embeddings"
OPENAI = "/v1/embeddings"
MODEL = "all-MiniLM-L6-v2"
TEXTS = ["a partial index", "vacuum"]


def expected(texts: list[str]) -> Any:
    return DummyEmbedder(dimension=8).encode(texts)


def test_one_vector_for_each_text(client: FlaskClient) -> None:
    body = client.post(URL, json={"input": TEXTS}).get_json()
    assert (body["model"], body["dimension"], body["tokens"]) == (MODEL, 8, 5 + 3)
    np.testing.assert_array_equal(np.array(body["embeddings"], np.float32), expected(TEXTS))
    assert client.post(URL, json={"input": "vacuum"}).get_json()["embeddings"] == [expected(["vacuum"])[0].tolist()]


@pytest.mark.parametrize(("given", "role"), [({}, "document"), ({"role": "query"}, "query")])
@pytest.mark.parametrize("url", [URL, OPENAI])
def test_the_role_reaches_the_model(
    client: FlaskClient,
    retriever: FakeRetriever,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    given: dict[str, str],
    role: str,
) -> None:
    roles = []
    embed = retriever.embed

    def noting(texts: list[str], role: Any, model: str) -> Any:
        roles.append(role)
        return embed(texts, role, model)

    monkeypatch.setattr(retriever, "embed", noting)
    model = {"model": MODEL} if url == OPENAI else {}
    assert client.post(url, json={"input": "a", **given, **model}).status_code == 200
    assert roles == [role]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "input"),
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input.1"),
        ({"input": [[1, 2]]}, "input"),
        ({"input": [1, 2]}, "input"),
        ({"input": ["a\ud800"]}, "input.0"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a" * 100_001}, "input"),
        ({"input": "a", "role": "passage"}, "role"),
        ({"input": "a", "texts": "b"}, "texts"),
    ],
)
@pytest.mark.parametrize("url", [URL, OPENAI])
def test_bad_input_is_named(client: FlaskClient, url: str, fields: dict[str, Any], field: str) -> None:
    response = client.post(url, json=fields | ({"model": MODEL} if url == OPENAI else {}))
    assert (response.status_code, response.get_json()["field"]) == (400, field)


def test_while_the_model_loads(client: FlaskClient, retriever: FakeRetriever) -> None:
    retriever.error = NotReady("loading")
    assert client.post(URL, json={"input": "a"}).status_code == 503


def test_openai_answer(client: FlaskClient) -> None:
    body = client.post(OPENAI, json={"model": MODEL, "input": TEXTS, "user": "me", "dimensions": 8}).get_json()
    assert body == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(expected(TEXTS))
        ],
        "model": MODEL,
        "usage": {"prompt_tokens": 8, "total_tokens": 8},
    }
    encoded = client.post(OPENAI, json={"model": MODEL, "input": "vacuum", "encoding_format": "base64"}).get_json()
    raw = base64.b64decode(encoded["data"][0]["embedding"])
    np.testing.assert_array_equal(np.frombuffer(raw, "<f4"), expected(["vacuum"])[0])


@pytest.mark.parametrize(
    ("fields", "status", "field"),
    [
        ({"model": "text-embedding-3-small"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"dimensions": 7}, 400, "dimensions"),
        ({"dimensions": 0}, 400, "dimensions"),
        ({"encoding_format": "int8"}, 400, "encoding_format"),
        ({"user": 1}, 400, "user"),
    ],
)
def test_what_openai_allows_and_we_do_not(
    client: FlaskClient, fields: dict[str, Any], status: int, field: str | None
) -> None:
    response = client.post(OPENAI, json={"model": MODEL, "input": "a", **fields})
    assert (response.status_code, response.get_json().get("field")) == (status, field)


@pytest.fixture
def theirs(app: Flask) -> Iterator[openai.OpenAI]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0) as client:
        yield client
    server.shutdown()
    thread.join()
    server.server_close()


def test_their_own_client(theirs: openai.OpenAI) -> None:
    assert [model.id for model in theirs.models.list()] == [MODEL]
    answer = theirs.embeddings.create(model=MODEL, input=TEXTS)  # in base64, which is what the client asks for
    np.testing.assert_allclose([one.embedding for one in answer.data], expected(TEXTS))
    assert answer.usage.total_tokens == 8
    floats = theirs.embeddings.create(model=MODEL, input="vacuum", encoding_format="float")
    assert floats.data[0].embedding == expected(["vacuum"])[0].tolist()
    with pytest.raises(openai.NotFoundError, match="there are: all-MiniLM-L6-v2"):
        theirs.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.BadRequestError, match="dimensions must be 8"):
        theirs.embeddings.create(model=MODEL, input="a", dimensions=4)


@pytest.mark.parametrize("name", ["encoding_format", "dimensions", "user", "role"])
def test_null_is_a_field_left_out(client: FlaskClient, name: str) -> None:
    asked = {"model": MODEL, "input": "vacuum"}
    assert client.post(OPENAI, json={**asked, name: None}).get_json() == client.post(OPENAI, json=asked).get_json()


def test_numbers_of_tokens_are_refused_with_the_option_that_sends_texts(client: FlaskClient) -> None:
    detail = client.post(OPENAI, json={"model": MODEL, "input": [[1, 2], [3]]}).get_json()["detail"]
    assert "check_embedding_ctx_length=False" in detail


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        (OPENAI, {"model": MODEL, "input": ""}, 400, ("invalid_request_error", "input", None)),
        (OPENAI, {"model": "gpt-5", "input": "a"}, 404, ("invalid_request_error", "model", "model_not_found")),
        ("/v1/chat/completions", {}, 404, ("invalid_request_error", None, "model_not_found")),
        ("/v1/rerank", {"query": "a", "documents": []}, 400, ("invalid_request_error", "documents", None)),
    ],
)
def test_errors_have_the_form_of_openai_too(
    client: FlaskClient, path: str, body: dict[str, Any], status: int, error: tuple[str, str | None, str | None]
) -> None:
    answer = client.post(path, json=body)
    told = answer.get_json()
    assert answer.status_code == told["status"] == status
    assert told["error"] == dict(zip(("type", "param", "code"), error, strict=True)) | {"message": told["detail"]}


def test_errors_elsewhere_are_problems_alone(client: FlaskClient) -> None:
    assert "error" not in client.post(URL, json={"input": ""}).get_json()


def test_one_model(client: FlaskClient) -> None:
    assert client.get(f"/v1/models/{MODEL}").get_json() == client.get("/v1/models").get_json()["data"][0]
    answer = client.get("/v1/models/sentence-transformers/another")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (404, "model_not_found")
