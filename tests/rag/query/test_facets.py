from indexer.generation.catalogue import DocumentFacts
from rag.query.facets import FACETS, MOST, count_facets


def facts(url: str, source: str = "https://a.example/", language: str | None = "en") -> DocumentFacts:
    return DocumentFacts(url, source, language, "text/html")


def pairs(documents: list[DocumentFacts], name: str) -> list[tuple[str, int]]:
    return [(share["value"], share["count"]) for share in count_facets(documents)[name]]


def test_values_are_counted_most_frequent_first() -> None:
    found = [
        facts("https://a.example/x", language="de"),
        facts("https://a.example/y"),
        facts("https://a.example/z"),
        facts("file:///srv/b.md", "/srv", None),
    ]
    assert pairs(found, "language") == [("en", 2), ("de", 1)]
    assert pairs(found, "source") == [("https://a.example/", 3), ("/srv", 1)]
    assert pairs(found, "content_type") == [("text/html", 4)]


def test_nothing_found_has_every_facet_empty() -> None:
    assert count_facets([]) == {name: [] for name in FACETS}


def test_only_the_most_frequent_values_are_named_and_equals_come_by_name() -> None:
    found = [facts("https://a.example/", language=f"{letter}{other}") for letter in "zyx" for other in "cba" * 2]
    assert pairs(found, "language")[:2] == [("xa", 2), ("xb", 2)]
    many = [facts(f"https://a.example/{number}/") for number in range(50)]
    assert len(pairs(many, "path")) == MOST


def test_a_path_is_the_first_folder() -> None:
    found = [facts(f"https://a.example{path}") for path in ("/", "/faq.html", "/docs/a", "/docs/17/b", "/blog/")]
    assert pairs(found, "path") == [("/docs", 2), ("/blog", 1)]


def test_folders_that_all_share_are_passed_over() -> None:
    paths = ("/docs/en/17/a.html", "/docs/en/18/b.html", "/docs/en/18/x/c.html", "/docs/en/index.html")
    found = [facts(f"https://a.example{path}") for path in paths]
    assert pairs(found, "path") == [("/docs/en/18", 2), ("/docs/en/17", 1)]
    assert pairs([facts("https://a.example/docs/a"), facts("https://a.example/docs/b")], "path") == []
    assert pairs([facts("https://a.example/docs/17/a")], "path") == []


def test_an_address_that_is_none_has_no_folder() -> None:
    assert pairs([facts("http://[bad/docs/a"), facts("mailto:a"), facts("")], "path") == []
