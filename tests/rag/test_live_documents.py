"""What a running server tells of its documents, and of its model."""

from unittest.mock import ANY

import pytest

from rag.errors import DocumentMissing, NotReady
from tests.dummy import DummyEmbedder
from tests.rag.conftest import wait_for


def test_a_hit_leads_to_its_document_in_every_generation(site, live):
    site.build()
    live.start()
    hit = live.search("dead tuples", k=1).hits[0]
    before = live.document(hit.document)
    assert (before["title"], before["url"]) == ("Vacuum", hit.url.partition("#")[0])
    assert hit.text in [passage["text"] for passage in before["passages"]]
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.document(hit.document) == before | {"generation": newest, "fetched_at": ANY}
    for unknown in ("0" * 32, "", "x", hit.document.upper(), hit.document + "0"):
        with pytest.raises(DocumentMissing, match="there is no document"):
            live.document(unknown)


def test_documents_are_of_one_generation(site, live):
    first = site.build()
    live.start()
    wait_for(lambda: live.ready)
    documents = live.documents()
    (site.source / "new.md").write_text("# New\n\nfresh page\n")
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert {document["generation"] for document in documents} == {first}
    assert len(list(live.documents())) == 4


def test_vectors_and_tokens(site, live):
    with pytest.raises(NotReady):
        live.embed(["a"])
    site.build()
    live.start()
    texts = [f"text number {number}" for number in range(70)]  # more than one run of the model takes
    assert live.embed(texts).shape == (70, 64)
    assert (live.embed(texts, "query") == DummyEmbedder().encode(texts)).all()
    assert live.embed([]).shape == (0, 64)
    assert live.count_tokens(["one two"]) == [4]


def test_describe(site, live):
    generation = site.build()
    live.start()
    described = live.describe()
    assert (described["generation"], described["sources"]) == (generation, [str(site.source)])
    assert described["report"]["new"]["count"] == 3
    assert described["settings"]["chunk"]["tokens"] == 200


def test_whether_nothing_was_ever_built(site, live):
    live.start()
    wait_for(lambda: live.status()["missing"])
    site.build()
    wait_for(lambda: live.ready)
    assert live.status()["missing"] is False
