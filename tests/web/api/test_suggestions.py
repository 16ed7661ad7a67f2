"""What is suggested while somebody types, over the API."""

from rag.query.request import Filter
from rag.query.results import Suggestion
from rag.serving.live import LiveRetriever
from rag.settings import load
from tests.dummy import DummyEmbedder
from tests.rag.conftest import Site, wait_for
from web.app import create_app

URL = "/api/v1/suggest"


def test_fields_reach_the_retriever(client, retriever):
    retriever.suggestions = [Suggestion("Partial Indexes", "title"), Suggestion("How is it partial?", "question")]
    answer = client.get(URL + "?q=partial&k=3&collection=notes&language=en&language=de&meta.team=core").get_json()
    assert answer == {
        "suggestions": [
            {"text": "Partial Indexes", "kind": "title"},
            {"text": "How is it partial?", "kind": "question"},
        ]
    }
    only = Filter.parse({"language": ["de", "en"], "metadata": {"team": "core"}})
    assert retriever.typed == [("partial", "notes", only, 3)]


def test_titles_headings_and_questions_of_a_real_index(tmp_path):
    site = Site(tmp_path)
    (site.source / "more.md").write_text("# 2. Vacuum twice\n\n## Vacuum\n\nSome words.\n", encoding="utf-8")
    site.build()
    settings = load({"index": str(site.index)}, {})
    retriever = LiveRetriever(settings, lambda _: DummyEmbedder())
    retriever.start()
    try:
        wait_for(lambda: retriever.ready)
        client = create_app(retriever, settings).test_client()

        def suggested(**fields: str) -> list[tuple[str, str]]:
            found = client.get(URL, query_string=fields).get_json()["suggestions"]
            return [(each["text"], each["kind"]) for each in found]

        assert suggested(q="vac") == [("Vacuum", "title"), ("Vacuum twice", "title")]
        assert suggested(q="vac", path=str(site.source / "more.md")) == [
            ("Vacuum", "heading"),
            ("Vacuum twice", "title"),
        ]
        assert suggested(q="vac", path=str(site.source / "nowhere")) == []
        assert suggested(q="Vacuum") == [("Vacuum twice", "title")]  # not what is there already
        assert suggested(q="v") == suggested(q="v" * 201) == []
    finally:
        retriever.close()
