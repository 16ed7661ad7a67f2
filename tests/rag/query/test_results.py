"""What hits say of themselves, and which headings of an index are offered as questions."""

import pytest

from indexer.generation.documents import DocumentFacts
from indexer.generation.generation import Generation
from rag.query.headings import sample_headings
from rag.query.results import count_facets, split_sentences
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "It burns gas. The flame is small! Is it lit now?",
            ["It burns gas.", "The flame is small!", "Is it lit now?"],
        ),
        ("“It is always lit.” So he said, again.", ["“It is always lit.”", "So he said, again."]),
        ("Version 17.2 of the manual. Ok.", ["Version 17.2 of the manual."]),
        ("A heading line\n\n  an item of it\n", ["A heading line", "an item of it"]),
        (
            "小さな火はいつも燃えています。水をかけてはいけません！",
            ["小さな火はいつも燃えています。", "水をかけてはいけません！"],
        ),
        ("no end of a sentence", ["no end of a sentence"]),
        ("...", []),
        ("", []),
    ],
)
def test_sentences_and_lines_are_told_apart(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def facts(url: str, source: str = "https://a.example/", language: str | None = "en") -> DocumentFacts:
    return DocumentFacts(url, source, language, "text/html", None)


def pairs(documents: list[DocumentFacts], name: str) -> list[tuple[str, int]]:
    return [(share["value"], share["count"]) for share in count_facets(documents)[name]]


def test_values_are_counted_most_frequent_first() -> None:
    found = [
        facts("https://a.example/x", language="de"),
        facts("https://a.example/y"),
        facts("https://a.example/z"),
        facts("http://[bad/docs/a", "/srv", None),
    ]
    assert pairs(found, "language") == [("en", 2), ("de", 1)]
    assert pairs(found, "source") == [("https://a.example/", 3), ("/srv", 1)]
    assert pairs(found, "content_type") == [("text/html", 4)]
    assert pairs(found, "path") == []


@pytest.mark.parametrize(
    ("paths", "shares"),
    [
        (("/", "/faq.html", "/docs/a", "/docs/17/b", "/blog/"), [("/docs", 2), ("/blog", 1)]),
        (
            ("/docs/en/17/a.html", "/docs/en/18/b.html", "/docs/en/18/x/c.html", "/docs/en/index.html"),
            [("/docs/en/18", 2), ("/docs/en/17", 1)],
        ),
        (("/docs/a", "/docs/b"), []),
        (("/docs/17/a",), []),
    ],
)
def test_a_path_is_the_first_folder_below_what_all_share(paths: tuple[str, ...], shares: list[tuple[str, int]]) -> None:
    assert pairs([facts(f"https://a.example{path}") for path in paths], "path") == shares


def test_they_are_taken_from_all_over_the_index(site) -> None:
    for number, name in enumerate("alpha beta gamma delta epsilon zeta eta theta iota".split()):
        (site.source / f"{number}.md").write_text(f"# About {name} in detail\n\nWords of {name}.\n", encoding="utf-8")
    site.build()
    retriever = Retriever(Generation.open(site.index), DummyEmbedder())
    found = sample_headings(retriever.generation)
    assert {"About alpha in detail", "About iota in detail"} <= set(found)
    assert retriever.headings == found
