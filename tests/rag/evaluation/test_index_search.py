from rag.evaluation.index_search import by_document, search_index
from rag.query.request import SearchRequest
from rag.query.results import Answer, Hit


class Found:
    """Stands in for a retriever: gives the hits that it was made with, addresses and those of their duplicates."""

    def __init__(self, *hits):
        self.hits = hits
        self.requests = []

    def search(self, request: SearchRequest) -> Answer:
        self.requests.append(request)
        facts = {"id": "", "title": "", "section": "", "text": "", "highlights": [], "score": 0.0, "scores": {}}
        facts |= {"language": None, "date": None, "content_type": "", "metadata": {}}
        hits = [
            Hit(rank=rank, url=url, duplicates=list(duplicates), **facts)
            for rank, (url, *duplicates) in enumerate(self.hits, start=1)
        ]
        return Answer(request.query, hits, {}, "g")


def ranked(judged, *hits, **options):
    run = search_index(Found(*hits), {"q": "cats"}, {"q": judged}, **options)
    return sorted(run["q"], key=lambda url: -run["q"][url])


def test_documents_stand_in_the_order_of_their_hits():
    assert ranked({}, ("https://a.test/1#x",), ("https://a.test/2",)) == ["https://a.test/1", "https://a.test/2"]


def test_a_document_that_was_left_out_for_its_copy_has_its_place():
    hits = ("https://a.test/copy#x", "https://a.test/other", "https://a.test/judged#y"), ("https://a.test/2",)
    assert ranked({"https://a.test/judged": 1}, *hits) == ["https://a.test/judged", "https://a.test/2"]
    assert ranked({"https://a.test/judged": 0}, *hits) == ["https://a.test/copy", "https://a.test/2"]
    assert ranked({"https://a.test/judged": 1, "https://a.test/copy": 1}, *hits)[0] == "https://a.test/copy"


def test_each_document_counts_by_its_best_passage():
    found = Found(("https://a.test/1",))
    search_index(found, {"q": "cats"}, {"q": {}}, mode="dense")
    [request] = found.requests
    assert (request.per_document, request.k, request.mode) == (1, 100, "dense")


def test_judgements_of_passages_are_of_their_documents():
    judged = {"https://a.test/1#x": 1, "https://a.test/1#y": 2, "https://a.test/2": 0}
    assert by_document({"q": judged}) == {"q": {"https://a.test/1": 2, "https://a.test/2": 0}}
