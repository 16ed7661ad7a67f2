"""The page of changes, and its JSON."""

from tests.web.test_problems import assert_problem

JSON = {"Accept": "application/json"}


def test_the_page_shows_sections_and_sentences(client):
    page = client.get("/changes")
    assert page.mimetype == "text/html"
    text = " ".join(page.text.split())
    assert "From 2026-11-20 04:00 UTC to 2026-11-27 04:00 UTC: 1 rewritten, 1 renamed in 2 documents." in text
    assert "<del>It is 4 MB.</del> <ins>It is 8 &lt;b&gt;.</ins>" in text
    assert "docs.example/old.html</p>" in text
    assert "renamed from “One”" in text
    assert '<a href="/changes?since=g0&amp;collection=default" aria-current="page">' in text


def test_json(client):
    body = client.get("/changes?limit=1&since=&path=/docs", headers=JSON).get_json()
    assert body["counts"] == {"documents": 2, "rewritten": 1, "renamed": 1}
    [document] = body["documents"]
    assert document["sections"][0]["edits"] == [{"old": "It is 4 MB.", "new": "It is 8 <b>."}]
    assert_problem(client.get("/changes?limit=0", headers=JSON), 400)
    assert_problem(client.get("/changes?colour=red", headers=JSON), 400)
    assert_problem(client.get("/changes?collection=gone", headers=JSON), 404)
