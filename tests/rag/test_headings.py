"""Which headings of an index are offered as questions."""

from rag.headings import sample_headings, worth_asking
from rag.retriever import Retriever
from tests.dummy import DummyEmbedder


def test_questions_come_first_and_names_of_functions_never() -> None:
    names = [
        "11.8. Partial Indexes in Practice",
        "How do I start",
        "What is it?",
        "max_connections (integer)",
        "Introduction",
        "43.10.2. Triggers on Events",
        "Triggers on Events",
        "std::vec",
        "A heading of so many words that nobody would ever want to press it here",
    ]
    assert worth_asking(names) == [
        "How do I start?",
        "What is it?",
        "Partial Indexes in Practice",
        "Triggers on Events",
    ]


def test_they_are_taken_from_all_over_the_index(site) -> None:
    for number in range(9):
        name = "alpha beta gamma delta epsilon zeta eta theta iota".split()[number]
        (site.source / f"{number}.md").write_text(f"# About {name} in detail\n\nWords of {name}.\n", encoding="utf-8")
    site.build()
    retriever = Retriever.open(site.index, DummyEmbedder())
    found = sample_headings(retriever.generation)
    assert {"About alpha in detail", "About iota in detail"} <= set(found)
    assert retriever.headings == found
