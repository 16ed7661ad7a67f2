"""What a running server tells of its documents, and of its model."""

import zipfile
from unittest.mock import ANY

import pytest

from rag.errors import DocumentMissing, OriginalMissing
from rag.query.request import Filter, SearchRequest
from tests.rag.conftest import wait_for


def test_a_hit_leads_to_its_document_in_every_generation(site, live):
    site.build()
    live.start()
    hit = live.search(SearchRequest("dead tuples", k=1)).hits[0]
    before = live.document(hit.document)
    assert (before["title"], before["url"]) == ("Vacuum", hit.url.partition("#")[0])
    assert hit.text in [passage["text"] for passage in before["passages"]]
    newest = site.build()
    wait_for(lambda: live.status()["generation"] == newest)
    assert live.document(hit.document) == before | {"generation": newest, "fetched_at": ANY}
    for unknown in ("0" * 32, "", "x", hit.document.upper(), hit.document + "0"):
        with pytest.raises(DocumentMissing, match="there is no document"):
            live.document(unknown)


def test_originals_are_those_of_documents_and_of_what_holds_them(site, live):
    with zipfile.ZipFile(site.source / "old notes.zip", "w") as archive:
        archive.writestr("deep/zebra.md", "# Zebras\n\nStripes of the zebra, in an archive.\n")
    site.build()
    live.start()
    hits = {
        query: live.search(SearchRequest(query, k=1, mode="lexical")).hits[0]
        for query in ("dead tuples", "zebra stripes")
    }
    name, file = live.original(hits["zebra stripes"].document)
    with file:
        assert name == "old notes.zip"
        assert file.read() == (site.source / name).read_bytes()
    name, file = live.original(hits["dead tuples"].document)
    file.close()
    path = site.source / name
    assert path.as_uri() == hits["dead tuples"].url.partition("#")[0]
    secret = site.source.parent / "secret.txt"
    secret.write_text("outside")
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(OriginalMissing, match="not where it was"):
        live.original(hits["dead tuples"].document)
    with pytest.raises(DocumentMissing):
        live.original("0" * 32)


def test_what_a_page_has_more_of_is_counted_and_can_be_had(site, live):
    parts = [
        f"## Part {part}\n\nAlpha facts: " + " ".join(f"word{part}x{place}" for place in range(60)) + ".\n"
        for part in range(5)
    ]
    (site.source / "long.md").write_text("# Long\n\n" + "\n".join(parts))
    site.build()
    live.start()
    few = live.search(SearchRequest("alpha facts", mode="lexical")).hits
    own = [hit for hit in few if hit.title == "Long"]
    assert len(own) == 2
    assert {hit.more for hit in own} == {own[0].more} != {0}
    page = Filter.parse({"url_prefix": own[0].url.partition("#")[0]})
    every = live.search(SearchRequest("alpha facts", mode="lexical", filter=page, per_document=0)).hits
    assert len(every) == 2 + own[0].more
    assert {hit.more for hit in every} == {0}
