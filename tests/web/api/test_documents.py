"""Whole documents over REST."""

import json

import pytest

from rag.errors import NotReady
from tests.web.fakes import make_hit

URL = "/api/v1/documents"


def test_a_hit_leads_to_its_document(client, retriever):
    retriever.hits = [make_hit(1), make_hit(2)]
    hit = client.get("/api/v1/search?q=a").get_json()["hits"][1]
    document = client.get(f"{URL}/{hit['document']}").get_json()
    assert (document["id"], document["generation"]) == (hit["document"], "g1")
    assert document["passages"] == [{name: hit[name] for name in ("id", "url", "section", "text")}]


@pytest.mark.parametrize("id", ["0" * 32, "x", "%00", "é", " "])
def test_unknown_document(client, id):
    response = client.get(f"{URL}/{id}")
    assert (response.status_code, response.get_json()["field"]) == (404, "id")


@pytest.mark.parametrize("path", ["", "/x"])
def test_collection_is_the_only_field(client, path):
    assert client.get(f"{URL}{path}?collection=nowhere").get_json()["field"] == "collection"
    response = client.get(f"{URL}{path}?k=1")
    assert (response.status_code, response.get_json()["field"]) == (400, "k")


def test_export_is_one_document_a_line(client, retriever):
    retriever.hits = [make_hit(1, title="Ünïcode\u2028"), make_hit(2)]
    response = client.get(URL)
    assert response.content_type == "application/jsonl"
    lines = [json.loads(line) for line in response.data.decode().split("\n")[:-1]]
    assert [line["title"] for line in lines] == ["Ünïcode\u2028", "Partial Indexes"]


def test_exports_are_bounded(client, retriever):
    retriever.hits = [make_hit(rank) for rank in range(1, 4)]
    under_way = [client.get(URL, buffered=False) for _ in range(4)]
    assert client.get(URL).status_code == 503
    under_way[0].close()  # the client has left in the middle
    assert client.get(URL).status_code == 200
    for response in under_way[1:]:
        assert response.data.count(b"\n") == 3


def test_export_while_nothing_is_loaded(client, retriever):
    retriever.error = NotReady("loading")
    assert client.get(URL).status_code == 503
