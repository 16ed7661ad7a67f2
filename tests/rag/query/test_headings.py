"""Which headings of an index are offered as questions."""

import pytest

from rag.query.headings import OFFERED, sample_headings, worth_asking
from rag.query.retriever import Retriever
from tests.dummy import DummyEmbedder


def test_questions_come_first_then_tasks_then_phrases() -> None:
    names = [
        "11.8. Partial Indexes in Practice",
        "How do I start the server",
        "Chapter 3. Installing the package",
        "Read the sources again",
        "How to restore a single file",
        "Who answers for an error?",
    ]
    assert [set(worth_asking((f"{at}", name) for at, name in enumerate(names))[slice(*part)]) for part in PARTS] == [
        {"How do I start the server?", "How to restore a single file", "Who answers for an error?"},
        {"Installing the package", "Read the sources again"},
        {"Partial Indexes in Practice"},
    ]


PARTS = [(0, 3), (3, 5), (5, 6)]


@pytest.mark.parametrize(
    "name",
    [
        "Description",
        "See Also",
        "What all commands share",
        "When something fails",
        "On the command line",
        "How to use",
        "max_connections (integer)",
        "43.10.2.",
        "std::vec",
        "Calling it from Python",
        "It ends in a full stop.",
        "A heading of so many words that nobody would ever want to press it here",
    ],
)
def test_what_says_too_little_or_is_no_question_is_no_question(name: str) -> None:
    found = worth_asking([("a", name), ("b", "Why is the first start slow?")])
    assert found[0] == "Why is the first start slow?"
    assert not any(text.startswith(name) and text.endswith("?") for text in found)


def test_what_several_documents_have_is_not_offered() -> None:
    names = [("a", "Reporting bugs to us"), ("b", "Reporting Bugs to Us"), ("b", "Reading the whole log")]
    assert worth_asking(names) == ["Reading the whole log"]


def test_documents_take_turns() -> None:
    names = [("faq", f"Why is thing {'abcdefghijklmnop'[at]} like this?") for at in range(16)]
    names = [(document, text.replace("this", "that")) for document, text in names]
    found = worth_asking([*names, ("guide", "Installing the package"), ("notes", "Partial indexes in practice")])
    assert found[0].startswith("Why is")
    assert found[1:3] == ["Installing the package", "Partial indexes in practice"]
    assert len(found) == OFFERED


def test_they_are_taken_from_all_over_the_index(site) -> None:
    for number in range(9):
        name = "alpha beta gamma delta epsilon zeta eta theta iota".split()[number]
        (site.source / f"{number}.md").write_text(f"# About {name} in detail\n\nWords of {name}.\n", encoding="utf-8")
    site.build()
    retriever = Retriever.open(site.index, DummyEmbedder())
    found = sample_headings(retriever.generation)
    assert {"About alpha in detail", "About iota in detail"} <= set(found)
    assert retriever.headings == found
